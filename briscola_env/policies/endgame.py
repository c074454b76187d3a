"""The end game of two players: exact play from the reply before the last draw on.

Once the stock is empty each of two players knows the other's hand, as it is all that has not been
seen. Three tricks have at most 36 ways to go: they are enumerated, in well under a microsecond.

Whoever plays second to the trick before the last draw has nothing to guess but one card: which of
those unseen is left in the stock, all taken to be equally likely. The mean over them is exact too,
in a microsecond. Whoever leads to that trick must guess how it will be answered: that is left to
policies.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS, POINTS_OF
from briscola_env.engine import beats
from briscola_env.information import unseen_one
from briscola_env.jit import bit, kernel, lowest, popcount
from briscola_env.state import States

MOST_CARDS = 3
"""The largest hands that are enumerated."""

# In these kernels the leader's hand is `firsts`, the other one `seconds`; `total` is the card
# points in both hands, and a value is the card points that the leader takes of them.


@kernel
def set_points_one(cards: Any) -> Any:
    """Card points in a set of cards."""
    points = np.int64(0)
    while cards:
        points += POINTS_OF[lowest(cards)]
        cards &= cards - 1
    return points


@kernel
def _lead_last(firsts: Any, seconds: Any, trump: Any, total: Any) -> Any:
    return 0 if beats(lowest(seconds), lowest(firsts), trump) else total


@kernel
def _trick_of_two(
    first: Any, second: Any, firsts: Any, seconds: Any, trump: Any, total: Any
) -> Any:
    """The leader's points if the last but one trick is `first`, then `second`."""
    points = np.int64(POINTS_OF[first]) + POINTS_OF[second]
    firsts, seconds = firsts & ~bit(first), seconds & ~bit(second)
    if beats(second, first, trump):
        rest = total - points
        return rest - _lead_last(seconds, firsts, trump, rest)
    return points + _lead_last(firsts, seconds, trump, total - points)


@kernel
def _lead_two(firsts: Any, seconds: Any, trump: Any, total: Any) -> Any:
    best, leads = -1, firsts
    while leads:
        first = lowest(leads)
        leads &= leads - 1
        worst, replies = total, seconds
        while replies and worst > best:
            second = lowest(replies)
            replies &= replies - 1
            worst = min(worst, _trick_of_two(first, second, firsts, seconds, trump, total))
        best = max(best, worst)
    return best


@kernel
def _trick_of_three(
    first: Any, second: Any, firsts: Any, seconds: Any, trump: Any, total: Any
) -> Any:
    """The leader's points if the last but two trick is `first`, then `second`."""
    points = np.int64(POINTS_OF[first]) + POINTS_OF[second]
    firsts, seconds = firsts & ~bit(first), seconds & ~bit(second)
    if beats(second, first, trump):
        rest = total - points
        return rest - _lead_two(seconds, firsts, trump, rest)
    return points + _lead_two(firsts, seconds, trump, total - points)


@kernel
def _trick(first: Any, second: Any, firsts: Any, seconds: Any, trump: Any, total: Any) -> Any:
    """The leader's points if this trick is `first`, then `second`; up to three cards a hand."""
    size = popcount(firsts)
    if size == 1:
        return 0 if beats(second, first, trump) else total
    if size == 2:
        return _trick_of_two(first, second, firsts, seconds, trump, total)
    return _trick_of_three(first, second, firsts, seconds, trump, total)


@kernel
def _led_points(first: Any, firsts: Any, seconds: Any, trump: Any, total: Any, least: Any) -> Any:
    """The leader's points after leading `first`; if no more than `least`, only that is sure."""
    worst, replies = total, seconds
    while replies and worst > least:
        second = lowest(replies)
        replies &= replies - 1
        worst = min(worst, _trick(first, second, firsts, seconds, trump, total))
    return worst


@kernel
def lead_points_one(firsts: Any, seconds: Any, trump: Any, total: Any) -> Any:
    """Card points that the leader takes of the last tricks, from hands of up to three cards."""
    best, leads = -1, firsts
    while leads:
        first = lowest(leads)
        leads &= leads - 1
        best = max(best, _led_points(first, firsts, seconds, trump, total, best))
    return best


@kernel
def is_open_one(info: Any) -> Any:
    """True if the seat to act knows every card, and few enough are left to enumerate."""
    hand = info["hands"][max(np.int64(info["current_player"]), 0)]
    return info["players"] == 2 and info["face_up"] < 0 and popcount(hand) <= MOST_CARDS


@kernel
def exact_card_one(info: Any) -> Any:
    """The best card of a position for which `is_open_one`, from what the seat to act knows."""
    seat = np.int64(info["current_player"])
    mine, trump = info["hands"][seat], info["trump"]
    theirs = info["deck"] & ~(mine | info["played"][0] | info["played"][1])
    led = np.int64(info["table"][0]) if info["table_count"] > 0 else -1
    if led >= 0:
        theirs |= bit(led)
    total = set_points_one(mine | theirs)
    best, chosen, cards = -1, -1, mine
    while cards:
        card = lowest(cards)
        cards &= cards - 1
        if led >= 0:
            points = total - _trick(led, card, theirs, mine, trump, total)
        else:
            points = _led_points(card, mine, theirs, trump, total, best)
        if points > best:
            best, chosen = points, card
    return chosen


@kernel
def _is_last_reply_one(info: Any) -> Any:
    """True if the seat to act plays the last card before the last draw, and no swap is possible."""
    return (
        info["players"] == 2
        and info["current_player"] >= 0
        and info["table_count"] == 1
        and info["trick"] == info["draws"] - 1
        and info["num_actions"] == NUM_CARDS
        and popcount(info["hands"][info["current_player"]]) <= MOST_CARDS
    )


@kernel
def _points_from_last_draw(
    first: Any, second: Any, firsts: Any, seconds: Any, hidden: Any, face_up: Any, trump: Any
) -> Any:
    """The leader's points if the trick before the last draw is `first`, then `second`.

    hidden: the card that its winner draws; the loser draws `face_up`.
    """
    points = np.int64(POINTS_OF[first]) + POINTS_OF[second]
    firsts, seconds = firsts & ~bit(first), seconds & ~bit(second)
    if beats(second, first, trump):
        firsts, seconds = firsts | bit(face_up), seconds | bit(hidden)
        total = set_points_one(firsts | seconds)
        return total - lead_points_one(seconds, firsts, trump, total)
    firsts, seconds = firsts | bit(hidden), seconds | bit(face_up)
    total = set_points_one(firsts | seconds)
    return points + lead_points_one(firsts, seconds, trump, total)


@kernel
def _last_reply_one(info: Any) -> Any:
    """The card that is best on average over the cards that may be left in the stock.

    For a position for which `_is_last_reply_one`, from what the seat to act knows.
    """
    seat = np.int64(info["current_player"])
    mine, unseen = info["hands"][seat], unseen_one(info, seat)
    led, face_up, trump = np.int64(info["table"][0]), np.int64(info["face_up"]), info["trump"]
    least, chosen, cards = np.int64(NUM_CARDS * 120), -1, mine
    while cards:
        card = lowest(cards)
        cards &= cards - 1
        points, stock = np.int64(0), unseen
        while stock:
            hidden = lowest(stock)
            stock &= stock - 1
            theirs = (unseen & ~bit(hidden)) | bit(led)
            points += _points_from_last_draw(led, card, theirs, mine, hidden, face_up, trump)
        if points < least:
            least, chosen = points, card
    return chosen


@kernel
def _choose_exactly(info_states: Any, out: Any) -> None:
    for i in range(len(info_states)):
        info = info_states[i]
        if is_open_one(info):
            out[i] = exact_card_one(info)
        elif _is_last_reply_one(info):
            out[i] = _last_reply_one(info)
        else:
            out[i] = -1


@kernel
def _leaders_margins(states: Any, out: Any) -> None:
    for i in range(len(states)):
        state = states[i]
        firsts = state["hands"][state["leader"]]
        seconds = state["hands"][1 - state["leader"]]
        total = set_points_one(firsts | seconds)
        out[i] = 2 * lead_points_one(firsts, seconds, state["trump"], total) - total


def endgame_margins(states: States) -> NDArray[np.float32]:
    """What the tricks still to come are worth to two players who play them exactly: [N, 2]."""
    leaders = np.empty(len(states), np.int64)
    _leaders_margins(states, leaders)
    leads = states["leader"][:, None] == np.arange(2)
    margins: NDArray[np.float32] = np.where(leads, leaders[:, None], -leaders[:, None])
    return margins.astype(np.float32)


def exact_cards(info_states: States) -> NDArray[np.int64]:
    """The best card where the seat to act knows every card of the end game, or all but one: [N].

    Elsewhere -1.
    """
    cards = np.empty(len(info_states), np.int64)
    _choose_exactly(info_states, cards)
    return cards
