"""The record of one game: `GAME_STATE`, blank records, and a record as text and back.

N games are an array of N records; a copy of a record is a copy of the game. What one seat knows
is a record of the same type with the hidden part erased (`information.info_state`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS, SUITS, card_set, cards_of, format_card, parse_card
from briscola_env.rules import (
    REBURY,
    SHOW_PARTNER,
    SIGNAL_AUDIENCES,
    SIGNALS,
    WITHDRAW,
    Rules,
)

MAX_PLAYERS, MAX_SIDES = 6, 3
MAX_HISTORY = 84  # 40 plays, 3 swaps, 40 signals, rounded up

States = NDArray[Any]
"""An array of GAME_STATE records, shape [N]."""

# The widest fields come first, so that there are no bytes between fields: equal games, equal bytes.
# Arrays by seat have room for six, by side for three; entries past the table's size stay blank.
# A card or seat of -1 means none. Sets of cards are integers with bit `card` set.
GAME_STATE = np.dtype(
    [
        ("hands", np.int64, MAX_PLAYERS),  # set: cards in hand; 0 where erased
        ("played", np.int64, MAX_PLAYERS),  # set: cards played in this deal, table included
        ("known", np.int64, MAX_PLAYERS),  # set: in that hand, as everybody knows
        ("team_known", np.int64, MAX_PLAYERS),  # set: in that hand, as its partners know
        ("reburied", np.int64),  # set: aces and threes that were put back into the stock
        ("deck", np.int64),  # set: cards in play
        ("rng", np.uint64),  # state of the game's own random generator; 0 where erased
        ("scores", np.int16, MAX_SIDES),  # card points won in this deal, 0..120
        ("last_scores", np.int16, MAX_SIDES),  # those of the last finished deal; -1 before
        ("last_points", np.int16),  # card points of the last finished trick
        ("deals", np.int16),  # finished deals of this match
        ("max_deals", np.int16),  # after so many the match is truncated
        ("wins", np.int8, MAX_SIDES),  # deals won in this match
        ("winner", np.int8),  # side that won the episode; -1 while it lasts, or drawn
        ("current_player", np.int8),  # seat to act; -1 when the episode is over
        ("dealer", np.int8),  # seat
        ("leader", np.int8),  # seat that leads the current trick; after the last, its winner
        ("trick", np.int8),  # number of the current trick, from 0; num_tricks after the last
        ("trump", np.int8),  # suit
        ("face_up", np.int8),  # card under the stock; -1 once it was drawn
        ("initial_face_up", np.int8),  # the card that fixed trump
        ("stock_count", np.int8),  # face-down cards left
        ("stock", np.int8, NUM_CARDS),  # face-down cards; the next drawn is [stock_count - 1]
        ("table", np.int8, MAX_PLAYERS),  # cards of the current trick in the order played
        ("table_count", np.int8),  # how many there are
        ("last_winner", np.int8),  # seat that won the last finished trick; -1 before the first
        ("withdrawn", np.int8),  # card put down by a withdrawal
        ("withdrawn_by", np.int8),  # seat
        ("signalled", np.int8),  # 1 if the seat to act has signalled in this turn
        ("claim", np.int8),  # HAVE_LOW, NO_TRUMP or HAVE_CARICO said in this turn, else -1
        ("last_message", np.int8, MAX_PLAYERS),  # message last given by that seat; -1 none
        ("reference", np.int8, MAX_PLAYERS),  # strength of the trump a partner named last; -1
        ("history_length", np.int8),  # actions in this deal
        ("history", np.int8, MAX_HISTORY),  # action ids in order
        ("history_seat", np.int8, MAX_HISTORY),  # who took them
        ("observer", np.int8),  # seat whose view this record is; -1 for the full state
        # -- the rules, with deck and max_deals above --
        ("players", np.int8),
        ("sides", np.int8),  # 2 or 3; the side of a seat is seat % sides
        ("hand_size", np.int8),
        ("num_tricks", np.int8),  # tricks a deal
        ("draws", np.int8),  # how many of them, the first ones, are followed by a draw
        ("num_actions", np.int8),
        ("match_wins", np.int8),
        ("rebury", np.int8),  # index in rules.REBURY, likewise below
        ("rebury_middle", np.int8),  # 0 or 1
        ("exchange_seven", np.int8),  # 0 or 1
        ("exchange_two", np.int8),  # 0 or 1
        ("withdraw", np.int8),
        ("show_partner", np.int8),
        ("signals", np.int8),
        ("signals_from_trick", np.int8),
        ("signal_audience", np.int8),
    ],
    align=True,
)

_CARD_SETS = {"hands", "played", "known", "team_known", "reburied", "deck"}
_CARDS = {"face_up", "initial_face_up", "withdrawn", "stock", "table"}


_BLANK = np.zeros((), GAME_STATE)
for _name in (
    *("last_scores", "winner", "current_player", "dealer", "leader", "trump", "face_up", "stock"),
    *("initial_face_up", "table", "last_winner", "withdrawn", "withdrawn_by", "claim"),
    *("last_message", "reference", "history", "history_seat", "observer"),
):
    _BLANK[_name] = -1


def new_states(rules: Rules, n: int) -> States:
    """`n` blank records, shape [n], that carry these rules; nothing is dealt yet."""
    states = np.full(n, _BLANK, GAME_STATE)
    for name in (
        *("players", "sides", "hand_size", "num_tricks", "num_actions", "match_wins", "max_deals"),
        *("exchange_seven", "exchange_two", "signals_from_trick"),
    ):
        states[name] = getattr(rules, name)
    states["draws"] = rules.num_tricks - rules.hand_size
    states["deck"] = card_set(rules.deck)
    states["rebury"] = REBURY.index(rules.rebury)
    states["rebury_middle"] = rules.rebury_position == "middle"
    states["withdraw"] = WITHDRAW.index(rules.withdraw)
    states["show_partner"] = SHOW_PARTNER.index(rules.show_partner)
    states["signals"] = SIGNALS.index(rules.signals)
    states["signal_audience"] = SIGNAL_AUDIENCES.index(rules.signal_audience)
    return states


def format_state(state: Any) -> str:
    """One record as text: a line a field, cards by name, fields with blank values left out.

    `parse_state` reads it back to the same bytes.
    """
    lines = []
    for name in GAME_STATE.names or ():
        if np.array_equal(state[name], _BLANK[name]):
            continue
        values = np.atleast_1d(state[name])
        if name in _CARD_SETS:
            text = " | ".join(" ".join(map(format_card, cards_of(cards))) for cards in values)
        elif name in _CARDS:
            text = " ".join(format_card(card) if card >= 0 else "-" for card in values)
        elif name == "trump":
            text = SUITS[int(values[0])]
        else:
            text = " ".join(str(value) for value in values)
        lines.append(f"{name}: {text}".rstrip())
    return "\n".join(lines)


def parse_state(text: str) -> States:
    """The record that `format_state` wrote, shape [1]; ValueError names a line that is not one."""
    states = np.full(1, _BLANK, GAME_STATE)
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        try:
            if not colon or name not in (GAME_STATE.names or ()):
                raise ValueError("no such field")
            shape = GAME_STATE[name].shape
            if name in _CARD_SETS:
                parsed: list[int] = [
                    card_set(map(parse_card, part.split())) for part in value.split("|")
                ]
            elif name in _CARDS:
                parsed = [-1 if word == "-" else parse_card(word) for word in value.split()]
            elif name == "trump":
                parsed = [SUITS.index(value.strip())]
            else:
                parsed = [int(word) for word in value.split()]
            states[name][0] = np.array(parsed, GAME_STATE[name].base).reshape(shape)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"not a line of a game state: {line!r} ({error})") from None
    return states
