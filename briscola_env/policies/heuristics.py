"""Rules of thumb as policies."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import POINTS_OF, STRENGTH_OF, SUIT_OF
from briscola_env.engine import beats, winning_place
from briscola_env.jit import kernel, lowest
from briscola_env.rules import EXCHANGE_SEVEN, FIRST_SIGNAL
from briscola_env.state import States

_TRUMP_COST = 5  # a trump is worth about a jack and a king more than its points


@kernel
def _cost(card: Any, trump: Any) -> Any:
    """How much a card is missed: its points, more for a trump, the weaker one if equal."""
    value = np.int64(POINTS_OF[card]) + (_TRUMP_COST if SUIT_OF[card] == trump else 0)
    return 16 * value + STRENGTH_OF[card]


@kernel
def greedy_card_one(info: Any) -> Any:
    """The card that `greedy` plays: see GreedyPolicy."""
    trump = info["trump"]
    on_table = 0
    for i in range(info["table_count"]):
        on_table += POINTS_OF[info["table"][i]]
    best = np.int64(info["table"][winning_place(info)]) if info["table_count"] > 0 else -1
    take, throw = -1, -1
    hand = info["hands"][info["observer"]]
    while hand:
        card = lowest(hand)
        hand &= hand - 1
        if throw < 0 or _cost(card, trump) < _cost(throw, trump):
            throw = card
        takes = on_table > 0 and beats(card, best, trump)
        if takes and (take < 0 or _cost(card, trump) < _cost(take, trump)):
            take = card
    return take if take >= 0 else throw


@kernel
def _greedy(info_states: Any, legal: Any, out: Any) -> None:
    for i in range(len(info_states)):
        out[i] = -1
        for action in range(EXCHANGE_SEVEN, min(FIRST_SIGNAL, legal.shape[1])):
            if legal[i, action]:
                out[i] = action
        if out[i] < 0:
            out[i] = greedy_card_one(info_states[i])


class GreedyPolicy:
    """Takes when there are points on the table, with the weakest card that takes.

    Otherwise it throws the card that it misses least. It makes every swap and gives no signals.
    """

    name = "greedy"

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        actions = np.empty(len(legal), np.int64)
        _greedy(info_states, legal, actions)
        return actions
