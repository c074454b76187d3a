"""Readable transcripts and hashes that must not change unnoticed: `python -m tests.make_golden`.

Writes tests/golden/: a transcript a table, `traces.json` (hashes of 50 games a player count) and
`layouts.json`. A layout may only be written anew with a new LAYOUT_VERSION.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from briscola_env.cards import SUITS, cards_of, format_card, format_cards
from briscola_env.encoding import FRAMES, LAYOUT_VERSION, Encoder
from briscola_env.engine import legal_actions, returns, step
from briscola_env.rng import child_seed
from briscola_env.rules import Rules
from briscola_env.state import States, format_state
from tests.tables import SWAPS, know, legal, play, start

GOLDEN = Path(__file__).parent / "golden"

TALK = {"players": 4, "signals": "conventional", "exchange_seven": True}
TRANSCRIPTS: dict[str, tuple[dict[str, Any], int]] = {  # rules and seed of the game
    "2_plain": ({}, 1),
    "2_swaps": (SWAPS, 14),
    "2_deuce": ({"withdraw": "deuce"}, 9),
    "2_rebury": ({"rebury": "repeat", "withdraw": "two_trumps"}, 117),
    "2_match": ({"match_wins": 2, "rebury": "once", "cards": tuple(range(8, 28))}, 7),
    "2_study": ({"cards": (0, 4, 5, 8, 9, 13, 14, 17, 18, 19), "hand_size": 2, **SWAPS}, 312),
    "3_plain": ({"players": 3}, 6),
    "3_swaps": ({"players": 3, "removed_two": "batons", **SWAPS}, 24),
    "4_plain": ({"players": 4}, 8),
    "4_signals": ({**TALK, "show_partner": "before_last_tricks"}, 13),
    "4_table": ({**TALK, "signal_audience": "table", "show_partner": "before_first_trick"}, 1),
    "4_free": ({"players": 4, "signals": "free", "signals_from_trick": 5, "rebury": "once"}, 3),
    "6_plain": ({"players": 6}, 12),
    "6_options": (
        {"players": 6, "signals": "conventional", "signals_from_trick": 0, "show_partner": "both"}
        | {"exchange_seven": True, "withdraw": "two_trumps", "rebury": "repeat"},
        24,
    ),
}
TRACED: dict[int, dict[str, Any]] = {  # rules of the hashed games
    2: {**SWAPS, "rebury": "repeat", "match_wins": 1},
    3: {"players": 3, **SWAPS, "rebury": "once"},
    4: {"players": 4, "signals": "conventional", "show_partner": "both", **SWAPS},
    6: {"players": 6, "signals": "free", "rebury": "once", "withdraw": "two_trumps"},
}
LAYOUT_RULES = {"2": Rules(), "4": Rules(**TRACED[4] | {"rebury": "once", "match_wins": 2})}


def short_hash(text: str) -> str:
    """Eight hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def views(states: States) -> str:
    """A hash of what each seat knows, seat by seat."""
    hashes = []
    for seat in range(states[0]["players"]):
        hashes.append(short_hash(format_state(know(states, seat)[0])))
    return " ".join(hashes)


def deal_lines(state: Any) -> list[str]:
    """Who deals, and where the cards lie before the first play."""
    stock = state["stock"][: state["stock_count"]][::-1]
    hands = [format_cards(cards_of(hand)) for hand in state["hands"][: state["players"]]]
    buried = format_cards(cards_of(state["reburied"]))
    return [
        "",
        f"deal {state['deals'] + 1}, dealer {state['dealer']}",
        *(f"seat {seat}: {hand}" for seat, hand in enumerate(hands)),
        f"face up {format_card(state['face_up'])}, trump {SUITS[state['trump']]}, "
        f"reburied {buried}",
        f"stock {format_cards(stock)}",
    ]


def result_line(states: States) -> str:
    """How the episode ended."""
    state, points = states[0], np.zeros((1, states[0]["players"]), np.int16)
    returns(states, points)
    winner = "draw" if state["winner"] < 0 else f"side {state['winner']} wins"
    sides = state["sides"]
    return (
        f"{winner}, points by seat {points[0].tolist()}, deals won {state['wins'][:sides].tolist()}"
    )


def transcript(name: str) -> str:
    """One game of random play, action by action, with a hash of every seat's view."""
    options, seed = TRANSCRIPTS[name]
    rules = Rules(**options)
    states = start(rules, [seed])
    state, lines = states[0], [json.dumps({**options, "seed": seed})]
    lines += deal_lines(state)
    turn = 0
    while state["current_player"] >= 0:
        allowed, before = legal(states), state.copy()
        special = [action for action in allowed if action >= 40]
        among = special if special and turn % 3 == 0 else allowed
        action = among[int(child_seed(np.uint64(seed), turn)) % len(among)]
        step(states, np.array([action]))
        name, seat = rules.action_name(action), before["current_player"]
        lines.append(f"{before['trick'] + 1:2d} {seat} {name:<14} {views(states)}")
        if (state["trick"], state["deals"]) != (before["trick"], before["deals"]):
            scores = state["scores"] if state["deals"] == before["deals"] else state["last_scores"]
            lines.append(
                f"   seat {state['last_winner']} takes {state['last_points']}, "
                f"scores {scores[: rules.sides].tolist()}"
            )
        if state["deals"] != before["deals"] and state["current_player"] >= 0:
            lines += deal_lines(state)
        turn += 1
    return "\n".join([*lines, "", result_line(states), ""])


def trace_hash(players: int, games: int = 50) -> str:
    """Hash of everything that happens in so many games: deals, masks, actions, points."""
    rules = Rules(**TRACED[players])
    states = start(rules, [1000 * players + game for game in range(games)])
    digest, turn = hashlib.sha256(), 0
    rows = np.zeros((games, rules.num_actions), bool)
    points = np.zeros((games, players), np.int16)
    while (states["current_player"] >= 0).any():
        legal_actions(states, rows)
        returns(states, points)
        for name in ("hands", "stock", "face_up", "current_player", "last_winner", "winner"):
            digest.update(np.ascontiguousarray(states[name]).tobytes())
        digest.update(rows.tobytes() + points.tobytes())
        actions = []
        for game, row in enumerate(rows):
            allowed = np.flatnonzero(row)
            number = int(child_seed(np.uint64(game), turn))
            actions.append(int(allowed[number % len(allowed)]) if len(allowed) else 0)
        step(states, np.array(actions))
        turn += 1
    digest.update(states["last_scores"].tobytes() + states["winner"].tobytes())
    return digest.hexdigest()


def observations_hash(rules: Rules, frame: str) -> str:
    """Hash of what one seat observes in ten games."""
    digest, encoder = hashlib.sha256(), Encoder(rules, frame, "all")
    states = start(rules, range(10))
    for _ in play(states, np.random.default_rng(0)):
        infos = know(states, 1)
        digest.update(encoder.encode(infos).tobytes())
        digest.update(encoder.encode_tokens(infos).tobytes())
    return digest.hexdigest()


def layouts() -> dict[str, Any]:
    """The layouts of two tables, as they are now."""
    tables = {}
    for name, rules in LAYOUT_RULES.items():
        encoder = Encoder(rules)
        slices = {feature.name: [feature.start, feature.stop] for feature in encoder.features}
        tables[name] = {
            "rules": rules.to_dict(),
            "slices": slices,
            "digest": encoder.digest,
            "observations": {frame: observations_hash(rules, frame) for frame in FRAMES},
        }
    return {"version": LAYOUT_VERSION, "tables": tables}


def main() -> int:
    """Write everything; 1 if a layout has changed and its version has not."""
    GOLDEN.mkdir(exist_ok=True)
    path = GOLDEN / "layouts.json"
    text = json.dumps(layouts(), indent=1) + "\n"
    old = path.read_text() if path.exists() else text
    if old != text and json.loads(old)["version"] == LAYOUT_VERSION:
        print(f"The layout has changed: raise LAYOUT_VERSION above {LAYOUT_VERSION} first.")
        return 1
    path.write_text(text)
    for name in TRANSCRIPTS:
        (GOLDEN / f"{name}.txt").write_text(transcript(name))
    traces = {str(players): trace_hash(players) for players in TRACED}
    (GOLDEN / "traces.json").write_text(json.dumps(traces, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
