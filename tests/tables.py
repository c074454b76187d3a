"""Tables of every kind, and random games on them, for the tests of the engine."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numba import config

from briscola_env.dealing import deal
from briscola_env.engine import legal_actions, step
from briscola_env.information import info_state
from briscola_env.rules import Rules
from briscola_env.state import States, new_states

SWAPS = {"exchange_seven": True, "exchange_two": True, "withdraw": "two_trumps"}
SHORT = (*range(10), *range(13, 20), 24, 28, 29)  # twenty cards, rich in coins

OPTIONS: dict[str, dict[str, Any]] = {
    "2": {},
    "2-swaps": {**SWAPS, "rebury": "repeat"},
    "2-match": {"withdraw": "deuce", "rebury": "once", "match_wins": 2, "max_deals": 3},
    "2-study": {"cards": SHORT, "hand_size": 2, "rebury": "repeat", "exchange_seven": True},
    "3": {"players": 3},
    "3-options": {"players": 3, "removed_two": "swords", **SWAPS, "match_wins": 1},
    "4": {"players": 4},
    "4-talk": {"players": 4, "signals": "conventional", "show_partner": "both"},
    "4-table": {"players": 4, **SWAPS, "rebury": "repeat", "show_partner": "before_first_trick"}
    | {"signals": "conventional", "signal_audience": "table", "signals_from_trick": 0},
    "4-study": {"players": 4, "cards": SHORT, "hand_size": 2, **SWAPS, "signals": "conventional"},
    "4-free": {"players": 4, "signals": "free", "match_wins": 2, "exchange_two": True},
    "6": {"players": 6},
    "6-options": {"players": 6, "signals": "conventional", "show_partner": "before_last_tricks"}
    | {"exchange_seven": True, "withdraw": "two_trumps", "rebury": "once", "match_wins": 1},
}


def fewer(number: int) -> int:
    """How often to do something: less often where kernels are not compiled."""
    return max(1, number // 25) if config.DISABLE_JIT else number


def start(
    rules: Rules,
    seeds: Sequence[int] | np.ndarray,
    dealers: Sequence[int] | None = None,
    decks: Sequence[Sequence[int]] | None = None,
) -> States:
    """Fresh games, one a seed, just dealt."""
    states = new_states(rules, len(seeds))
    deal(
        states,
        np.array(seeds, np.uint64),
        None if dealers is None else np.array(dealers, np.int64),
        None if decks is None else np.array(decks, np.int64),
    )
    return states


def masks(states: States) -> np.ndarray:
    """Legal actions, bool [N, num_actions]."""
    rows = np.empty((len(states), int(states[0]["num_actions"])), bool)
    legal_actions(states, rows)
    return rows


def legal(states: States, game: int = 0) -> list[int]:
    """Legal actions of one of the games."""
    return np.flatnonzero(masks(states[game : game + 1])[0]).tolist()


def act(states: States, *actions: int) -> None:
    """One action after the other in the only game; each must be legal."""
    for action in actions:
        assert action in legal(states), f"{action} is not in {legal(states)}"
        step(states, np.array([action]))


def know(states: States, seats: int | Sequence[int] | np.ndarray) -> States:
    """What these seats know, one a game, or one seat of all games."""
    infos = np.empty_like(states)
    info_state(states, np.broadcast_to(np.asarray(seats, np.int64), len(states)).copy(), infos)
    return infos


def random_actions(states: States, rng: np.random.Generator) -> np.ndarray:
    """A legal action for every game, 0 where it is over; swaps and cards are equally likely."""
    rows = masks(states)
    return (rng.random(rows.shape) * rows).argmax(axis=1)


def play(states: States, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Play all games to the end, in place; yields the actions just before they are taken."""
    while (states["current_player"] >= 0).any():
        actions = random_actions(states, rng)
        yield actions
        step(states, actions)


def play_out(states: States, rng: np.random.Generator) -> States:
    """The same games, played to the end."""
    for _ in play(states, rng):
        pass
    return states


def positions(options: dict[str, Any], number: int, seed: int = 0) -> States:
    """Random positions of random games, one a game, from the deal to after the end."""
    rules, rng = Rules(**options), np.random.default_rng(seed)
    states = start(rules, rng.integers(0, 2**63, number))
    longest = rules.max_history * (2 if rules.match_wins else 1)
    stops = rng.integers(0, longest + 1, number)
    result = states.copy()
    for turn in range(int(stops.max()) + 1):
        result[stops == turn] = states[stops == turn]
        step(states, random_actions(states, rng))
    return result
