"""The one protocol by which everything plays: heuristics, search, networks, people."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from briscola_env.engine import legal_actions_one
from briscola_env.information import info_state_one
from briscola_env.jit import kernel
from briscola_env.rng import number_below
from briscola_env.state import States


class Policy(Protocol):
    """Chooses actions for a batch of seats, each from what that seat knows and nothing else."""

    name: str

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """Actions, int64 [N].

        info_states: records [N] made by `information.info_state` for the seats to act.
        legal: bool [N, num_actions], at least one True a row. seeds: uint64 [N], all the
        randomness that a decision may use. Nothing is changed in place.
        """
        ...


def cheats(policy: Any) -> bool:
    """True if a policy says that it must see all cards: it is handed full states, not info states.

    Only the arena does that, and only when asked to.
    """
    return bool(getattr(policy, "cheats", False))


@kernel
def show_turns(states: Any, rows: Any, infos: Any, legal: Any, seats: Any) -> None:
    """What a policy is asked: for game rows[k], in row k of the others, whose turn it is, what that
    seat knows, and its legal actions.

    rows: int64 [K], games that are not over. infos: records; legal: bool [., num_actions]; seats:
    int64; all of at least K rows, written in place.
    """
    for k in range(len(rows)):
        state = states[rows[k]]
        seats[k] = state["current_player"]
        infos[k] = state
        info_state_one(state, seats[k], infos[k])
        legal_actions_one(state, k, legal)


def act_where_free(
    search: Callable[[States, NDArray[np.bool_], NDArray[np.uint64]], NDArray[np.int64]],
    info_states: States,
    legal: NDArray[np.bool_],
    seeds: NDArray[np.uint64],
    most: int,
) -> NDArray[np.int64]:
    """Actions, int64 [N], as `Policy.act` gives them: the only legal one, or what `search` chooses.

    search: takes what `Policy.act` takes, for at most `most` decisions that are free.
    """
    actions: NDArray[np.int64] = legal.argmax(axis=1)
    free = np.flatnonzero(legal.sum(axis=1) != 1)
    for first in range(0, len(free), most):
        rows = free[first : first + most]
        actions[rows] = search(info_states[rows], legal[rows], seeds[rows])
    return actions


@kernel
def _random_legal(legal: Any, seeds: Any, out: Any) -> None:
    for i in range(len(legal)):
        left = number_below(seeds[i], legal[i].sum())
        for action in range(legal.shape[1]):
            if legal[i, action]:
                if left == 0:
                    out[i] = action
                    break
                left -= 1


class RandomPolicy:
    """Every legal action equally likely."""

    name = "random"

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        actions = np.empty(len(legal), np.int64)
        _random_legal(legal, seeds, actions)
        return actions

    def probabilities(self, info_states: States, legal: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Probabilities, [N, num_actions]."""
        table: NDArray[np.float64] = legal / legal.sum(axis=1, keepdims=True)
        return table
