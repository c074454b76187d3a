"""A cheat that sees every card: a ceiling for what knowledge could be worth, not an opponent."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.engine import step_one
from briscola_env.jit import kernel, lowest
from briscola_env.policies.expert import expert_weights
from briscola_env.policies.search import legal_set_one, margin_one, play_out_one
from briscola_env.policies.solver import solve
from briscola_env.state import MAX_SIDES, States

_SOLVED_TRICKS = np.array([0, 0, 20, 8, 6, 0, 4])
"""By players: how many tricks before the end it solves; before them it plays out every action."""


@kernel
def _best_playouts(states: Any, weights: Any, out: Any) -> None:
    work = states[:1].copy()
    scores = np.zeros(MAX_SIDES, np.int16)
    for i in range(len(states)):
        state = states[i]
        side = np.int64(state["current_player"]) % np.int64(state["sides"])
        legal, most = legal_set_one(state), -1000.0
        while legal:
            action = lowest(legal)
            legal &= legal - 1
            work[0] = state
            step_one(work[0], action)
            play_out_one(work[0], state["deals"], weights[state["players"]], scores)
            margin = margin_one(scores, state["sides"], side)
            if margin > most:
                most, out[i] = margin, action


class OraclePolicy:
    """Plays with all cards seen, the stock's order too, and exactly where the solver can.

    `cheats` is True: in the place of info states `act` is given full states. It is a cheat in every
    table and no bound for what an honest player can reach. With three players the solver takes the
    other two for one coalition.
    """

    name = "oracle"
    cheats = True

    def __init__(self) -> None:
        self.weights = expert_weights()

    def act(
        self, states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """Actions, int64 [N]; as `Policy.act`, but for full states [N]."""
        actions = np.empty(len(states), np.int64)
        left = states["num_tricks"] - states["trick"]
        solved = left <= _SOLVED_TRICKS[states["players"]]
        rows = np.flatnonzero(solved)
        _, best = solve(states[rows])
        actions[rows] = [(int(cards) & -int(cards)).bit_length() - 1 for cards in best]
        rows = np.flatnonzero(~solved)
        chosen = np.empty(len(rows), np.int64)
        _best_playouts(states[rows], self.weights, chosen)
        actions[rows] = chosen
        return actions
