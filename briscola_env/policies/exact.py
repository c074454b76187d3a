"""The last tricks of any policy, solved in place of being judged.

Two players know every card once the stock is empty: they are played exactly (`endgame`). Four and
six still have to guess: every card is tried in sampled worlds, which are played on exactly by
players who see all hands (perfect-information Monte Carlo: Ginsberg, "GIB: imperfect information in
a computationally challenging game", JAIR 14, 2001), and the best on average is played. Three
players have no such value, as the solver's coalition of two against one is not how they play.
"""

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS
from briscola_env.information import sample_worlds
from briscola_env.jit import kernel
from briscola_env.policies.base import Policy
from briscola_env.policies.endgame import (
    MOST_CARDS,
    endgame_margins,
    exact_cards,
    set_points_one,
)
from briscola_env.policies.solver import action_values, solve
from briscola_env.rules import Rules
from briscola_env.state import States

WORLDS = 32
"""How many are solved for a card of four or six players."""

_ROWS = 256  # decisions whose worlds are solved at once


def can_solve_end(rules: Rules) -> bool:
    """Whether `ExactEndgame` has anything to solve at such a table."""
    return rules.players != 3 and rules.hand_size <= MOST_CARDS and not rules.messages


def open_margins(states: States) -> NDArray[np.float32]:
    """What the tricks still to come are worth to sides who see all hands: [N, players].

    states: full states [N >= 1] of one table, of two sides, between two tricks, the stock empty.
    Card points, own side less the other.
    """
    players = int(states["players"][0])
    if players == 2:
        return endgame_margins(states)
    left = np.empty(len(states), np.int64)
    _points_in_hands(states, left)
    own = 2 * solve(states)[0].astype(np.int64) - left
    acting = states["current_player"][:, None] % 2 == np.arange(players) % 2
    margins: NDArray[np.float32] = np.where(acting, own[:, None], -own[:, None]).astype(np.float32)
    return margins


@kernel
def _points_in_hands(states: States, out: NDArray[np.int64]) -> None:
    for i in range(len(states)):
        out[i] = 0
        for seat in range(states[i]["players"]):
            out[i] += set_points_one(states[i]["hands"][seat])


class ExactEndgame:
    """Any policy, with the end game solved: see the module.

    policy: who plays everything else. Where signals may be given it plays the end too.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.name = policy.name

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        actions = exact_cards(info_states)
        guessed = np.flatnonzero(_is_guessed(info_states, legal))
        for rows in np.split(guessed, range(_ROWS, len(guessed), _ROWS)):
            actions[rows] = _best_on_average(info_states[rows], legal[rows], seeds[rows])
        rest = np.flatnonzero(actions < 0)
        if len(rest):
            actions[rest] = self.policy.act(info_states[rest], legal[rest], seeds[rest])
        return actions


def _is_guessed(infos: States, legal: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """True where one of a few cards is to be played by a team, and nobody draws any more."""
    choices = legal.sum(axis=1)
    guessed: NDArray[np.bool_] = (
        (infos["players"] % 2 == 0)
        & (infos["players"] > 2)
        & (infos["trick"] >= infos["draws"])
        & (choices > 1)
        & (choices <= MOST_CARDS)
        & ~legal[:, NUM_CARDS:].any(axis=1)
    )
    return guessed


def _best_on_average(
    infos: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """The card [N] with the best mean over sampled worlds."""
    if not len(infos):
        return np.empty(0, np.int64)
    worlds, _ = sample_worlds(infos, seeds, WORLDS)
    values = action_values(worlds.ravel())[:, : legal.shape[1]]
    totals = values.reshape(len(infos), WORLDS, -1).sum(axis=1, dtype=np.int64)
    best: NDArray[np.int64] = np.where(legal, totals, -1).argmax(axis=1)
    return best
