"""What a seat knows as numbers for a network: the feature planes, the tokens, the frames.

There is one layout, `features(rules)`, and one encoder; training, play and the environments all use
it, so an observation cannot differ between them. In the frame `trump_first` the trump suit and
suit 0 change places in cards, masks and actions alike: suits but trump are interchangeable, and a
network learns faster when trump is always the same columns.
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
from briscola_env.engine import WINNERS, winning_place
from briscola_env.jit import inlined_kernel, kernel, wrapped, write_8_bits, write_cards
from briscola_env.rules import Rules
from briscola_env.state import States

LAYOUT_VERSION = 1
"""Raised whenever the meaning of an observation changes; checkpoints carry it."""

FRAMES = ("table", "trump_first")
SHOW_POINTS = ("hidden", "own", "all")
POINT_BITS = 7  # 0..120

_ALL = 2  # index in SHOW_POINTS; that of `own`, 1, is also the number of sides then shown
_WORD = 8  # a row is whole words


@dataclass(frozen=True)
class Feature:
    """One slice of an observation vector: places start .. stop-1."""

    name: str
    start: int
    stop: int
    meaning: str


def features(rules: Rules) -> tuple[Feature, ...]:
    """The layout of an observation vector under these rules.

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
            *("known", n * NUM_CARDS),
            "by relative seat: cards that the observer knows to be in its hand "
            "(for the observer itself: those that others know)",
        ),
        ("reburied", NUM_CARDS if rules.rebury != "off" else 0, "cards put back into the stock"),
        ("trump", NUM_SUITS, "one-hot: the trump suit"),
        ("leader", n, "one-hot, relative: the seat that leads this trick"),
        ("stock", draws + 1, "one-hot: how many more times every seat will draw"),
        ("trick", rules.num_tricks, "one-hot: number of the trick; all 0 when the deal is over"),
        (
            *("message", n * len(rules.messages)),
            "by relative seat, one-hot: the message last heard from it in this deal",
        ),
        ("wins", match, "by relative side, one-hot: deals won in this match"),
        (
            *("points", sides * POINT_BITS),
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


@kernel
def swap_suits(cards: Any, trump: Any) -> Any:
    """A set of cards with the trump suit and suit 0 in each other's place."""
    shift = CARDS_PER_SUIT * np.int64(trump)
    difference = (cards ^ (cards >> shift)) & SUIT_CARDS[0]
    return cards ^ difference ^ (difference << shift)


@kernel
def swap_suit(action: Any, trump: Any) -> Any:
    """The same for one action; swaps and signals stay as they are. It is its own inverse."""
    if action < 0 or action >= NUM_CARDS:
        return action
    if SUIT_OF[action] == trump:
        return np.int64(STRENGTH_OF[action])
    if SUIT_OF[action] == 0:
        return action + CARDS_PER_SUIT * np.int64(trump)
    return action


@inlined_kernel
def _winning_cards(info: Any, hand: Any) -> Any:
    """The cards in `hand` that beat everything on the table; all if it is empty."""
    return hand & WINNERS[info["table"][winning_place(info)], info["trump"]]


@kernel
def _bit_or_none(card: Any) -> Any:
    """The set of this card, or the empty set for -1; without a branch, as it is hard to foresee."""
    return np.int64(card >= 0) << (np.int64(card) & 63)


@inlined_kernel
def _write_plane(out: Any, row: Any, at: Any, cards: Any, trump: Any) -> Any:
    """Write a set of cards as 40 bytes; trump: the suit to change places with suit 0."""
    write_cards(out, row, at, swap_suits(cards, trump) if trump > 0 else cards)
    return at + NUM_CARDS


@inlined_kernel
def _encode_numbers(
    info: Any,
    at: Any,
    trump: Any,
    messages: Any,
    match_wins: Any,
    show_points: Any,
    row: Any,
    out: Any,
) -> None:
    """The one-hot numbers behind the card planes, from place `at` on, into zeros."""
    n, sides = np.int64(info["players"]), np.int64(info["sides"])
    observer, tricks = np.int64(info["observer"]), np.int64(info["num_tricks"])
    out[row, at + (0 if trump > 0 else info["trump"])] = 1
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


@inlined_kernel
def encode_one(
    info: Any,
    trump_first: Any,
    reburied: Any,
    messages: Any,
    match_wins: Any,
    show_points: Any,
    row: Any,
    out: Any,
) -> None:
    """Features of one info state into that row of `out`, int8 [N, size]."""
    n, observer = np.int64(info["players"]), np.int64(info["observer"])
    trump = np.int64(info["trump"]) if trump_first else np.int64(0)
    hand = info["hands"][observer]
    at = _write_plane(out, row, 0, hand, trump)
    at = _write_plane(out, row, at, _winning_cards(info, hand), trump)
    at = _write_plane(out, row, at, _bit_or_none(info["face_up"]), trump)
    for i in range(n):
        place = wrapped(wrapped(observer + i, n) - info["leader"] + n, n)
        on_table = _bit_or_none(info["table"][place])
        at = _write_plane(out, row, at, on_table, trump)
    for i in range(n):
        at = _write_plane(out, row, at, info["played"][wrapped(observer + i, n)], trump)
    for i in range(n):
        seat = wrapped(observer + i, n)
        at = _write_plane(out, row, at, info["known"][seat] | info["team_known"][seat], trump)
    if reburied:
        at = _write_plane(out, row, at, info["reburied"], trump)
    for place in range(at, out.shape[1], _WORD):
        write_8_bits(out, row, place, 0)
    first = trump if trump_first else np.int64(-1)
    _encode_numbers(info, np.int64(at), first, messages, match_wins, show_points, row, out)


@kernel
def _encode(
    infos: Any,
    trump_first: Any,
    reburied: Any,
    messages: Any,
    match_wins: Any,
    show_points: Any,
    out: Any,
) -> None:
    for i in range(len(infos)):
        encode_one(infos[i], trump_first, reburied, messages, match_wins, show_points, i, out)


@kernel
def _encode_tokens(infos: Any, trump_first: Any, out: Any) -> None:
    out[:] = -1
    for i in range(len(infos)):
        info = infos[i]
        n, plays = np.int64(info["players"]), 0
        for k in range(info["history_length"]):
            action = np.int64(info["history"][k])
            out[i, k, 0] = swap_suit(action, info["trump"]) if trump_first else action
            out[i, k, 1] = wrapped(info["history_seat"][k] - info["observer"] + n, n)
            out[i, k, 2] = plays // n
            plays += 1 if action < NUM_CARDS else 0


@kernel
def _frame_actions(states: Any, actions: Any, out: Any) -> None:
    for i in range(len(states)):
        out[i] = swap_suit(actions[i], states[i]["trump"])


@kernel
def _frame_columns(states: Any, columns: Any, out: Any) -> None:
    for i in range(len(states)):
        for action in range(NUM_CARDS):
            out[i, swap_suit(action, states[i]["trump"])] = columns[i, action]


class Encoder:
    """Turns info states into observations, in one frame, for one kind of table.

    rules: the table; the match may be longer or shorter. frame: `table` or `trump_first`.
    show_points: whose card points can be read before the deal is over: nobody's (`hidden`), the
    `own` side's, or `all`. ValueError names another value and what is allowed.
    """

    def __init__(self, rules: Rules, frame: str = "table", show_points: str = "hidden") -> None:
        for name, value, allowed in (
            ("frame", frame, FRAMES),
            ("show_points", show_points, SHOW_POINTS),
        ):
            if value not in allowed:
                raise ValueError(f"{name}={value!r}: allowed are {', '.join(map(repr, allowed))}")
        self.rules = rules
        self.frame = frame
        self.show_points = show_points
        self.features = features(rules)
        self.size = self.features[-1].stop
        self.tokens_shape = (rules.max_history, 3)
        self.arguments = (
            frame == "trump_first",
            rules.rebury != "off",
            len(rules.messages),
            rules.match_wins,
            SHOW_POINTS.index(show_points),
        )
        """What `encode_one` takes between the info state and the row."""

    @property
    def digest(self) -> str:
        """Hash of the layout, for checkpoints: names and slices in order."""
        layout = [[feature.name, feature.start, feature.stop] for feature in self.features]
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
        _encode_tokens(info_states, self.frame == "trump_first", out)
        return out

    def to_frame(self, states: States, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Actions [N] at the table in this frame, or back: it is its own inverse. A new array."""
        out = np.array(actions, np.int64)
        if self.frame == "trump_first":
            _frame_actions(states, out, out)
        return out

    def columns_to_frame(self, states: States, columns: NDArray[Any]) -> NDArray[Any]:
        """Columns by action [N, num_actions] (masks, probabilities) in this frame, or back.

        A new array; it is its own inverse.
        """
        out = columns.copy()
        if self.frame == "trump_first":
            _frame_columns(states, columns, out)
        return out
