"""A million random actions, engine against slow twin: `python -m tests.fuzz`.

Batches of games with random options are numbered by seeds: the first is `--seed`, then the next
whole numbers. A disagreement prints its seed, the options and the position, and ends with code 1.
"""

import argparse
import multiprocessing
import random
import sys
from collections.abc import Iterator

from tests.twin import Disagreement, Table, draw_options

GAMES = 12  # a batch


def play_batch(seed: int) -> int:
    """Play a few games by random rules; returns the number of actions compared."""
    rng = random.Random(seed)
    players = rng.choice([2, 3, 4, 6])
    options = draw_options(players, rng.choice)
    seeds = [rng.getrandbits(64) for _ in range(GAMES)]
    dealers = [rng.randrange(-1, players) for _ in range(GAMES)]
    try:
        table = Table(options, seeds, dealers)
        if rng.random() < 0.5:
            decks = [rng.sample(table.rules.deck, len(table.rules.deck)) for _ in seeds]
            table = Table(options, seeds, dealers, decks)
        return table.play(rng, all_seats=False)
    except Disagreement as problem:
        raise Disagreement(f"{options}\n{problem}") from None


def try_batch(seed: int) -> tuple[int, int, str]:
    """The seed, the number of actions, and what went wrong if anything did."""
    try:
        return seed, play_batch(seed), ""
    except Exception as problem:
        return seed, 0, f"{type(problem).__name__}: {problem}"


def batches(first: int, processes: int) -> Iterator[tuple[int, int, str]]:
    """Results of the batches from `first` on, without end."""
    seeds = iter(range(first, sys.maxsize))
    if processes == 1:
        yield from map(try_batch, seeds)
    with multiprocessing.Pool(processes) as pool:
        while True:
            some = [next(seeds) for _ in range(8 * processes)]
            yield from pool.imap_unordered(try_batch, some)


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actions", type=int, default=1_000_000, help="how many at least")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first batch")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    done, games, shown = 0, 0, 0
    for seed, actions, problem in batches(options.seed, options.processes):
        if problem:
            print(f"{problem}\n\nAgain: python -m tests.fuzz --actions 1 --seed {seed}")
            return 1
        done, games = done + actions, games + GAMES
        percent = min(100, 100 * done // options.actions)
        if percent > shown:
            shown = percent
            end = "\r" if sys.stdout.isatty() else "\n"
            print(f"{percent:3d} %  {done:,} actions, {games:,} games agree", end=end, flush=True)
        if done >= options.actions:
            break
    print(f"{done:,} actions in {games:,} games: engine and twin agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
