"""Playing by the rules, as kernels over GAME_STATE records (docs/rules.md, sections 3 to 6).

Public kernels take arrays of records; a name that ends in `_one` takes a single record and is for
other kernels. No kernel raises: what may be done is said by `legal_actions`, and checked by the
environments.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import (
    ACE,
    CARDS_PER_SUIT,
    NUM_CARDS,
    NUM_SUITS,
    POINTS_OF,
    SEVEN,
    STRENGTH_OF,
    SUIT_CARDS,
    SUIT_OF,
    TWO,
)
from briscola_env.dealing import next_deal_one, pop_stock
from briscola_env.jit import bit, inlined_kernel, kernel, lowest, popcount, wrapped, write_cards
from briscola_env.rules import (
    EXCHANGE_SEVEN,
    FIRST_SIGNAL,
    HAVE_CARICO,
    HAVE_LOW,
    NO_TRUMP,
    REL_MINUS,
    REL_PLUS,
    WITHDRAW_CARD,
)
from briscola_env.state import States

_DEUCE, _TWO_TRUMPS = 1, 2  # indices in rules.WITHDRAW
_LAST_TRICKS = 2  # bit of the index in rules.SHOW_PARTNER
_FREE = 2  # index in rules.SIGNALS
_TABLE = 1  # index in rules.SIGNAL_AUDIENCES

_LOW_CARDS = np.int64(0x1F)  # the ranks 2..7 of one suit
_CARICHI = np.int64(0x300)  # its three and ace


def _winners() -> NDArray[np.int64]:
    """By winning card and trump: the set of cards that, played next, win instead (section 3).

    The last row, also that of card -1, is for an empty table: all cards.
    """
    winners = np.full((NUM_CARDS + 1, NUM_SUITS), -1, np.int64)
    for best in range(NUM_CARDS):
        for trump in range(NUM_SUITS):
            winners[best, trump] = SUIT_CARDS[SUIT_OF[best]] & -(2 << best)
            if SUIT_OF[best] != trump:
                winners[best, trump] |= SUIT_CARDS[trump]
    return winners


WINNERS = _winners()


@kernel
def beats(card: Any, best: Any, trump: Any) -> Any:
    """True if `card`, played after the so far winning card `best`, wins instead."""
    return WINNERS[best, trump] & bit(card) != 0


@inlined_kernel
def winning_place(state: Any) -> Any:
    """Place (0 = led) of the card on the table that wins so far; 0 if the table is empty."""
    table, trump = state["table"], state["trump"]
    place = 0
    for i in range(1, state["table_count"]):
        if beats(table[i], table[place], trump):
            place = i
    return place


@kernel
def hand_count_one(state: Any, seat: Any) -> Any:
    """Number of cards in a seat's hand, which is public."""
    tricks_left = np.int64(state["num_tricks"]) - state["trick"]
    count = min(np.int64(state["hand_size"]), tricks_left)
    players = np.int64(state["players"])
    place = wrapped(np.int64(seat) - state["leader"] + players, players)
    return count - 1 if place < state["table_count"] else count


# ----------------------------------------------------------------------------------- legal actions


@kernel
def swap_card_one(state: Any, action: Any) -> Any:
    """The card that the seat to act would put down in a swap, -1 if it is not legal now."""
    hand = state["hands"][state["current_player"]]
    first = CARDS_PER_SUIT * np.int64(state["trump"])
    face_up = np.int64(state["face_up"])
    if face_up < 0:
        return -1
    if action == WITHDRAW_CARD:
        if state["trick"] > 0 or state["withdrawn"] >= 0:
            return -1
        if state["withdraw"] == _DEUCE and hand & bit(first + TWO):
            return first + TWO
        trumps = hand & SUIT_CARDS[state["trump"]]
        if state["withdraw"] == _TWO_TRUMPS and popcount(trumps) >= 2 and lowest(trumps) < face_up:
            return lowest(trumps)
        return -1
    # After the first trick the seat that leads is the one that won the trick before.
    if state["trick"] == 0 or state["table_count"] > 0:
        return -1
    if action == EXCHANGE_SEVEN:
        card = first + SEVEN
        legal = state["exchange_seven"] != 0 and face_up > card
    else:
        card = first + TWO
        legal = state["exchange_two"] != 0 and first + TWO < face_up <= first + SEVEN
    return card if legal and hand & bit(card) != 0 else -1


@kernel
def named_strength(message: Any, reference: Any) -> Any:
    """Strength of the trump that a conventional message names, -1 if it names none.

    reference: strength of the trump that a partner of the speaker named last, or -1.
    """
    if message < 0 or HAVE_LOW <= message < REL_MINUS:
        return -1
    if message < HAVE_LOW:
        return ACE - message
    if reference < 0:
        return -1
    strength = reference + message - (REL_PLUS - 1 if message >= REL_PLUS else REL_PLUS)
    return strength if 0 <= strength < CARDS_PER_SUIT else -1


@kernel
def _named_trump(state: Any, message: Any) -> Any:
    """The trump card that a conventional message of the seat to act names, -1 if none."""
    strength = named_strength(message, np.int64(state["reference"][state["current_player"]]))
    return CARDS_PER_SUIT * np.int64(state["trump"]) + strength if strength >= 0 else -1


@kernel
def class_claim_holds(hand: Any, trump: Any, message: Any) -> Any:
    """True if HAVE_LOW, NO_TRUMP or HAVE_CARICO is true of this hand."""
    trumps = hand & SUIT_CARDS[trump]
    if message == NO_TRUMP:
        return trumps == 0
    if message == HAVE_LOW:
        return (trumps & (_LOW_CARDS << (CARDS_PER_SUIT * np.int64(trump)))) != 0
    carichi = np.int64(0)
    for suit in range(4):
        carichi |= _CARICHI << (CARDS_PER_SUIT * suit)
    return (hand & ~trumps & carichi) != 0


@kernel
def _may_signal(state: Any) -> Any:
    return (
        state["signals"] != 0
        and state["signalled"] == 0
        and state["trick"] >= state["signals_from_trick"]
    )


@kernel
def _message_is_true(state: Any, message: Any) -> Any:
    """A conventional message may only be true (section 5)."""
    hand = state["hands"][state["current_player"]]
    if HAVE_LOW <= message <= HAVE_CARICO:
        return class_claim_holds(hand, state["trump"], message)
    card = _named_trump(state, message)
    return card >= 0 and hand & bit(card) != 0


@kernel
def is_legal_one(state: Any, action: Any) -> Any:
    """True if the seat to act may take this action, any whole number; False if the game is over."""
    if state["current_player"] < 0 or action < 0 or action >= state["num_actions"]:
        return False
    if action < NUM_CARDS:
        return state["hands"][state["current_player"]] & bit(action) != 0
    if action < FIRST_SIGNAL:
        return swap_card_one(state, action) >= 0
    if not _may_signal(state):
        return False
    return state["signals"] == _FREE or _message_is_true(state, action - FIRST_SIGNAL)


@inlined_kernel
def legal_actions_one(state: Any, row: Any, out: Any) -> None:
    """Legal actions of the seat to act into that row of `out`; all False if the game is over."""
    over = state["current_player"] < 0
    write_cards(out, row, 0, 0 if over else state["hands"][state["current_player"]])
    for action in range(NUM_CARDS, out.shape[1]):
        out[row, action] = is_legal_one(state, action)


@kernel
def legal_actions(states: Any, out: Any) -> None:
    """Legal actions of the seats to act into `out`, bool [N, num_actions].

    A row is all False if and only if that game is over.
    """
    for i in range(len(states)):
        legal_actions_one(states[i], i, out)


# -------------------------------------------------------------------------------------------- step


@inlined_kernel
def _record(state: Any, action: Any) -> None:
    length = state["history_length"]
    state["history"][length] = action
    state["history_seat"][length] = state["current_player"]
    state["history_length"] = length + 1


@inlined_kernel
def _draw(state: Any, winner: Any) -> None:
    """Every seat draws one card, from the winner on; the face-up card is the last (section 3)."""
    players = np.int64(state["players"])
    for i in range(players):
        seat = wrapped(winner + i, players)
        if state["stock_count"] > 0:
            state["hands"][seat] |= bit(pop_stock(state))
        else:
            card = bit(state["face_up"])
            state["hands"][seat] |= card
            state["known"][seat] |= card
            state["face_up"] = -1
    if state["face_up"] < 0 and state["show_partner"] & _LAST_TRICKS:
        for seat in range(players):
            state["team_known"][seat] = state["hands"][seat]


@inlined_kernel
def deal_winner_one(state: Any) -> Any:
    """The side with strictly the most card points so far in this deal, -1 if two share that."""
    scores = state["scores"]
    best, shared = 0, False
    for side in range(1, state["sides"]):
        if scores[side] > scores[best]:
            best, shared = side, False
        elif scores[side] == scores[best]:
            shared = True
    return -1 if shared else best


@kernel
def _finish_deal(state: Any) -> None:
    """Book the deal, and deal the next one of a match that is not decided (section 4)."""
    for side in range(state["sides"]):
        state["last_scores"][side] = state["scores"][side]
    state["deals"] += 1
    winner = deal_winner_one(state)
    if winner >= 0:
        state["wins"][winner] += 1
    if state["match_wins"] > 0:
        decided = winner >= 0 and state["wins"][winner] == state["match_wins"]
        if not decided and state["deals"] < state["max_deals"]:
            state["dealer"] = wrapped(state["dealer"] + 1, np.int64(state["players"]))
            next_deal_one(state)
            return
        if not decided:
            winner = -1
    state["winner"] = winner
    state["current_player"] = -1


@inlined_kernel
def _finish_trick(state: Any) -> None:
    players = np.int64(state["players"])
    winner = wrapped(state["leader"] + winning_place(state), players)
    points = 0
    for i in range(players):
        points += POINTS_OF[state["table"][i]]
        state["table"][i] = -1
    state["table_count"] = 0
    state["scores"][winner % state["sides"]] += points
    state["last_winner"] = winner
    state["last_points"] = points
    state["leader"] = winner
    state["current_player"] = winner
    state["trick"] += 1
    if state["face_up"] >= 0:
        _draw(state, winner)
    elif state["trick"] == state["num_tricks"]:
        _finish_deal(state)


@inlined_kernel
def _play(state: Any, card: Any) -> None:
    seat = np.int64(state["current_player"])
    cards = bit(card)
    state["hands"][seat] &= ~cards
    state["played"][seat] |= cards
    state["known"][seat] &= ~cards
    state["team_known"][seat] &= ~cards
    state["signalled"] = 0
    state["claim"] = -1
    state["table"][state["table_count"]] = card
    state["table_count"] += 1
    if state["table_count"] == state["players"]:
        _finish_trick(state)
    else:
        state["current_player"] = wrapped(seat + 1, np.int64(state["players"]))


@kernel
def _swap(state: Any, action: Any) -> None:
    """Exchange or withdraw the face-up card; everybody knows who holds it then."""
    seat = state["current_player"]
    card = swap_card_one(state, action)
    put, taken = bit(card), bit(state["face_up"])
    state["hands"][seat] = (state["hands"][seat] & ~put) | taken
    state["known"][seat] = (state["known"][seat] & ~put) | taken
    state["team_known"][seat] &= ~put
    state["face_up"] = card
    if action == WITHDRAW_CARD:
        state["withdrawn"] = card
        state["withdrawn_by"] = seat
    if state["claim"] == HAVE_LOW:
        state["claim"] = -1  # the card put down made it true


@kernel
def _signal(state: Any, message: Any) -> None:
    seat = np.int64(state["current_player"])
    state["signalled"] = 1
    state["last_message"][seat] = message
    if state["signals"] == _FREE:
        return
    card = _named_trump(state, message)
    if card < 0:
        state["claim"] = message
        return
    if state["signal_audience"] == _TABLE:
        state["known"][seat] |= bit(card)
    else:
        state["team_known"][seat] |= bit(card)
    for partner in range(seat % state["sides"], state["players"], state["sides"]):
        if partner != seat:
            state["reference"][partner] = STRENGTH_OF[card]


@inlined_kernel
def step_one(state: Any, action: Any) -> None:
    """One action in one record: see `step`."""
    if state["current_player"] < 0:
        return
    _record(state, action)
    if action < NUM_CARDS:
        _play(state, action)
    elif action < FIRST_SIGNAL:
        _swap(state, action)
    else:
        _signal(state, action - FIRST_SIGNAL)


@kernel
def step(states: Any, actions: Any) -> None:
    """Take one action (int64 [N]) in every game, in place; finished games stay as they are.

    Actions are not checked. In a match the last card of a deal deals the next one: the record
    keeps the last trick's winner and points, and the last deal's scores.
    """
    for i in range(len(states)):
        step_one(states[i], actions[i])


@kernel
def returns(states: Any, out: Any) -> None:
    """Card points of each seat's side in this deal so far into `out`, int16 [N, players]."""
    for i in range(len(states)):
        for seat in range(states[i]["players"]):
            out[i, seat] = states[i]["scores"][seat % states[i]["sides"]]


def trick_margins(states: States) -> NDArray[np.float32]:
    """The last trick's points for each seat's side, less the mean of the others': [N, players]."""
    players, sides = int(states["players"][0]), int(states["sides"][0])
    points = states["last_points"].astype(np.float32)[:, None]
    won = states["last_winner"][:, None] % sides == np.arange(players) % sides
    margins: NDArray[np.float32] = np.where(won, points, -points / (sides - 1))
    return margins
