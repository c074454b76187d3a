"""Tables on which the environments are tested, and random play that writes down all it sees."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import config

EVERYTHING = {
    "exchange_seven": True,
    "exchange_two": True,
    "withdraw": "two_trumps",
    "rebury": "repeat",
    "match_wins": 2,
}

TABLES: dict[str, dict[str, Any]] = {
    "2": {},
    "2-options": EVERYTHING | {"frame": "trump_first", "observation": "tokens", "reward": "win"},
    "2-study": {"cards": [0, 4, 8, 9, 17, 18, 19, 27], "hand_size": 2, "show_points": "all"}
    | {"recent_tricks": 2},
    "3": {"players": 3},
    "3-options": {"players": 3, "removed_two": "cups", "withdraw": "deuce", "match_wins": 1}
    | {"max_deals": 2, "observation": "tokens", "frame": "canonical"},
    "4": {"players": 4},
    "4-options": {"players": 4, "signals": "conventional", "show_partner": "both"}
    | {"rebury": "once", "observation": "tokens", "frame": "trump_first", "show_points": "own"}
    | {"recent_tricks": 1},
    "6": {"players": 6},
    "6-options": {"players": 6, "signals": "free", "signals_from_trick": 0, "reward": "win"}
    | {"signal_audience": "table", "exchange_seven": True, "match_wins": 1},
}


def games(number: int) -> int:
    """How many games a test plays: fewer where the kernels are not compiled."""
    return max(1, number // 20) if config.DISABLE_JIT else number


def legal(mask: Any) -> list[int]:
    """The actions that a mask allows."""
    return [int(action) for action in np.flatnonzero(mask)]


def turns(env: Any, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Play what is left of an episode at random: (agent, *last(), action) before every step."""
    for agent in env.agent_iter():
        last = env.last()
        dead = last[2] or last[3]
        action = None if dead else int(rng.choice(legal(last[0]["action_mask"])))
        yield agent, *last, action
        env.step(action)


def advance(env: Any, steps: int) -> None:
    """Take some actions, the lowest legal ones; the episode must be longer than that."""
    for _ in range(steps):
        env.step(legal(env.last()[0]["action_mask"])[0])


def as_bytes(value: Any) -> Any:
    """The same with every array written as its bytes, so that == compares all of it exactly."""
    if isinstance(value, dict):
        return {key: as_bytes(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_bytes(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return value


def trace(env: Any, seed: int = 0) -> list[Any]:
    """All that is seen and done in the rest of an episode, with the moves of this seed."""
    return [as_bytes(turn) for turn in turns(env, np.random.default_rng(seed))]


def feature(env: Any, name: str) -> slice:
    """Where a feature stands in the observations of an environment."""
    found = next(entry for entry in env.unwrapped.features if entry.name == name)
    return slice(found.start, found.stop)


def record(env: Any) -> Any:
    """The record of the game in a PettingZoo environment, a copy."""
    return env.unwrapped.get_state()["table"]["states"][0]
