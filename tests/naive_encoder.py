"""Observations by plain lists, from the meanings in the table of features and a twin's view."""

from typing import Any

from tests.naive import MESSAGES, TableRules, trick_winner


def one_hot(place: int, size: int) -> list[int]:
    """A single 1, or none if `place` is not among them."""
    return [int(k == place) for k in range(size)]


def suits_in_order(view: dict[str, Any], frame: str) -> list[int]:
    """The suits in the places where this frame shows them."""
    trump, suits = view["trump"], [0, 1, 2, 3]
    if frame == "trump_first":
        suits[0], suits[trump] = suits[trump], suits[0]
    if frame == "canonical":
        played = {card for cards in view["played"] for card in cards}

        def cards_of(suit: int) -> tuple[list[int], list[int]]:
            """Strengths in the hand and of what was played, highest first."""
            held, gone = (
                sorted((card % 10 for card in cards if card // 10 == suit), reverse=True)
                for cards in (view["hand"], played)
            )
            return held, gone

        # `sorted` leaves equal ones in order, with reverse=True too.
        others = sorted((suit for suit in suits if suit != trump), key=cards_of, reverse=True)
        suits = [trump, *others]
    return suits


def in_frame(card: int, suits: list[int]) -> int:
    """The card whose place it takes where the suits stand in this order."""
    return 10 * suits.index(card // 10) + card % 10


def plane(cards: Any, suits: list[int]) -> list[int]:
    """Forty places, 1 for each of the cards."""
    shown = {in_frame(card, suits) for card in cards}
    return [int(card in shown) for card in range(40)]


def naive_pieces(
    view: dict[str, Any],
    rules: TableRules,
    observer: int,
    frame: str,
    show_points: str,
    recent_tricks: int,
) -> dict[str, list[int]]:
    """Every feature by its name, from what `observer` sees."""
    n, sides = rules.players, 3 if rules.players == 3 else 2
    tricks, trump = len(rules.deck()) // n, view["trump"]
    suits = suits_in_order(view, frame)
    table = dict(view["table"])
    seats = [(observer + i) % n for i in range(n)]
    relative_sides = [(observer + i) % sides for i in range(sides)]

    def wins_now(card: int) -> bool:
        """Whether the card would lead the trick if it were played now, whoever's turn it is."""
        return trick_winner([*view["table"], (-1, card)], trump) == -1

    def planes(by_seat: Any) -> list[int]:
        """One plane a seat, the observer's first."""
        return [bit for seat in seats for bit in plane(by_seat(seat), suits)]

    def recent() -> list[int]:
        """Of every trick that is shown its first card and, by seat, all; empty before the first."""
        bits = []
        for number in range(view["trick"] - 1, view["trick"] - 1 - recent_tricks, -1):
            trick = [(card, seat) for card, seat, at in view["history"] if at == number]
            cards = {seat: card for card, seat in trick if card < 40}
            bits += plane(list(cards.values())[:1], suits)
            bits += planes(lambda seat, cards=cards: [cards[seat]] if seat in cards else [])
        return bits

    over = view["trick"] == tricks
    shown = {"hidden": 0, "own": 1, "all": sides}[show_points] if not over else sides
    face_up = [] if view["face_up"] == -1 else [view["face_up"]]
    cards_to_draw = view["stock_count"] + len(face_up)
    messages = MESSAGES[rules.signals]
    match = rules.match_wins
    return {
        "hand": plane(view["hand"], suits),
        "winning": plane(filter(wins_now, view["hand"]), suits),
        "face_up": plane(face_up, suits),
        "table": planes(lambda seat: [table[seat]] if seat in table else []),
        "played": planes(lambda seat: view["played"][seat]),
        "known": planes(lambda seat: view["known"][seat]),
        "reburied": plane(view["reburied"], suits) if rules.rebury != "off" else [],
        "recent": recent(),
        "trump": one_hot(suits.index(trump), 4),
        "leader": one_hot(seats.index(view["leader"]), n),
        "stock": one_hot(cards_to_draw // n, tricks - rules.hand_size + 1),
        "trick": one_hot(view["trick"], tricks),
        "message": [b for s in seats for b in one_hot(view["last_message"][s], messages)],
        "wins": [b for s in relative_sides if match for b in one_hot(view["wins"][s], match + 1)],
        "points": [
            int(bit)
            for i, side in enumerate(relative_sides)
            for bit in reversed(f"{view['scores'][side] if i < shown else 0:07b}")
        ],
    }


def naive_encode(*arguments: Any) -> list[int]:
    """The whole vector, filled up with zeros to a multiple of eight."""
    vector = [bit for piece in naive_pieces(*arguments).values() for bit in piece]
    return [*vector, *[0] * (-len(vector) % 8)]


def naive_tokens(view: dict[str, Any], players: int, observer: int, frame: str) -> list[list[int]]:
    """(action, relative seat, trick) of every action that the observer noticed."""
    tokens, suits = [], suits_in_order(view, frame)
    for action, seat, trick in view["history"]:
        card = in_frame(action, suits) if action < 40 else action
        tokens.append([card, (seat - observer) % players, trick])
    return tokens
