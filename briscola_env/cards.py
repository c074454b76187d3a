"""The forty Italian cards: ids, strength, points, names (docs/rules.md, section 1).

`card = 10 * suit + strength`. Everything else in the package speaks in these ids; a set of cards
is an integer with bit `card` set.
"""

from collections.abc import Iterable

import numpy as np

NUM_CARDS = 40
NUM_SUITS = 4
CARDS_PER_SUIT = 10

SUITS = ("coins", "cups", "swords", "batons")
SUIT_LETTERS = "dcsb"  # denari, coppe, spade, bastoni
RANKS = "24567JHK3A"  # from weak to strong: the position is the strength

TWO, SEVEN, JACK, HORSE, KING, THREE, ACE = 0, 4, 5, 6, 7, 8, 9  # strengths

STRENGTH_POINTS = (0, 0, 0, 0, 0, 2, 3, 4, 10, 11)

SUIT_OF = np.repeat(np.arange(NUM_SUITS, dtype=np.int8), CARDS_PER_SUIT)
STRENGTH_OF = np.tile(np.arange(CARDS_PER_SUIT, dtype=np.int8), NUM_SUITS)
POINTS_OF = np.tile(np.array(STRENGTH_POINTS, dtype=np.int16), NUM_SUITS)

SUIT_CARDS = np.array([0x3FF << (CARDS_PER_SUIT * suit) for suit in range(NUM_SUITS)], np.int64)
"""The set of the ten cards of each suit."""

ITALIAN_RANKS = (
    *("due", "quattro", "cinque", "sei", "sette"),
    *("fante", "cavallo", "re", "tre", "asso"),
)
ITALIAN_SUITS = ("denari", "coppe", "spade", "bastoni")
FRENCH_RANKS = ("two", "four", "five", "six", "seven", "jack", "queen", "king", "three", "ace")
FRENCH_SUITS = ("diamonds", "hearts", "spades", "clubs")


def format_card(card: int) -> str:
    """Short name, rank and suit letter: `Ac` is the ace of cups."""
    suit, strength = divmod(int(card), CARDS_PER_SUIT)
    return RANKS[strength] + SUIT_LETTERS[suit]


def format_cards(cards: Iterable[int]) -> str:
    """Short names in the given order, separated by spaces; `-` if there are none."""
    return " ".join(format_card(card) for card in cards) or "-"


def parse_card(text: str) -> int:
    """Card id of `Ac` or `A_cups`; ValueError names what is not a card."""
    rank, suit = text[:1], text[1:]
    if rank and rank in RANKS:
        if len(suit) == 1 and suit in SUIT_LETTERS:
            return CARDS_PER_SUIT * SUIT_LETTERS.index(suit) + RANKS.index(rank)
        if suit[:1] == "_" and suit[1:] in SUITS:
            return CARDS_PER_SUIT * SUITS.index(suit[1:]) + RANKS.index(rank)
    raise ValueError(
        f"not a card: {text!r}; a rank of {RANKS} and a suit of {SUIT_LETTERS}, or like 'A_cups'"
    )


def card_name(card: int, deck: str = "italian") -> str:
    """Name for display: `asso di coppe`, or `ace of hearts` with `deck="french"`."""
    suit, strength = divmod(int(card), CARDS_PER_SUIT)
    if deck == "french":
        return f"{FRENCH_RANKS[strength]} of {FRENCH_SUITS[suit]}"
    return f"{ITALIAN_RANKS[strength]} di {ITALIAN_SUITS[suit]}"


def card_set(cards: Iterable[int]) -> int:
    """The set of these cards as an integer."""
    result = 0
    for card in cards:
        result |= 1 << int(card)
    return result


def cards_of(card_set: int) -> list[int]:
    """The card ids in a set, ascending."""
    return [card for card in range(NUM_CARDS) if int(card_set) >> card & 1]
