"""What a seat knows as numbers for a network: the feature planes, the tokens, the frames.

There is one layout, `features(rules)`, and one encoder; training, play and the environments all use
it, so an observation cannot differ between them. A frame says in which place each suit stands, in
cards, masks and actions alike: names of suits mean nothing, and a network learns faster when trump
is always the same columns, and faster still when the other suits come in an order of its hand.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import (
    CARDS_PER_SUIT,
    NUM_CARDS,
    NUM_SUITS,
    STRENGTH_OF,
    SUIT_CARDS,
    SUIT_OF,
)
from briscola_env.checks import check_one_of, whole_number
from briscola_env.engine import WINNERS, winning_place
from briscola_env.jit import inlined_kernel, kernel, lowest, wrapped, write_8_bits, write_cards
from briscola_env.rules import Rules
from briscola_env.state import States

LAYOUT_VERSION = 1
"""Raised whenever the meaning of an observation changes; checkpoints carry it."""

FRAMES = ("table", "trump_first", "canonical")
SHOW_POINTS = ("hidden", "own", "all")
POINT_BITS = 7  # 0..120

_TRUMP_FIRST, _CANONICAL = 1, 2  # indices in FRAMES
_ALL = 2  # index in SHOW_POINTS; that of `own`, 1, is also the number of sides then shown
_WORD = 8  # a row is whole words


@dataclass(frozen=True)
class Feature:
    """One slice of an observation vector: places start .. stop-1."""

    name: str
    start: int
    stop: int
    meaning: str


def features(rules: Rules, recent_tricks: int = 0) -> tuple[Feature, ...]:
    """The layout of an observation vector under these rules, with so many finished tricks in it.

    Card planes come first, 40 places each by card id, then one-hot numbers; seats and sides are
    relative to the observer (0 = itself, then in turn order). A slice of an option that is off is
    empty. Zeros at the end fill the row up to whole 8-byte words.
    """
    n, sides = rules.players, rules.sides
    draws = rules.num_tricks - rules.hand_size
    match = sides * (rules.match_wins + 1) if rules.match_wins else 0
    sizes = [
        ("hand", NUM_CARDS, "own hand"),
        ("winning", NUM_CARDS, "own cards that, played now, would win the trick so far"),
        ("face_up", NUM_CARDS, "the face-up card while it lies under the stock"),
        ("table", n * NUM_CARDS, "by relative seat: its card on the table"),
        ("played", n * NUM_CARDS, "by relative seat: all its plays of this deal, table included"),
        (
            "known",
            n * NUM_CARDS,
            "by relative seat: cards that the observer knows to be in its hand "
            "(for the observer itself: those that others know)",
        ),
        ("reburied", NUM_CARDS if rules.rebury != "off" else 0, "cards put back into the stock"),
        (
            "recent",
            recent_tricks * (n + 1) * NUM_CARDS,
            "by finished trick, the latest first: the card that was led, "
            "then by relative seat the card it played",
        ),
        ("trump", NUM_SUITS, "one-hot: the trump suit"),
        ("leader", n, "one-hot, relative: the seat that leads this trick"),
        ("stock", draws + 1, "one-hot: how many more times every seat will draw"),
        ("trick", rules.num_tricks, "one-hot: number of the trick; all 0 when the deal is over"),
        (
            "message",
            n * len(rules.messages),
            "by relative seat, one-hot: the message last heard from it in this deal",
        ),
        ("wins", match, "by relative side, one-hot: deals won in this match"),
        (
            "points",
            sides * POINT_BITS,
            "by relative side: card points in this deal as a binary number, lowest bit first; "
            "0 while hidden",
        ),
    ]
    used = sum(size for _, size, _ in sizes)
    sizes.append(("padding", -used % _WORD, "always 0"))
    layout, start = [], 0
    for name, size, meaning in sizes:
        layout.append(Feature(name, start, start + size, meaning))
        start += size
    return tuple(layout)


# An order of the suits is a number with two bits for each place: the suit that stands there.
TABLE_ORDER = 0b11_10_01_00


@kernel
def suit_order(state: Any, frame: Any) -> Any:
    """The suits in their places, as one number, for the seat whose view or whose turn this is.

    frame: index in FRAMES. `trump_first`: the trump suit and suit 0 change places. `canonical`: the
    trump suit, then the others by what the seat holds of them, and by what was played of them, the
    higher cards counting more.
    """
    trump = np.int64(state["trump"])
    if frame == _TRUMP_FIRST:
        return TABLE_ORDER ^ (trump | (trump << (2 * trump)))
    if frame != _CANONICAL:
        return np.int64(TABLE_ORDER)
    seat = np.int64(state["observer"])
    if seat < 0:
        seat = max(np.int64(state["current_player"]), np.int64(0))
    hand, played = state["hands"][seat], np.int64(0)
    for other in range(np.int64(state["players"])):
        played |= state["played"][other]
    order, place, left = trump, 2, np.int64(0b1111) & ~(np.int64(1) << trump)
    while left:
        best: Any = np.int64(-1)
        first: Any = np.int64(0)
        suits = left
        while suits:
            suit = lowest(suits)
            suits &= suits - 1
            shift = CARDS_PER_SUIT * suit
            held = (hand >> shift) & SUIT_CARDS[0]
            key = (held << CARDS_PER_SUIT) | ((played >> shift) & SUIT_CARDS[0])
            if key > best:
                best, first = key, suit
        order |= first << place
        place += 2
        left &= ~(1 << first)
    return order


@inlined_kernel
def _suit_at(order: Any, place: Any) -> Any:
    return (order >> (2 * place)) & 3


@kernel
def inverse_order(order: Any) -> Any:
    """The order that leads back: the place of each suit."""
    inverse = np.int64(0)
    for place in range(NUM_SUITS):
        inverse |= place << (2 * _suit_at(order, place))
    return inverse


@kernel
def reorder_cards(cards: Any, order: Any) -> Any:
    """A set of cards with each suit in its place of the order."""
    moved = np.int64(0)
    for place in range(NUM_SUITS):
        suit = (cards >> (CARDS_PER_SUIT * _suit_at(order, place))) & SUIT_CARDS[0]
        moved |= suit << (CARDS_PER_SUIT * place)
    return moved


@kernel
def action_at_table(action: Any, order: Any) -> Any:
    """The action at the table that `action` in an order's frame is; with its inverse, the way back.

    Swaps and signals are the same in every frame.
    """
    if action < 0 or action >= NUM_CARDS or order == TABLE_ORDER:
        return np.int64(action)
    suit = _suit_at(order, np.int64(SUIT_OF[action]))
    return CARDS_PER_SUIT * suit + np.int64(STRENGTH_OF[action])


@kernel
def reorder_mask(mask: Any, row: Any, order: Any) -> None:
    """Put the cards' columns in that row of a mask at the table in their places, in place."""
    if order == TABLE_ORDER:
        return
    cards = np.int64(0)
    for card in range(NUM_CARDS):
        cards |= np.int64(mask[row, card]) << card
    cards = reorder_cards(cards, order)
    for card in range(NUM_CARDS):
        mask[row, card] = (cards >> card) & 1


@inlined_kernel
def _winning_cards(info: Any, hand: Any) -> Any:
    """The cards in `hand` that beat everything on the table; all if it is empty."""
    return hand & WINNERS[info["table"][winning_place(info)], info["trump"]]


@kernel
def _bit_or_none(card: Any) -> Any:
    """The set of this card, or the empty set for -1; without a branch, as it is hard to foresee."""
    return np.int64(card >= 0) << (np.int64(card) & 63)


@inlined_kernel
def _write_plane(out: Any, row: Any, at: Any, cards: Any, order: Any) -> Any:
    """Write a set of cards as 40 bytes, its suits in that order."""
    write_cards(out, row, at, cards if order == TABLE_ORDER else reorder_cards(cards, order))
    return at + NUM_CARDS


@inlined_kernel
def _encode_numbers(
    info: Any,
    at: Any,
    order: Any,
    messages: Any,
    match_wins: Any,
    show_points: Any,
    row: Any,
    out: Any,
) -> None:
    """The one-hot numbers behind the card planes, from place `at` on, into zeros."""
    n, sides = np.int64(info["players"]), np.int64(info["sides"])
    observer, tricks = np.int64(info["observer"]), np.int64(info["num_tricks"])
    out[row, at + _suit_at(inverse_order(order), np.int64(info["trump"]))] = 1
    at += NUM_SUITS
    out[row, at + wrapped(info["leader"] - observer + n, n)] = 1
    at += n
    draws = np.int64(info["draws"])
    out[row, at + max(draws - info["trick"], 0)] = 1
    at += draws + 1
    if info["trick"] < tricks:
        out[row, at + info["trick"]] = 1
    at += tricks
    for i in range(n if messages > 0 else 0):
        message = np.int64(info["last_message"][wrapped(observer + i, n)])
        if message >= 0:
            out[row, at + message] = 1
        at += messages
    side = observer if sides == 3 else observer & 1
    for i in range(sides if match_wins > 0 else 0):
        out[row, at + min(np.int64(info["wins"][wrapped(side + i, sides)]), match_wins)] = 1
        at += match_wins + 1
    shown = sides if show_points == _ALL or info["current_player"] < 0 else show_points
    for i in range(shown):
        points = np.int64(info["scores"][wrapped(side + i, sides)])
        for k in range(POINT_BITS):
            out[row, at + k] = (points >> k) & 1
        at += POINT_BITS


@kernel
def _encode_recent(info: Any, at: Any, order: Any, tricks: Any, row: Any, out: Any) -> None:
    """The cards of the latest finished tricks, from place `at` on, into zeros."""
    n, observer = np.int64(info["players"]), np.int64(info["observer"])
    places = inverse_order(order)
    before = -np.int64(info["table_count"])  # how many cards of finished tricks were seen so far
    for i in range(np.int64(info["history_length"]) - 1, -1, -1):
        card = np.int64(info["history"][i])
        if card >= NUM_CARDS:
            continue
        if before >= tricks * n:
            return
        if before >= 0:
            trick = at + before // n * (n + 1) * NUM_CARDS
            seat = wrapped(info["history_seat"][i] - observer + n, n)
            card = action_at_table(card, places)
            out[row, trick + (1 + seat) * NUM_CARDS + card] = 1
            if before % n == n - 1:
                out[row, trick + card] = 1
        before += 1


@inlined_kernel
def encode_one(
    info: Any,
    frame: Any,
    reburied: Any,
    messages: Any,
    match_wins: Any,
    show_points: Any,
    recent_tricks: Any,
    row: Any,
    out: Any,
) -> None:
    """Features of one info state into that row of `out`, int8 [N, size]."""
    n, observer = np.int64(info["players"]), np.int64(info["observer"])
    order = suit_order(info, frame)
    hand = info["hands"][observer]
    at = _write_plane(out, row, 0, hand, order)
    at = _write_plane(out, row, at, _winning_cards(info, hand), order)
    at = _write_plane(out, row, at, _bit_or_none(info["face_up"]), order)
    for i in range(n):
        place = wrapped(wrapped(observer + i, n) - info["leader"] + n, n)
        on_table = _bit_or_none(info["table"][place])
        at = _write_plane(out, row, at, on_table, order)
    for i in range(n):
        at = _write_plane(out, row, at, info["played"][wrapped(observer + i, n)], order)
    for i in range(n):
        seat = wrapped(observer + i, n)
        at = _write_plane(out, row, at, info["known"][seat] | info["team_known"][seat], order)
    if reburied:
        at = _write_plane(out, row, at, info["reburied"], order)
    for place in range(at, out.shape[1], _WORD):
        write_8_bits(out, row, place, 0)
    if recent_tricks:
        _encode_recent(info, np.int64(at), order, recent_tricks, row, out)
        at += recent_tricks * (n + 1) * NUM_CARDS
    _encode_numbers(info, np.int64(at), order, messages, match_wins, show_points, row, out)


@kernel
def _encode(
    infos: Any,
    frame: Any,
    reburied: Any,
    messages: Any,
    match_wins: Any,
    show_points: Any,
    recent_tricks: Any,
    out: Any,
) -> None:
    for i in range(len(infos)):
        encode_one(
            infos[i], frame, reburied, messages, match_wins, show_points, recent_tricks, i, out
        )


@kernel
def _encode_tokens(infos: Any, frame: Any, out: Any) -> None:
    out[:] = -1
    for i in range(len(infos)):
        info = infos[i]
        n, plays = np.int64(info["players"]), 0
        places = inverse_order(suit_order(info, frame))
        for k in range(info["history_length"]):
            action = np.int64(info["history"][k])
            out[i, k, 0] = action_at_table(action, places)
            out[i, k, 1] = wrapped(info["history_seat"][k] - info["observer"] + n, n)
            out[i, k, 2] = plays // n
            plays += 1 if action < NUM_CARDS else 0


@kernel
def _move_actions(states: Any, actions: Any, frame: Any, back: Any, out: Any) -> None:
    for i in range(len(states)):
        order = suit_order(states[i], frame)
        out[i] = action_at_table(actions[i], order if back else inverse_order(order))


@kernel
def _move_columns(states: Any, columns: Any, frame: Any, back: Any, out: Any) -> None:
    for i in range(len(states)):
        order = suit_order(states[i], frame)
        if back:
            order = inverse_order(order)
        for action in range(NUM_CARDS):
            out[i, action] = columns[i, action_at_table(action, order)]


class Encoder:
    """Turns info states into observations, in one frame, for one kind of table.

    rules: the table; the match may be longer or shorter. frame: see
    `suit_order`.
    show_points: whose card points can be read before the deal is over: nobody's (`hidden`), the
    `own` side's, or `all`. recent_tricks: how many of the latest finished tricks are shown card by
    card, 0 .. num_tricks - 1. ValueError names another value and what is allowed.
    """

    def __init__(
        self,
        rules: Rules,
        frame: str = "table",
        show_points: str = "hidden",
        recent_tricks: int = 0,
    ) -> None:
        check_one_of("frame", frame, FRAMES)
        check_one_of("show_points", show_points, SHOW_POINTS)
        whole_number("recent_tricks", recent_tricks, 0, rules.num_tricks - 1)
        self.rules = rules
        self.frame = frame
        self.show_points = show_points
        self.recent_tricks = recent_tricks
        self.features = features(rules, recent_tricks)
        self.size = self.features[-1].stop
        self.tokens_shape = (rules.max_history, 3)
        self.frame_index = FRAMES.index(frame)
        self.arguments = (
            self.frame_index,
            rules.rebury != "off",
            len(rules.messages),
            rules.match_wins,
            SHOW_POINTS.index(show_points),
            recent_tricks,
        )
        """What `encode_one` takes between the info state and the row."""

    @property
    def card_planes(self) -> int:
        """How many planes of 40 cards an observation starts with."""
        trump = next(feature for feature in self.features if feature.name == "trump")
        return trump.start // NUM_CARDS

    @property
    def digest(self) -> str:
        """Hash of the layout, for checkpoints: names and slices in order."""
        layout = [
            [feature.name, feature.start, feature.stop]
            for feature in self.features
            # Checkpoints from before there was such a slice know nothing of it.
            if feature.name != "recent" or self.recent_tricks
        ]
        return hashlib.sha256(json.dumps([LAYOUT_VERSION, layout]).encode()).hexdigest()[:16]

    def encode(self, info_states: States, out: NDArray[np.int8] | None = None) -> NDArray[np.int8]:
        """Features of info states [N]: int8 [N, size] of 0 and 1, in `out` if it is given."""
        if out is None:
            out = np.empty((len(info_states), self.size), np.int8)
        _encode(info_states, *self.arguments, out)
        return out

    def encode_tokens(self, info_states: States) -> NDArray[np.int16]:
        """Every visible action of the deal so far: int16 [N, T, 3], padded with -1.

        A token is (action id, relative seat, number of the trick).
        """
        out = np.empty((len(info_states), *self.tokens_shape), np.int16)
        _encode_tokens(info_states, self.frame_index, out)
        return out

    def to_frame(self, states: States, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Actions [N] at the table in this frame, a new array.

        states: info states, or full states for the seats to act.
        """
        return self._move(states, actions, False)

    def to_table(self, states: States, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Actions [N] in this frame at the table, a new array; states as in `to_frame`."""
        return self._move(states, actions, True)

    def columns_to_frame(self, states: States, columns: NDArray[Any]) -> NDArray[Any]:
        """Columns by action at the table [N, num_actions] (a mask) in this frame, a new array."""
        return self._move_columns(states, columns, False)

    def columns_to_table(self, states: States, columns: NDArray[Any]) -> NDArray[Any]:
        """Columns by action in this frame [N, num_actions] at the table, a new array."""
        return self._move_columns(states, columns, True)

    def _move(self, states: States, actions: NDArray[Any], back: bool) -> NDArray[np.int64]:
        out = np.array(actions, np.int64)
        if self.frame_index:
            _move_actions(states, out, self.frame_index, back, out)
        return out

    def _move_columns(self, states: States, columns: NDArray[Any], back: bool) -> NDArray[Any]:
        out = columns.copy()
        if self.frame_index:
            _move_columns(states, columns, self.frame_index, back, out)
        return out
