"""How every row is measured, ours and theirs alike: one core, processor time, warm-up first."""

import json
import os
import sys
import time
from collections.abc import Callable

SECONDS = 1.0
"""Processor time that one measurement takes at least."""

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "PYGAME_HIDE_SUPPORT_PROMPT": "1",
}
"""The environment of every measurement."""

Run = Callable[[], int]
"""A chunk of work, some 10 ms or more; returns how many steps it took."""

Rows = dict[str, Callable[[], float]]
"""Measurements by name. Each sets up, measures, and returns steps a second (or seconds)."""


def use_one_core() -> None:
    """Stay on one core from now on, where the system allows it; before jax is imported."""
    os.environ.update(ONE_THREAD)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def rate(run: Run, seconds: float = SECONDS) -> float:
    """Steps per second of processor time; the first chunk, which may compile, does not count.

    Processor time rather than the clock: what other processes do matters less.
    """
    run()
    steps, start = 0, time.process_time()
    while True:
        steps += run()
        elapsed = time.process_time() - start
        if elapsed >= seconds:
            return steps / elapsed


def command_line(rows: Rows) -> None:
    """Measure the row that the command line names and print its value as one line of JSON."""
    if len(sys.argv) != 2 or sys.argv[1] not in rows:
        sys.exit(f"name one row: {', '.join(rows)}")
    use_one_core()
    print(json.dumps(rows[sys.argv[1]]()))
