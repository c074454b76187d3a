"""A game record as lines of text for a terminal."""

from collections.abc import Sequence
from typing import Any

from briscola_env.cards import ITALIAN_SUITS, SUITS, cards_of, format_card, format_cards
from briscola_env.engine import hand_count_one
from briscola_env.rules import CONVENTIONAL_MESSAGES, FREE_MESSAGES

RENDER_MODES = ("ansi", "human")
_MESSAGES: tuple[Sequence[str], ...] = ((), CONVENTIONAL_MESSAGES, FREE_MESSAGES)


def check_render_mode(render_mode: str | None) -> None:
    """ValueError unless it is None, `ansi` (text is returned) or `human` (text is printed)."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(
            f"render_mode={render_mode!r}: allowed are None, {', '.join(map(repr, RENDER_MODES))}"
        )


def render_text(state: Any, show_points: str = "all") -> str:
    """One record, a full state or an info state, as a table with a line for each seat.

    Cards are written as rank and Italian suit letter, `Ac` is the ace of coppe. `*` marks the seat
    that leads the trick, `>` the seat to act. In an info state cards that the observer does not
    know are `??`. show_points: `hidden`, `own` or `all`, as in `Encoder`; when the episode is over
    everything is shown.
    """
    seats = range(state["players"])
    columns = [
        [_mark(state, seat) for seat in seats],
        [f"player_{seat}" for seat in seats],
        ["hand", *(_hand(state, seat) for seat in seats)],
        ["table", *(_on_table(state, seat) for seat in seats)],
        ["points", *(_points(state, seat, show_points) for seat in seats)],
    ]
    if state["match_wins"]:
        columns.append(["wins", *(str(state["wins"][seat % state["sides"]]) for seat in seats)])
    if state["signals"]:
        columns.append(["says", *(_message(state, seat) for seat in seats)])
    lines = [_headline(state)]
    for row in range(len(seats) + 1):
        lines.append(_line(columns, row))
    if state["last_winner"] >= 0:
        lines.append(f"last trick: player_{state['last_winner']}, {state['last_points']} points")
    lines.extend(_results(state))
    return "\n".join(lines)


def _line(columns: list[list[str]], row: int) -> str:
    """One row of the columns, each as wide as its widest entry; the first two have no title."""
    cells = []
    for number, column in enumerate(columns):
        entries = ["", *column] if number < 2 else column
        width = max(map(len, entries))
        cells.append(entries[row].ljust(width))
    return "  ".join(cells).rstrip()


def _headline(state: Any) -> str:
    suit = int(state["trump"])
    parts = [f"trick {min(state['trick'] + 1, state['num_tricks'])} of {state['num_tricks']}"]
    if state["match_wins"]:
        parts.insert(0, f"deal {state['deals'] + (state['current_player'] >= 0)}")
    parts.append(f"trump {SUITS[suit]} ({ITALIAN_SUITS[suit]})")
    if state["face_up"] >= 0:
        parts.append(f"face up {format_card(state['face_up'])} under {state['stock_count']} cards")
    return ", ".join(parts)


def _mark(state: Any, seat: int) -> str:
    return ("*" if seat == state["leader"] else " ") + (
        ">" if seat == state["current_player"] else " "
    )


def _hand(state: Any, seat: int) -> str:
    """The cards of a hand; `??` for each that the observer of an info state does not know."""
    hand = int(state["hands"][seat])
    unknown = 0
    if state["observer"] >= 0 and seat != state["observer"]:
        hand = int(state["known"][seat] | state["team_known"][seat])
        unknown = int(hand_count_one(state, seat)) - hand.bit_count()
    return " ".join([format_cards(cards_of(hand))] * (hand > 0) + ["??"] * unknown)


def _on_table(state: Any, seat: int) -> str:
    """The card of a seat in the current trick, if it has played."""
    place = (seat - int(state["leader"])) % int(state["players"])
    return format_card(state["table"][place]) if place < state["table_count"] else ""


def _points(state: Any, seat: int, show_points: str) -> str:
    """Card points of the seat's side in this deal."""
    side = seat % state["sides"]
    own = side == state["observer"] % state["sides"]
    over = state["current_player"] < 0
    shown = over or show_points == "all" or (show_points == "own" and own)
    return str(state["scores"][side]) if shown else "?"


def _message(state: Any, seat: int) -> str:
    message = int(state["last_message"][seat])
    return _MESSAGES[state["signals"]][message] if message >= 0 else ""


def _results(state: Any) -> list[str]:
    """Lines about the last finished deal and the end of the episode."""
    lines = []
    sides = int(state["sides"])
    if state["last_scores"][0] >= 0:
        lines.append("last deal: " + " : ".join(map(str, state["last_scores"][:sides])))
    if state["current_player"] < 0:
        winner = int(state["winner"])
        names = " and ".join(f"player_{seat}" for seat in range(winner, state["players"], sides))
        lines.append("drawn" if winner < 0 else names + (" win" if " and " in names else " wins"))
    return lines
