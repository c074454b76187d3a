"""`Rules`: the options of a table, checked once and frozen (docs/rules.md, section 5).

Rules are data: no class per variant. Their values are stamped into every game record, so kernels
never see this object. The errors that the edges of the package raise stand here too.
"""

import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from briscola_env.cards import (
    CARDS_PER_SUIT,
    NUM_CARDS,
    POINTS_OF,
    SEVEN,
    STRENGTH_OF,
    SUITS,
    THREE,
    TWO,
    format_card,
)

PLAYER_COUNTS = (2, 3, 4, 6)
REBURY = ("off", "once", "repeat")
REBURY_POSITIONS = ("random", "middle")
WITHDRAW = ("off", "deuce", "two_trumps")
SHOW_PARTNER = ("off", "before_first_trick", "before_last_tricks", "both")
SIGNALS = ("off", "conventional", "free")
SIGNAL_AUDIENCES = ("team", "table")

EXCHANGE_SEVEN, EXCHANGE_TWO, WITHDRAW_CARD = 40, 41, 42  # actions beyond the 40 cards
FIRST_SIGNAL = 43
SWAP_NAMES = ("EXCHANGE_SEVEN", "EXCHANGE_TWO", "WITHDRAW")

STUDY_DECKS: dict[str, dict[str, Any]] = {  # small enough to be solved (docs/openspiel.md)
    "study-6": {"cards": (0, 7, 9, 10, 17, 19), "hand_size": 2},
    "study-8": {"cards": (0, 7, 8, 9, 10, 17, 18, 19), "hand_size": 3},
}

HAVE_LOW, NO_TRUMP, HAVE_CARICO = 5, 6, 7  # messages 0..4 name the trump A 3 K H J
REL_MINUS, REL_PLUS = 8, 17  # messages REL-9..REL-1 and REL+1..REL+9 begin here
CONVENTIONAL_MESSAGES = (
    *("HAVE_A", "HAVE_3", "HAVE_K", "HAVE_H", "HAVE_J", "HAVE_LOW", "NO_TRUMP", "HAVE_CARICO"),
    *(f"REL-{k}" for k in range(9, 0, -1)),
    *(f"REL+{k}" for k in range(1, 10)),
)
FREE_MESSAGES = tuple(f"SYMBOL_{k}" for k in range(8))


class InvalidRulesError(ValueError):
    """A combination of options that no table can play; the message names the fields."""


class IllegalActionError(ValueError):
    """An action that the seat to act may not take; the message shows the position."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or was made for another game or layout."""


@dataclass(frozen=True)
class Rules:
    """The options of a table. Combinations that cannot be played raise InvalidRulesError.

    players: 2, 3, 4 or 6; with 4 and 6 the even seats play against the odd ones.
    removed_two: suit of the two that three players leave out (default `coins`).
    cards, hand_size: a study deck: the card ids in play, and how many cards a hand holds.
    match_wins: 0 = an episode is one deal; 1, 2, 3 = a match to that many won deals.
    max_deals: a match is truncated, drawn, after that many deals.
    rebury, rebury_position: what happens to a face-up ace or three; `middle` is for checking only.
    exchange_seven, exchange_two, withdraw: swaps with the face-up card.
    show_partner: when partners see each other's hands.
    signals, signals_from_trick, signal_audience: messages to partners, from which trick (0-based)
    on, and who notices them.
    """

    players: int = 2
    removed_two: str | None = None
    cards: tuple[int, ...] | None = None
    hand_size: int = 3
    match_wins: int = 0
    max_deals: int = 25
    rebury: str = "off"
    rebury_position: str = "random"
    exchange_seven: bool = False
    exchange_two: bool = False
    withdraw: str = "off"
    show_partner: str = "off"
    signals: str = "off"
    signals_from_trick: int = 1
    signal_audience: str = "team"

    def __post_init__(self) -> None:
        self._check_values()
        if self.cards is not None:
            object.__setattr__(self, "cards", tuple(sorted(_card_ids(self.cards))))
        elif self.players == 3 and self.removed_two is None:
            object.__setattr__(self, "removed_two", "coins")
        self._check_deck()
        self._check_swaps()
        self._check_partners()

    def _check_values(self) -> None:
        _one_of("players", self.players, PLAYER_COUNTS)
        _one_of("removed_two", self.removed_two, (None, *SUITS))
        _one_of("match_wins", self.match_wins, (0, 1, 2, 3))
        _one_of("rebury", self.rebury, REBURY)
        _one_of("rebury_position", self.rebury_position, REBURY_POSITIONS)
        _one_of("exchange_seven", self.exchange_seven, (False, True))
        _one_of("exchange_two", self.exchange_two, (False, True))
        _one_of("withdraw", self.withdraw, WITHDRAW)
        _one_of("show_partner", self.show_partner, SHOW_PARTNER)
        _one_of("signals", self.signals, SIGNALS)
        _one_of("signal_audience", self.signal_audience, SIGNAL_AUDIENCES)
        _whole("hand_size", self.hand_size, 1, NUM_CARDS)
        _whole("max_deals", self.max_deals, 1, 10_000)
        _whole("signals_from_trick", self.signals_from_trick, 0, NUM_CARDS)
        if self.max_deals < self.match_wins:
            raise InvalidRulesError(
                f"max_deals={self.max_deals} is too few for match_wins={self.match_wins}"
            )

    def _check_deck(self) -> None:
        if self.removed_two is not None and (self.players != 3 or self.cards is not None):
            raise InvalidRulesError(
                f"removed_two={self.removed_two!r} is for players=3 without cards, "
                f"not players={self.players}" + ("" if self.cards is None else " with cards")
            )
        size = len(self.deck)
        if size % self.players or size <= self.players * self.hand_size:
            raise InvalidRulesError(
                f"cards: {size} do not divide among players={self.players} with "
                f"hand_size={self.hand_size} and at least one card left for the trump"
            )

        carichi = sum(STRENGTH_OF[card] >= THREE for card in self.deck)
        face_down = size - self.players * self.hand_size - 1
        if (self.rebury, self.rebury_position) == ("repeat", "middle") and face_down // 2 < carichi:
            raise InvalidRulesError(
                f"rebury='repeat' with rebury_position='middle' might never end: the upper half of "
                f"the stock holds {face_down // 2} cards, the deck {carichi} aces and threes"
            )

    def _check_swaps(self) -> None:
        for name, used, strength, rank in (
            ("exchange_seven=True", self.exchange_seven, SEVEN, "seven"),
            ("exchange_two=True", self.exchange_two, TWO, "two"),
            ("withdraw='deuce'", self.withdraw == "deuce", TWO, "two"),
        ):
            if used and not any(STRENGTH_OF[card] == strength for card in self.deck):
                source = f"players={self.players}" if self.cards is None else "these cards"
                raise InvalidRulesError(f"{name} needs a {rank}: the deck of {source} has none")

    def _check_partners(self) -> None:
        for name in ("show_partner", "signals"):
            if getattr(self, name) != "off" and self.players not in (4, 6):
                raise InvalidRulesError(
                    f"{name}={getattr(self, name)!r} needs partners: players is 4 or 6, "
                    f"not {self.players}"
                )
        if self.signals != "off" and self.signals_from_trick >= self.num_tricks:
            raise InvalidRulesError(
                f"signals_from_trick={self.signals_from_trick}: there are only "
                f"{self.num_tricks} tricks, 0..{self.num_tricks - 1}"
            )

    @property
    def deck(self) -> tuple[int, ...]:
        """The ids of the cards in play, ascending."""
        if self.cards is not None:
            return self.cards
        out: set[int] = set()
        if self.players == 3:
            out = {CARDS_PER_SUIT * SUITS.index(str(self.removed_two)) + TWO}
        elif self.players == 6:
            out = {CARDS_PER_SUIT * suit + TWO for suit in range(len(SUITS))}
        return tuple(card for card in range(NUM_CARDS) if card not in out)

    @property
    def deck_points(self) -> int:
        """Card points in the deck: 120 but for study decks."""
        return int(sum(POINTS_OF[card] for card in self.deck))

    @property
    def sides(self) -> int:
        """Number of sides: 3 with three players, else 2. The side of a seat is `seat % sides`."""
        return 3 if self.players == 3 else 2

    @property
    def num_tricks(self) -> int:
        """Tricks a deal."""
        return len(self.deck) // self.players

    @property
    def messages(self) -> tuple[str, ...]:
        """Names of the signals, in the order of their ids."""
        return {"off": (), "conventional": CONVENTIONAL_MESSAGES, "free": FREE_MESSAGES}[
            self.signals
        ]

    @property
    def num_swaps(self) -> int:
        """How many kinds of swaps with the face-up card are on; each happens once a deal."""
        return self.exchange_seven + self.exchange_two + (self.withdraw != "off")

    @property
    def num_actions(self) -> int:
        """40 cards, then three swaps and the messages where they are on (section 6)."""
        if self.signals != "off":
            return FIRST_SIGNAL + len(self.messages)
        return FIRST_SIGNAL if self.num_swaps else NUM_CARDS

    @property
    def max_history(self) -> int:
        """Most actions that a deal can have."""
        signals = self.players * (self.num_tricks - self.signals_from_trick)
        return len(self.deck) + self.num_swaps + (signals if self.signals != "off" else 0)

    def single_deal(self) -> "Rules":
        """The same table with one deal an episode: what a policy has to know."""
        return replace(self, match_wins=0, max_deals=Rules.max_deals)

    def to_dict(self) -> dict[str, Any]:
        """Plain values of all fields, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Rules":
        """Rules from plain values; an unknown name raises InvalidRulesError."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise InvalidRulesError(f"unknown rule {name!r}; there are {', '.join(known)}")
        cards = values.get("cards")
        return cls(**{**values, "cards": None if cards is None else tuple(cards)})

    def action_name(self, action: int) -> str:
        """`Ac` for a card, else the name of the swap or the message."""
        if action < NUM_CARDS:
            return format_card(action)
        if action < FIRST_SIGNAL:
            return SWAP_NAMES[action - NUM_CARDS]
        return self.messages[action - FIRST_SIGNAL]


def _card_ids(cards: Any) -> list[int]:
    """Different card ids as whole numbers; InvalidRulesError if they are anything else."""
    try:
        ids = [operator.index(card) for card in cards]
    except TypeError:
        ids = [-1]
    if min(ids, default=0) < 0 or max(ids, default=0) >= NUM_CARDS or len(set(ids)) < len(ids):
        raise InvalidRulesError(f"cards={cards!r}: different ids of 0..{NUM_CARDS - 1} are allowed")
    return ids


def _one_of(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """Refuse a value that is not listed; True is not 1 and 1 is not True."""
    if not any(type(value) is type(choice) and value == choice for choice in allowed):
        raise InvalidRulesError(f"{name}={value!r}: allowed are {', '.join(map(repr, allowed))}")


def _whole(name: str, value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise InvalidRulesError(f"{name}={value!r}: a whole number {least}..{most} is allowed")
