"""Search without cheating: play-outs of random worlds that agree with what the seat knows.

`pimc:K` is flat determinised Monte Carlo (Ginsberg, "GIB: imperfect information in a
computationally challenging game", JAIR 14, 2001, with play-outs in the place of a solver): sample
a world, try every action in it, let the expert play all seats to the end, and take the action with
the best mean. Worlds come from `resample`, the more often the better they explain what was played
(`beliefs`), and the expert's own opinion counts as a few play-outs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS
from briscola_env.engine import step_one, swap_card_one
from briscola_env.information import resample_one
from briscola_env.jit import bit, kernel, lowest
from briscola_env.policies.beliefs import odds_one
from briscola_env.policies.endgame import (
    exact_card_one,
    is_open_one,
    lead_points_one,
    set_points_one,
)
from briscola_env.policies.expert import expert_card_one, expert_move_one, expert_weights
from briscola_env.policies.signals import say_one
from briscola_env.rng import child_seed, random_below
from briscola_env.rules import EXCHANGE_SEVEN, FIRST_SIGNAL
from briscola_env.state import MAX_SIDES, States

SEARCH_OPTIONS = np.dtype(
    [
        ("prior", np.float64),  # play-outs that the expert's opinion of an action counts as
        ("plays", np.int64),  # how many of the latest cards a world has to explain; 0 = none
        ("temperature", np.float64),  # card points: how far off the expert others may be
        ("exploration", np.float64),  # card points: the constant of UCB (ismcts)
        ("trust", np.float64),  # visits of a node before UCB replaces the expert's choice (ismcts)
    ]
)
"""How the searches are tuned; docs/opponents.md has the figures."""

DEFAULT_OPTIONS = (100.0, 6, 2.0, 30.0, 100.0)
_MOST_ATTEMPTS = 16
_ONE = 1 << 30


@kernel
def legal_set_one(state: Any) -> Any:
    """Cards and swaps of the seat to act, as a set of actions."""
    legal = state["hands"][state["current_player"]]
    if state["num_actions"] > NUM_CARDS and state["face_up"] >= 0:
        for action in range(EXCHANGE_SEVEN, FIRST_SIGNAL):
            if swap_card_one(state, action) >= 0:
                legal |= bit(action)
    return legal


@kernel
def margin_one(scores: Any, sides: Any, side: Any) -> Any:
    """Card points of a side less the mean of the others."""
    total = np.int64(0)
    for each in range(sides):
        total += np.int64(scores[each])
    own = np.int64(scores[side])
    return own - (total - own) / (np.int64(sides) - 1)


@kernel
def play_out_one(world: Any, deals: Any, weights: Any, scores: Any) -> None:
    """The expert plays all seats of a full state to the end of the deal; `world` is changed.

    deals: how many deals were finished before this one. scores: card points of each side at its
    end, written into it. The last three tricks of two players are solved, not played.
    """
    while world["current_player"] >= 0 and world["deals"] == deals:
        if is_open_one(world) and world["table_count"] == 0:
            seat = np.int64(world["current_player"])
            mine, theirs = world["hands"][seat], world["hands"][1 - seat]
            total = set_points_one(mine | theirs)
            points = lead_points_one(mine, theirs, world["trump"], total)
            scores[seat] = world["scores"][seat] + points
            scores[1 - seat] = world["scores"][1 - seat] + total - points
            return
        step_one(world, expert_move_one(world, weights))
    scores[:] = world["last_scores"]


@kernel
def sample_one(info: Any, seed: Any, weights: Any, options: Any, worlds: Any, values: Any) -> None:
    """A random world of an info state into worlds[0]; one that explains more is likelier.

    Worlds are drawn until one is accepted, with the probability that `odds_one` gives it, or for
    the sixteenth time. worlds [2] and values [40] are there to work in.
    """
    for attempt in range(_MOST_ATTEMPTS):
        worlds[0] = info
        resample_one(info, child_seed(seed, attempt), worlds[0])
        if options["plays"] == 0:
            return
        worlds[1] = worlds[0]
        worlds[1]["observer"] = info["observer"]
        odds = odds_one(worlds[1], options["plays"], weights, options["temperature"], values)
        if random_below(worlds[0], _ONE) < odds * _ONE:
            return


@kernel
def opinion_one(info: Any, actions: Any, weights: Any, values: Any, out: Any) -> None:
    """The expert's worth of each of `actions` [A] into `out` [A]; a swap is as good as any card."""
    best = values[expert_card_one(info, weights, values)]
    for a in range(len(actions)):
        out[a] = values[actions[a]] if actions[a] < NUM_CARDS else best


@kernel
def _pimc_one(
    info: Any, actions: Any, seed: Any, playouts: Any, weights: Any, options: Any, worlds: Any
) -> Any:
    """The best of `actions` [A] by the mean margin over playouts / A worlds, the same for each."""
    count = len(actions)
    sums, values = np.zeros(count), np.zeros(NUM_CARDS)
    scores = np.zeros(MAX_SIDES, np.int16)
    opinion_one(info, actions, weights, values, sums)
    sums *= options["prior"]
    side = np.int64(info["current_player"]) % np.int64(info["sides"])
    for k in range(max(1, playouts // count)):
        sample_one(info, child_seed(seed, k), weights, options, worlds, values)
        for a in range(count):
            worlds[1] = worlds[0]
            step_one(worlds[1], actions[a])
            play_out_one(worlds[1], info["deals"], weights, scores)
            sums[a] += margin_one(scores, info["sides"], side)
    return actions[np.argmax(sums)]


@kernel
def settled_one(info: Any, legal: Any) -> Any:
    """The action where no search is needed, else -1; legal: the row of legal actions.

    That is the solved end game, an action without an alternative, and a signal before the card.
    """
    if is_open_one(info):
        return exact_card_one(info)
    moves = legal_set_one(info)
    if moves & (moves - 1) == 0:
        return lowest(moves)
    return say_one(info, legal) if info["signals"] != 0 else -1


@kernel
def _pimc(
    infos: Any, legal: Any, seeds: Any, playouts: Any, weights: Any, options: Any, out: Any
) -> None:
    worlds = infos[:1].repeat(2)
    for i in range(len(infos)):
        info = infos[i]
        out[i] = settled_one(info, legal[i])
        if out[i] < 0:
            actions = np.flatnonzero(legal[i, :FIRST_SIGNAL])
            out[i] = _pimc_one(
                info, actions, seeds[i], playouts, weights[info["players"]], options[0], worlds
            )


class PimcPolicy:
    """Flat Monte Carlo over sampled worlds; see the module.

    playouts: how many a move in all, shared by its legal actions. options: SEARCH_OPTIONS in order.
    """

    def __init__(
        self, playouts: int, options: tuple[float, int, float, float, float] = DEFAULT_OPTIONS
    ) -> None:
        if playouts < 1:
            raise ValueError(f"pimc:{playouts}: at least one play-out a move is needed")
        self.name = f"pimc:{playouts}"
        self.playouts = playouts
        self.options = np.array([options], SEARCH_OPTIONS)
        self.weights = expert_weights()

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        actions = np.empty(len(legal), np.int64)
        _pimc(info_states, legal, seeds, self.playouts, self.weights, self.options, actions)
        return actions
