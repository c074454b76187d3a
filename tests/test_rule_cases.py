"""The worked cases of docs/rules.md, by id, against the engine."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briscola_env import cards as card_module
from briscola_env.cards import SUITS, card_set, cards_of, parse_card
from briscola_env.engine import returns
from briscola_env.information import resample, unseen_one
from briscola_env.rules import CONVENTIONAL_MESSAGES, FIRST_SIGNAL, InvalidRulesError, Rules
from briscola_env.state import States, new_states
from tests.tables import act, know, legal, start

FILE = json.loads((Path(__file__).parent / "rule_cases.json").read_text())
CASES = FILE["cases"]
SWAPS = {"EXCHANGE_SEVEN": 40, "EXCHANGE_TWO": 41, "WITHDRAW": 42}
BATONS = 3


def cards(names: list[str]) -> list[int]:
    """Card ids of `A_cups` and the like."""
    return [parse_card(name) for name in names]


def signal(message: str) -> int:
    """The action that gives a conventional message."""
    return FIRST_SIGNAL + CONVENTIONAL_MESSAGES.index(message)


def position(rules: Rules, hands: list[list[int]], trump: int, **fields: Any) -> States:
    """Seat `leader` leads the second trick; short hands are filled with cards of other suits.

    The other cards lie in the stock, a trump under it. `fields` then replaces what is given.
    """
    states = new_states(rules, 1)
    state, held = states[0], {card for hand in hands for card in hand}
    fields = {"leader": 0, "trick": 1, **fields}
    lowest_free = next(c for c in range(10 * trump, 10 * trump + 10) if c not in held)
    face_up = fields.get("face_up", lowest_free)
    spare = [c for c in rules.deck if c not in held and c != face_up]
    spare.sort(key=lambda card: card // 10 == trump)
    for seat in range(rules.players):
        hand = hands[seat] if seat < len(hands) else []
        filled = [*hand, *(spare.pop(0) for _ in range(rules.hand_size - len(hand)))]
        state["hands"][seat] = card_set(filled)
    if face_up == -1:
        spare = []
    state["stock"][: len(spare)] = spare
    state["stock_count"] = len(spare)
    state["trump"] = trump
    state["face_up"] = state["initial_face_up"] = face_up
    state["current_player"] = fields["leader"]
    for name, value in fields.items():
        state[name] = value
    return states


def last_trick(rules: Rules, states: States, scores: list[int]) -> None:
    """Edit a dealt record so that one worthless trick is left, and these are the side scores."""
    state = states[0]
    state["hands"] = 0
    worthless = [card for card in rules.deck if card % 10 < 5]
    for seat in range(rules.players):
        state["hands"][seat] = 1 << worthless[seat]
    state["stock"], state["stock_count"], state["face_up"] = -1, 0, -1
    state["trick"] = rules.num_tricks - 1
    state["scores"][: rules.sides] = scores
    while state["trick"] == rules.num_tricks - 1 and state["current_player"] >= 0:
        act(states, legal(states)[0])


def result(states: States) -> int | str:
    """Winning side of the finished episode, or `draw`."""
    assert states[0]["current_player"] == -1
    return "draw" if states[0]["winner"] == -1 else int(states[0]["winner"])


def check_trick(given: dict, expect: dict, config: dict) -> None:
    n, leader = given["players"], given["leader"]
    plays, hands = cards(given["plays"]), [[] for _ in range(n)]
    for i, card in enumerate(plays):
        hands[(leader + i) % n] = [card]
    rules = Rules(players=n)
    states = position(rules, hands, SUITS.index(given["trump"]), leader=leader)
    for card in plays:
        act(states, card)
    assert states[0]["last_winner"] == states[0]["leader"] == expect["winner"]
    assert states[0]["current_player"] == expect["winner"]
    assert states[0]["last_points"] == expect["points"]
    points = np.zeros((1, n), np.int16)
    returns(states, points)
    assert points[0, expect["winner"]] == expect["points"]


def check_points(given: dict, expect: dict, config: dict) -> None:
    ids = cards(given["cards"])
    assert sum(card_module.POINTS_OF[card] for card in ids) == expect["points"]
    for players, size in ((2, 40), (3, 39)):
        if len(ids) == size:
            assert list(Rules(players=players).deck) == sorted(ids)
            assert Rules(players=players).deck_points == expect["points"]
    assert len(ids) == expect.get("count", len(ids))


def dealt(given: dict, config: dict) -> States:
    """The position after the deal of the given deck."""
    rules = Rules(players=given["players"], **config)
    return start(rules, [1], [given["dealer"]], [cards(given["deck"])])


def check_setup(given: dict, expect: dict, config: dict) -> None:
    states = dealt(given, config)
    state = states[0]
    assert state["face_up"] == state["initial_face_up"] == parse_card(expect["face_up"])
    assert state["stock_count"] == expect["face_down"]
    for seat, hand in enumerate(expect.get("hands", [])):
        assert state["hands"][seat] == card_set(cards(hand))
    if "trump" in expect:
        assert SUITS[state["trump"]] == expect["trump"]
    leader = expect.get("leader", (given["dealer"] + 1) % given["players"])
    assert state["current_player"] == state["leader"] == leader
    assert cards_of(state["reburied"]) == sorted(cards(expect.get("reburied", [])))
    for name, index in expect.get("index_in_stock", {}).items():
        assert state["stock"][state["stock_count"] - 1 - index] == parse_card(name)


def check_draw(given: dict, expect: dict, config: dict) -> None:
    n, winner = given["players"], given["trick_winner"]
    stock, face_up = cards(given["face_down"]), parse_card(given["face_up"])
    trump = face_up // 10
    free = [card for card in range(39, -1, -1) if card not in [*stock, face_up]]
    lead = next(card for card in free if card // 10 == trump)
    others = iter([card for card in free if card // 10 != trump])
    states = position(Rules(players=n), [[] for _ in range(n)], trump, face_up=face_up)
    state = states[0]
    for seat in range(n):
        state["hands"][seat] = 1 << (lead if seat == winner else next(others))
    state["leader"] = state["current_player"] = winner
    state["stock"] = -1
    state["stock"][: len(stock)], state["stock_count"] = stock[::-1], len(stock)
    for _ in range(n):
        act(states, legal(states)[0])
    drawn = [[seat, name] for seat, name in expect["draws"]]
    assert [int(hand) for hand in state["hands"][:n]] == [
        card_set(parse_card(name) for who, name in drawn if who == seat) for seat in range(n)
    ]
    assert state["stock"][: state["stock_count"]].tolist() == stock[len(drawn) :][::-1]


def check_special_legal(given: dict, expect: dict, config: dict) -> None:
    table, hand = cards(given["table"]), cards(given["hand"])
    seat, hands = len(table), [[] for _ in range(given["players"])]
    hands[seat] = hand
    face_up = -1 if given["face_up"] is None else parse_card(given["face_up"])
    trump = SUITS.index(given["trump"])
    rules = Rules(players=given["players"], **config)
    states = position(rules, hands, trump, face_up=face_up, trick=given["trick_index"])
    state = states[0]
    state["table"][:seat], state["table_count"], state["current_player"] = table, seat, seat
    state["last_winner"] = 0 if given["trick_index"] else -1
    special = [SWAPS[name] for name in expect["legal_special"]]
    assert [action for action in legal(states) if action >= 40] == special
    if "after" in expect:
        act(states, special[0])
        assert state["hands"][seat] == card_set(cards(expect["after"]["hand"]))
        assert state["face_up"] == parse_card(expect["after"]["face_up"])
        assert (state["current_player"] == seat) == expect["after"]["same_player_to_move"]


def check_legal_plays(given: dict, expect: dict, config: dict) -> None:
    hands = [cards(given["table"]), cards(given["hand"])]
    states = position(Rules(), hands, SUITS.index(given["trump"]))
    act(states, hands[0][0])
    assert legal(states) == cards(expect["legal"])


def check_outcome(given: dict, expect: dict, config: dict) -> None:
    rules = Rules(players=given["players"])
    sides = [0] * rules.sides
    for seat, score in enumerate(given["player_scores"]):
        sides[seat % rules.sides] += score
    assert sides == expect["side_scores"]
    states = start(rules, [3])
    last_trick(rules, states, sides)
    assert result(states) == expect["result"]
    assert states[0]["last_scores"][: rules.sides].tolist() == sides


def check_match(given: dict, expect: dict, config: dict) -> None:
    rules = Rules(players=given["players"], **config)
    states, dealers = start(rules, [3], [given["first_dealer"]]), []
    for winner in given["deal_results"]:
        dealers.append(int(states[0]["dealer"]))
        last_trick(rules, states, {0: [70, 50], 1: [50, 70], "draw": [60, 60]}[winner])
    assert dealers == expect["dealers"]
    assert states[0]["wins"][:2].tolist() == expect["wins"]
    assert result(states) == expect["winner"]
    assert states[0]["deals"] == expect["deals"]


def check_signal(given: dict, expect: dict, config: dict) -> None:
    if "error" in expect:
        with pytest.raises(InvalidRulesError, match="signals"):
            Rules(players=given["players"], **config)
        return
    rules, trump = Rules(players=given["players"], **config), SUITS.index(given["trump"])
    hands, said = [cards(given["hand"]), [], [], []], given["partner_reference"]
    if said:
        hands[2] = [10 * trump + "JHK3A".index(said[-1]) + 5]
    states = position(rules, hands, trump, leader=2, trick=given["trick_index"])
    if said:
        act(states, signal(said))
    for seat in (2, 3):
        act(states, next(card for card in legal(states) if card not in hands[seat] or not said))
    assert states[0]["current_player"] == 0
    assert (signal(given["message"]) in legal(states)) == expect["allowed"]


def check_inference(given: dict, expect: dict, config: dict) -> None:
    own, played = cards(given["own_hand"]), cards(given["played"])
    other = [card for card in range(40) if card not in [*own, *played]]
    states = position(Rules(), [own, other], BATONS, face_up=-1, trick=17)
    states[0]["played"][:2] = card_set(played[::2]), card_set(played[1::2])
    info = know(states, 0)[0]
    assert cards_of(info["known"][1]) == sorted(cards(expect["opponent_hand"]))
    in_play = [*cards_of(info["known"][1]), *cards_of(info["hands"][0])]
    assert sum(card_module.POINTS_OF[card] for card in in_play) == expect["points_left"]


def check_partner_view(given: dict, expect: dict, config: dict) -> None:
    states = dealt(given, config)
    for seat, names in enumerate(expect["partner_hand_seen_by"]):
        info = know(states, seat)[0]
        seen = info["known"] | info["team_known"]
        assert cards_of(seen[(seat + 2) % 4]) == sorted(cards(names))
        assert seen[(seat + 1) % 4] == seen[(seat + 3) % 4] == 0
        assert info["hands"][(seat + 2) % 4] == 0


def check_split_count(given: dict, expect: dict, config: dict) -> None:
    """The hands of both opponents, in as many ways as the worlds drawn for seat 0 show."""
    rules = Rules(players=4, show_partner="before_last_tricks")
    for seed in range(40):
        states = start(rules, [seed])
        while states[0]["face_up"] >= 0:
            act(states, legal(states)[seed % 3])
        info = know(states, 0)[0]
        if bool(info["known"][1] | info["known"][3]) == given["face_up_known_with_opponent"]:
            break
    assert len(cards_of(unseen_one(info, 0))) == given["unseen"]
    infos = np.repeat(np.array([info]), 1000)
    worlds = infos.copy()
    resample(infos, np.arange(1000, dtype=np.uint64), worlds)
    assert {len(cards_of(hand)) for hand in worlds["hands"][:, 1]} == {given["per_opponent"]}
    splits = {(int(hands[1]), int(hands[3])) for hands in worlds["hands"]}
    assert len(splits) == expect["splits"]


def check_deal(given: dict, expect: dict, config: dict) -> None:
    states, n = dealt(given, config), given["players"]
    state, tricks, taker = states[0], [], None
    for seat, name in given["actions"]:
        bottom, trick = int(state["face_up"]), int(state["trick"])
        assert state["current_player"] == seat
        act(states, SWAPS[name] if name in SWAPS else parse_card(name))
        if state["trick"] > trick:
            tricks.append([int(state["last_winner"]), int(state["last_points"])])
        if state["face_up"] < 0 <= bottom:
            taker = [bool(state["hands"][s] >> bottom & 1) for s in range(n)].index(True)
            assert state["known"][taker] >> bottom & 1  # who took it is public
    assert tricks == expect["tricks"]
    own = [sum(points for who, points in tricks if who == seat) for seat in range(n)]
    assert own == expect["player_scores"]
    assert state["scores"][: state["sides"]].tolist() == expect["side_scores"]
    assert result(states) == expect["result"]
    assert taker == expect["face_up_drawn_by"]


CHECKS: dict[str, Callable[[dict, dict, dict], None]] = {
    kind: globals()[f"check_{kind}"] for kind in FILE["kinds"]
}
RUN = [case for case in CASES if case["kind"] in CHECKS]


@pytest.mark.parametrize("case", RUN, ids=[case["id"] for case in RUN])
def test_rule_case(case: dict) -> None:
    CHECKS[case["kind"]](case["given"], case["expect"], case["config"])


def test_every_id_of_the_file_is_run_once() -> None:
    run = [case["id"] for case in RUN]
    assert sorted(run) == sorted({case["id"] for case in CASES})
    text = (Path(__file__).parent / "rule_cases.json").read_text()
    assert len(run) == text.count('{"id": ') > 60
