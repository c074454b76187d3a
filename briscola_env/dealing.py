"""Shuffling and dealing as kernels over GAME_STATE records (docs/rules.md, sections 2 and 5).

`deal` starts an episode in every record of an array; `engine.step` deals the rest of a match.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import STRENGTH_OF, SUIT_OF, THREE
from briscola_env.jit import bit, inlined_kernel, kernel, lowest, popcount, wrapped
from briscola_env.rng import random_below
from briscola_env.state import States

_ONCE, _REPEAT = 1, 2  # indices in rules.REBURY
_FIRST_TRICK = 1  # bit of the index in rules.SHOW_PARTNER


@kernel
def _clear_deal(state: Any) -> None:
    """Forget the last deal; the match, the dealer and the generator stay."""
    for seat in range(state["players"]):
        state["hands"][seat] = 0
        state["played"][seat] = 0
        state["known"][seat] = 0
        state["team_known"][seat] = 0
        state["last_message"][seat] = -1
        state["reference"][seat] = -1
    for side in range(state["sides"]):
        state["scores"][side] = 0
    state["history"][:] = -1
    state["history_seat"][:] = -1
    state["history_length"] = 0
    state["reburied"] = 0
    state["withdrawn"] = -1
    state["withdrawn_by"] = -1
    state["signalled"] = 0
    state["claim"] = -1
    state["trick"] = 0


@kernel
def _shuffle(state: Any) -> None:
    """Lay the whole deck, in random order, into the stock."""
    stock = state["stock"]
    cards, count = state["deck"], 0
    while cards:
        stock[count] = lowest(cards)
        cards &= cards - 1
        count += 1
    for i in range(count - 1, 0, -1):
        j = random_below(state, i + 1)
        stock[i], stock[j] = stock[j], stock[i]
    state["stock_count"] = count


@inlined_kernel
def pop_stock(state: Any) -> Any:
    """Take the next face-down card."""
    top = np.int64(state["stock_count"]) - 1
    card = state["stock"][top]
    state["stock"][top] = -1
    state["stock_count"] = top
    return card


@kernel
def _all_carichi(state: Any) -> Any:
    """True if the stock holds nothing but aces and threes."""
    for i in range(state["stock_count"]):
        if STRENGTH_OF[state["stock"][i]] < THREE:
            return False
    return True


@kernel
def _rebury(state: Any) -> None:
    """Put a face-up ace or three back into the stock and turn the top card (`rebury`)."""
    stock = state["stock"]
    while STRENGTH_OF[state["face_up"]] >= THREE:
        if state["rebury"] == _REPEAT and _all_carichi(state):
            return
        count = np.int64(state["stock_count"])
        from_top = count // 2 if state["rebury_middle"] else random_below(state, count + 1)
        place = count - from_top
        for i in range(count, place, -1):
            stock[i] = stock[i - 1]
        stock[place] = state["face_up"]
        state["stock_count"] = count + 1
        state["reburied"] |= bit(state["face_up"])
        state["face_up"] = pop_stock(state)
        if state["rebury"] == _ONCE:
            return


@kernel
def _deal_hands(state: Any) -> None:
    """Deal from the deck that lies in the stock, turn trump, and give the lead (section 2)."""
    players = np.int64(state["players"])
    leader = wrapped(state["dealer"] + 1, players)
    seat = leader
    for _ in range(players * state["hand_size"]):
        state["hands"][seat] |= bit(pop_stock(state))
        seat = wrapped(seat + 1, players)
    state["face_up"] = pop_stock(state)
    if state["rebury"]:
        _rebury(state)
    state["initial_face_up"] = state["face_up"]
    state["trump"] = SUIT_OF[state["face_up"]]
    state["leader"] = leader
    state["current_player"] = leader
    if state["show_partner"] & _FIRST_TRICK:
        for seat in range(players):
            state["team_known"][seat] = state["hands"][seat]


@kernel
def next_deal_one(state: Any) -> None:
    """Deal again in the same match; the dealer has been set."""
    _clear_deal(state)
    _shuffle(state)
    _deal_hands(state)


@kernel
def _new_episode(state: Any, seed: Any, dealer: Any) -> None:
    """Forget the last episode, and draw the dealer by lot unless given."""
    state["rng"] = seed
    state["dealer"] = random_below(state, state["players"]) if dealer < 0 else dealer
    for side in range(state["sides"]):
        state["wins"][side] = 0
        state["last_scores"][side] = -1
    state["deals"] = 0
    state["winner"] = -1
    state["last_winner"] = -1
    state["last_points"] = 0
    state["table"][:] = -1
    state["table_count"] = 0


@kernel
def deal_one(state: Any, seed: Any, dealer: Any) -> None:
    """Start a new episode in one record: see `deal`."""
    _new_episode(state, seed, dealer)
    next_deal_one(state)


@kernel
def _deal(states: Any, seeds: Any, dealers: Any) -> None:
    for i in range(len(states)):
        deal_one(states[i], seeds[i], dealers[i])


@kernel
def _deal_decks(states: Any, seeds: Any, dealers: Any, decks: Any) -> None:
    for i in range(len(states)):
        state = states[i]
        _new_episode(state, seeds[i], dealers[i])
        _clear_deal(state)
        size = popcount(state["deck"])
        for k in range(size):
            state["stock"][size - 1 - k] = decks[i, k]
        state["stock_count"] = size
        _deal_hands(state)


def deal(
    states: States,
    seeds: NDArray[np.uint64],
    dealers: NDArray[np.int64] | None = None,
    decks: NDArray[np.int64] | None = None,
) -> None:
    """Start a new episode in every record of `states`, in place.

    seeds: uint64 [N], all the randomness that the episode will have. dealers: seats [N], -1 = by
    lot (default). decks: [N, cards in play], the card ids in the order in which they are dealt,
    default shuffled; unchecked.
    """
    if dealers is None:
        dealers = np.full(len(states), -1)
    if decks is None:
        _deal(states, seeds, dealers)
    else:
        _deal_decks(states, seeds, dealers, decks)
