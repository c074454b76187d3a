"""Measure ours and theirs in turn and print the table: `make bench` (docs/benchmarks.md).

Every measurement is a process of its own, so none inherits another's caches or threads.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.results import GROUPS, Values, measurements, table, write_between
from benchmarks.timing import ONE_THREAD

ROOT = Path(__file__).parent.parent
REPEATS, QUICK_REPEATS = 5, 2
PACKAGES = (
    "numpy",
    "numba",
    "gymnasium",
    "pettingzoo",
    "open_spiel",
    "pgx",
    "jax",
    "jaxlib",
    "rlcard",
    "shimmy",
)

_VERSIONS = """
import importlib.metadata, json, platform, sys
found = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


def _output(*command: str) -> str | None:
    """What a command prints, None if it fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def _cpu() -> str:
    """The name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def describe(pythons: dict[str, str]) -> dict[str, Any]:
    """Machine, commit and versions."""
    versions = {
        module: json.loads(_output(python, "-c", _VERSIONS, *PACKAGES) or "{}")
        for module, python in pythons.items()
    }
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "commit": _output("git", "rev-parse", "--short", "HEAD"),
        "changed": bool(_output("git", "status", "--porcelain", "briscola_env", "benchmarks")),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def measure(name: str, python: str) -> float | None:
    """One measurement, `ours.NAME` or `peers.NAME`, in a new process; None if it fails."""
    module, row = name.split(".", 1)
    command = [python, "-m", f"benchmarks.{module}", row]
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        print(f"  {name} failed: {reason}", file=sys.stderr, flush=True)
        return None
    value = float(done.stdout.strip().splitlines()[-1])
    print(f"  {name} {value:,.6g}", file=sys.stderr, flush=True)
    return value


def run(pythons: dict[str, str], repeats: int, ours_alone: bool) -> Values:
    """All measurements; the order within a group is turned around in every other repeat."""
    values: Values = {}
    for group in GROUPS:
        names = measurements(group, ours_alone)
        for repeat in range(repeats):
            print(f"repeat {repeat + 1} of {repeats}", file=sys.stderr)
            for name in names if repeat % 2 == 0 else reversed(names):
                value = measure(name, pythons[name.split(".", 1)[0]])
                values.setdefault(name, []).append(value)
    return values


def caption(machine: dict[str, Any], repeats: int) -> str:
    """Under the table: where and with what it was measured."""
    versions = {**machine["versions"]["peers"], **machine["versions"]["ours"]}
    listed = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    changed = " with changes" if machine["changed"] else ""
    return (
        f"Medians of {repeats}, steps a second of processor time on one core. {machine['date']}, "
        f"commit {machine['commit']}{changed}; {machine['cpu']}, {machine['cores']} cores, load "
        f"{machine['load_average']:.1f} at the start; {machine['system']}; {listed}."
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ours alone, about a minute")
    parser.add_argument("--repeats", type=int, help=f"default {REPEATS}, quick {QUICK_REPEATS}")
    parser.add_argument("--json", type=Path, help="write all values, machine and versions there")
    parser.add_argument("--read", type=Path, help="show such a file instead of measuring")
    parser.add_argument("--write", type=Path, help="put the table into this page as well")
    parser.add_argument("--ours", default=sys.executable, help="the Python that has our package")
    parser.add_argument("--peers", default=sys.executable, help="the Python that has the others")
    options = parser.parse_args()
    if options.read:
        result = json.loads(options.read.read_text())
    else:
        pythons = {"ours": options.ours, "peers": options.peers}
        repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
        result = {"machine": describe(pythons), "repeats": repeats, "ours_alone": options.quick}
        result["values"] = run(pythons, repeats, options.quick)
    shown = table(result["values"], result["ours_alone"])
    text = f"{shown}\n\n{caption(result['machine'], result['repeats'])}"
    print(text)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.write:
        write_between(options.write, "table", text)


if __name__ == "__main__":
    main()
