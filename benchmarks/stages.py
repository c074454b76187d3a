"""Where the time goes: `python -m benchmarks.stages` (docs/benchmarks.md).

A stage is the difference between a path with it and the same path without it.
"""

import cProfile
import pstats
from argparse import ArgumentParser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from benchmarks.aec import aec_run
from benchmarks.kernels import STAGES, random_columns, steps
from benchmarks.ours import NO_ACTIONS, STEPS, VECTOR_ENVS, Seeds, batch
from benchmarks.results import aligned, write_between
from benchmarks.timing import Run, rate, use_one_core
from briscola_env import briscola_v0
from briscola_env.envs.table import Table

REPEATS = 3


def nanoseconds(run: Run) -> float:
    """Processor time a step, the best of a few: what else runs can only add to it."""
    return 1e9 / max(rate(run, 0.3) for _ in range(REPEATS))


def kernel_stages(players: int) -> list[float]:
    """Nanoseconds a step of each of STAGES."""
    (states, *shown), seeds = batch(players), Seeds()

    def run(stages: int) -> int:
        steps(states, NO_ACTIONS, STEPS, stages, seeds.next(), *shown)
        return STEPS * len(states)

    totals = [nanoseconds(partial(run, k + 1)) for k in range(len(STAGES))]
    return [totals[0], *np.diff(totals).tolist()]


def table_run(observing: bool) -> Run:
    """Whole games on the `Table` under the AEC environment; the first legal action."""
    table = Table("points", "hidden", "table", "planes")
    table.reset(1)

    def run() -> int:
        steps = 0
        for _ in range(50):
            table.reset()
            while table.current_player >= 0:
                if observing:
                    table.observe(table.current_player)
                table.step(int(table.mask.argmax()))
                steps += 1
        return steps

    return run


def choosing_run() -> Run:
    """Only the choice of an action, as in `aec_run`."""
    mask = np.zeros(40, np.int8)
    mask[[3, 17, 30]] = 1

    def run() -> int:
        for _ in range(2_000):
            legal = mask.nonzero()[0]
            int(legal[int(0.5 * len(legal))])
        return 2_000

    return run


def aec_stages() -> list[tuple[str, float]]:
    """Microseconds a turn of the AEC loop, stage by stage."""
    choosing = nanoseconds(choosing_run())
    stepping = nanoseconds(table_run(False))
    observing = nanoseconds(table_run(True))
    raw = nanoseconds(aec_run(briscola_v0.raw_env))
    wrapped = nanoseconds(aec_run(briscola_v0.env))
    return [
        ("the loop's choice of an action", choosing / 1e3),
        ("`Table.step`: kernel call, mask, rewards; `reset`", stepping / 1e3),
        ("`Table.observe`: kernel call, two new arrays", (observing - stepping) / 1e3),
        ("the AEC protocol: `agent_iter`, `last`, dicts", (raw - observing - choosing) / 1e3),
        ("PettingZoo's three wrappers, in `env()` only", (wrapped - raw) / 1e3),
    ]


def vector_stages() -> list[tuple[str, float]]:
    """Share of the functions that take the most time of a step of the vector environment."""
    envs = gymnasium.make_vec("Briscola-v0", VECTOR_ENVS, vectorization_mode="vector_entry_point")
    mask, seeds = envs.reset(seed=1)[0]["action_mask"], Seeds()
    actions = np.empty(VECTOR_ENVS, np.int64)

    def run(rounds: int, mask: Any) -> None:
        for _ in range(rounds):
            random_columns(mask.view(np.int64), seeds.next(), actions)
            mask = envs.step(actions)[0]["action_mask"]

    run(10, mask)
    profile = cProfile.Profile()
    profile.runcall(run, 2_000, envs.unwrapped.action_masks())
    found = pstats.Stats(profile)
    shares = []
    for (file, _, name), (_, _, own, _, _) in found.stats.items():
        known = f"`{Path(file).stem}.{name}`" if file != "~" else name.strip("<>")
        shares.append((known, 100 * own / found.total_tt))
    return sorted(shares, key=lambda share: -share[1])[:12]


def report(players: Sequence[int] = (2, 4, 6)) -> str:
    """The three tables as Markdown."""
    columns = [kernel_stages(n) for n in players]
    rows = [(name, *(f"{column[k]:.1f}" for column in columns)) for k, name in enumerate(STAGES)]
    rows.append(("in all", *(f"{sum(column):.1f}" for column in columns)))
    header = ("kernels, ns a step", *(f"{n} players" for n in players))
    aec = [(name, f"{time:.2f}") for name, time in aec_stages()]
    vector = [(name, f"{share:.0f}") for name, share in vector_stages()]
    return "\n\n".join(
        (
            aligned(header, rows),
            aligned(("AEC loop, 2 players", "µs a turn"), aec),
            aligned((f"`make_vec`, {VECTOR_ENVS:,} environments", "% of the time"), vector),
        )
    )


def main() -> None:
    """The command line."""
    parser = ArgumentParser(prog="python -m benchmarks.stages", description=__doc__)
    parser.add_argument("--write", type=Path, help="put the tables into this page as well")
    options = parser.parse_args()
    use_one_core()
    text = report()
    print(text)
    if options.write:
        write_between(options.write, "stages", text)


if __name__ == "__main__":
    main()
