"""How well a sampled world explains what the others have played.

`resample` gives every deck order that is possible the same chance. Yet who holds the ace seldom
threw a king away. So each world is asked: would the expert, in the places of the other seats, have
played their latest cards from the hands that they have in it? The past is rebuilt backwards; which
card of a hand was drawn last is drawn by lot, so that a world with its past is one deck order.
"""

from typing import Any

import numpy as np

from briscola_env.cards import NUM_CARDS, POINTS_OF
from briscola_env.jit import bit, kernel, lowest, popcount
from briscola_env.policies.expert import expert_card_one
from briscola_env.rng import random_below


@kernel
def _take_one_back(past: Any, seat: Any) -> None:
    """Take a card out of a hand, at random, but none that is known to have been there longer."""
    cards = past["hands"][seat] & ~past["known"][seat]
    if cards == 0:
        cards = past["hands"][seat]
    for _ in range(random_below(past, popcount(cards))):
        cards &= cards - 1
    past["hands"][seat] &= ~bit(lowest(cards))


@kernel
def _reopen_trick(past: Any, last: Any) -> None:
    """Undo the end of the trick whose last card is at place `last` of the history.

    The observer's own draw is left: nobody else's choice depends on it.
    """
    players, observer = np.int64(past["players"]), np.int64(past["observer"])
    winner = np.int64(past["leader"])
    past["trick"] -= 1
    if past["trick"] < past["draws"]:
        final = past["trick"] == past["draws"] - 1
        past["stock_count"] += players - 1 if final else players
        for i in range(players):
            seat = (winner + i) % players
            if final and i == players - 1:
                past["face_up"] = past["initial_face_up"]
                past["known"][seat] &= ~bit(past["face_up"])
                past["hands"][seat] &= ~bit(past["face_up"])
            elif seat != observer:
                _take_one_back(past, seat)
    past["table_count"] = players
    past["leader"] = past["history_seat"][last - players + 1]
    for place in range(players):
        past["table"][place] = past["history"][last - players + 1 + place]


@kernel
def _undo_play(past: Any, last: Any) -> Any:
    """Undo the card at place `last` of the history, and return it."""
    if past["table_count"] == 0:
        _reopen_trick(past, last)
    card, seat = np.int64(past["history"][last]), np.int64(past["history_seat"][last])
    past["table_count"] -= 1
    past["table"][past["table_count"]] = -1
    past["current_player"] = seat
    past["hands"][seat] |= bit(card)
    past["played"][seat] &= ~bit(card)
    return card


@kernel
def _odds_of_card(past: Any, card: Any, weights: Any, temperature: Any, values: Any) -> Any:
    """How likely the seat to act plays this card: 1 for the expert's choice, less for a worse one.

    exp(difference of worth / temperature), and never less than a tenth: people err.
    """
    hand = past["hands"][past["current_player"]]
    if hand & (hand - 1) == 0:
        return 1.0
    best = expert_card_one(past, weights, values)
    return max(0.1, np.exp((values[card] - values[best]) / temperature))


@kernel
def _can_undo(past: Any, last: Any) -> Any:
    """True if the place `last` of the history is a card and, where a trick has to be opened again,
    so are all of its places: swaps and signals are not undone.
    """
    count = np.int64(past["players"]) if past["table_count"] == 0 else 1
    if last < count - 1:
        return False
    for i in range(last - count + 1, last + 1):
        if past["history"][i] >= NUM_CARDS:
            return False
    return True


@kernel
def odds_one(past: Any, plays: Any, weights: Any, temperature: Any, values: Any) -> Any:
    """How well a world explains the latest `plays` cards of the deal, 0..1.

    past: the world as a record with its `observer` set; it is turned back in time. values: float64
    [40] to work in. Looks back no further than a swap or a signal, which are not undone.
    """
    odds, last = 1.0, np.int64(past["history_length"]) - 1
    for i in range(last, max(last - plays, -1), -1):
        if not _can_undo(past, i):
            break
        card = _undo_play(past, i)
        if past["current_player"] != past["observer"]:
            odds *= _odds_of_card(past, card, weights, temperature, values)
    return odds


@kernel
def _unscore_trick(past: Any, last: Any) -> None:
    """Take back the points of the trick that ended with the card at place `last` of the history,
    which is undone already.
    """
    players = np.int64(past["players"])
    past["scores"][past["last_winner"] % past["sides"]] -= past["last_points"]
    past["last_winner"], past["last_points"] = -1, 0
    if past["trick"] > 0:
        past["last_winner"] = past["leader"]
        i, left = last - players, players
        while left > 0:
            if past["history"][i] < NUM_CARDS:
                past["last_points"] += POINTS_OF[past["history"][i]]
                left -= 1
            i -= 1


@kernel
def turn_back_one(past: Any) -> Any:
    """Turn a world back to the latest card that another side than the observer's chose, and return
    that card; -1 if there is none, or if a swap or signal stands before it.

    past: as `odds_one` takes it, of a single deal. All that the other side could see is again as it
    was, and its hand is one that it may have had; the observer's hand keeps its later draws.
    """
    side = np.int64(past["observer"]) % past["sides"]
    while True:
        last = np.int64(past["history_length"]) - 1
        if not _can_undo(past, last):
            return -1
        ended = past["table_count"] == 0
        card = _undo_play(past, last)
        if ended:
            _unscore_trick(past, last)
        past["history_length"] = last
        past["history"][last], past["history_seat"][last] = -1, -1
        if card == past["initial_face_up"]:
            past["known"][past["current_player"]] |= bit(card)  # everybody saw it being drawn
        if past["current_player"] % past["sides"] != side:
            return card if last == 0 or past["history"][last - 1] < NUM_CARDS else -1


@kernel
def turn_back(pasts: Any, rows: Any, cards: Any) -> None:
    """`turn_back_one` for the worlds rows[k] (int64 [K]), in place; cards: int64 [K], written."""
    for k in range(len(rows)):
        cards[k] = turn_back_one(pasts[rows[k]])
