"""The PettingZoo loop, the same for every environment: random legal actions."""

from collections.abc import Callable
from random import Random
from typing import Any

from benchmarks.timing import Run

TURNS = 2_000  # a chunk of work


def aec_run(make: Callable[[], Any]) -> Run:
    """Whole games in the environment that `make` returns.

    Every turn of `agent_iter` counts, also those that only retire an agent when its game is over:
    games of a few moves have relatively more of them.
    """
    env = make()
    env.reset(seed=1)
    uniform = Random(1).random

    def run() -> int:
        turns = 0
        while turns < TURNS:
            env.reset()
            for _ in env.agent_iter():
                observation, _, terminated, truncated, _ = env.last()
                if terminated or truncated:
                    action = None
                else:
                    legal = observation["action_mask"].nonzero()[0]
                    action = int(legal[int(uniform() * len(legal))])
                env.step(action)
                turns += 1
        return turns

    return run
