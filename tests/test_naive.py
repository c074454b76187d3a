"""The naive twin against the worked cases of docs/rules.md, and against itself in random deals."""

import json
import random
from itertools import combinations
from pathlib import Path

import pytest

from tests.naive import (
    FIRST_SIGNAL,
    POINTS,
    SUITS,
    NaiveGame,
    TableRules,
    consistent_worlds,
    deal_result,
)

CASES = json.loads((Path(__file__).parent / "rule_cases.json").read_text())["cases"]
SWAPS = {"EXCHANGE_SEVEN": 40, "EXCHANGE_TWO": 41, "WITHDRAW": 42}
MESSAGES = [
    *("HAVE_A", "HAVE_3", "HAVE_K", "HAVE_H", "HAVE_J", "HAVE_LOW", "NO_TRUMP", "HAVE_CARICO"),
    *(f"REL-{k}" for k in range(9, 0, -1)),
    *(f"REL+{k}" for k in range(1, 10)),
]


def card(name: str) -> int:
    """`A_cups` -> 19."""
    rank, suit = name.split("_")
    return 10 * SUITS.index(suit) + "24567JHK3A".index(rank)


def cards(names: list[str]) -> list[int]:
    """Card ids of a list of names."""
    return [card(name) for name in names]


def action(name: str) -> int:
    """Action id of a card or of a swap."""
    return SWAPS[name] if name in SWAPS else card(name)


def points(ids: list[int]) -> int:
    """Card points of a pile."""
    return sum(POINTS[c % 10] for c in ids)


def midgame(hands: list[list[int]], trump: int, face_up: int | None = None, **options) -> NaiveGame:
    """Seat 0 leads; hands are filled up with other cards, of suits other than trump."""
    n, held = len(hands), [c for hand in hands for c in hand]
    bottom = next(c for c in range(10 * trump + 1, 40) if c not in held)
    bottom = bottom if face_up is None else face_up
    spare = [c for c in TableRules(players=n).deck() if c not in held and c != bottom]
    spare.sort(key=lambda c: c // 10 == trump)
    filled = [hand + [spare.pop(0) for _ in range(3 - len(hand))] for hand in hands]
    dealt = {"hands": filled, "face_up": bottom, "stock": spare}
    return NaiveGame(n - 1, dealt=dealt, players=n, **options)


def check_trick(given: dict, expect: dict, config: dict) -> None:
    n, leader = given["players"], given["leader"]
    game = midgame([[card(name)] for name in given["plays"]], SUITS.index(given["trump"]))
    for name in given["plays"]:
        game.act(card(name))
    assert (leader + game.trick_winners[0]) % n == expect["winner"]  # seats turned by `leader`
    assert game.trick_points[0] == expect["points"]


def check_points(given: dict, expect: dict, config: dict) -> None:
    assert points(cards(given["cards"])) == expect["points"]
    players = 3 if len(given["cards"]) == 39 else 2
    if "count" in expect:
        assert TableRules(players=players).deck() == sorted(cards(given["cards"]))
        assert len(given["cards"]) == expect["count"]


def check_setup(given: dict, expect: dict, config: dict) -> None:
    deck = cards(given["deck"])
    game = NaiveGame(given["dealer"], deck, players=given["players"], **config)
    assert game.face_up == game.view(0)["initial_face_up"] == card(expect["face_up"])
    assert len(game.stock) == expect["face_down"]
    if "hands" in expect:
        assert game.hands == [cards(hand) for hand in expect["hands"]]
    if "trump" in expect:
        assert SUITS[game.trump] == expect["trump"]
    assert game.current_player == expect.get("leader", (given["dealer"] + 1) % given["players"])
    assert game.view(0)["reburied"] == set(cards(expect.get("reburied", [])))
    for name, index in expect.get("index_in_stock", {}).items():
        assert game.stock[index] == card(name)


def check_draw(given: dict, expect: dict, config: dict) -> None:
    n, stock = given["players"], cards(given["face_down"])
    dealt = {"hands": [[]] * n, "face_up": card(given["face_up"]), "stock": stock}
    game = NaiveGame(0, dealt=dealt, players=n)
    game.draw(given["trick_winner"])
    assert game.hands == [
        [card(name) for who, name in expect["draws"] if who == s] for s in range(n)
    ]
    assert game.stock == stock[len(expect["draws"]) :]


def check_special_legal(given: dict, expect: dict, config: dict) -> None:
    seat, trump = len(given["table"]), SUITS.index(given["trump"])
    hands: list[list[int]] = [[] for _ in range(given["players"])]
    hands[seat] = cards(given["hand"])
    face_up = given["face_up"] and card(given["face_up"])
    game = midgame(hands, trump, face_up, **config)
    if face_up is None:
        game.face_up, game.stock = -1, []
    game.trick, game.trick_winners = given["trick_index"], [0] * given["trick_index"]
    game.table = list(enumerate(cards(given["table"])))
    special = [a for a in game.legal() if a >= 40]
    assert special == [SWAPS[name] for name in expect["legal_special"]]
    if "after" in expect:
        game.act(special[0])
        assert game.hands[seat] == cards(expect["after"]["hand"])
        assert game.face_up == card(expect["after"]["face_up"])
        assert game.current_player == seat


def check_legal_plays(given: dict, expect: dict, config: dict) -> None:
    game = midgame([cards(given["table"]), cards(given["hand"])], SUITS.index(given["trump"]))
    game.act(card(given["table"][0]))
    assert game.legal() == cards(expect["legal"])


def check_outcome(given: dict, expect: dict, config: dict) -> None:
    game = NaiveGame(0, players=given["players"])
    for seat, score in enumerate(given["player_scores"]):
        game.scores[game.side(seat)] += score
    assert game.scores == expect["side_scores"]
    result = deal_result(game.scores)
    assert ("draw" if result is None else result) == expect["result"]


def check_match(given: dict, expect: dict, config: dict) -> None:
    game = NaiveGame(given["first_dealer"], players=given["players"], **config)
    dealers = []
    for result in given["deal_results"]:
        assert game.awaiting_deal
        assert game.current_player == -1
        game.start_deal(game.rules.deck())
        dealers.append(game.dealer)
        game.scores = [60, 60] if result == "draw" else [50, 50]
        if result != "draw":
            game.scores[result] = 70
        game.finish_deal()
    assert dealers == expect["dealers"]
    assert (game.wins, game.winner, game.deals) == (
        expect["wins"],
        expect["winner"],
        expect["deals"],
    )
    assert game.over
    assert not game.truncated


def check_signal(given: dict, expect: dict, config: dict) -> None:
    if "error" in expect:
        with pytest.raises(ValueError, match="signals"):
            NaiveGame(0, players=given["players"], **config)
        return
    hands: list[list[int]] = [cards(given["hand"]), *([] for _ in range(given["players"] - 1))]
    game = midgame(hands, SUITS.index(given["trump"]), **config)
    game.trick = given["trick_index"]
    if given["partner_reference"]:
        game.named = [(2, 9 - MESSAGES.index(given["partner_reference"]))]
    signal = FIRST_SIGNAL + MESSAGES.index(given["message"])
    assert (signal in game.legal()) == expect["allowed"]


def check_inference(given: dict, expect: dict, config: dict) -> None:
    game = midgame([cards(given["own_hand"]), []], 0)
    game.stock, game.face_up, game.hands[1] = [], -1, []
    game.played = [set(cards(given["played"])), set()]
    known = game.view(0)["known"][1]
    assert known == set(cards(expect["opponent_hand"]))
    assert points([*known, *game.hands[0]]) == expect["points_left"]


def check_partner_view(given: dict, expect: dict, config: dict) -> None:
    deck = cards(given["deck"])
    game = NaiveGame(given["dealer"], deck, players=given["players"], **config)
    for seat, names in enumerate(expect["partner_hand_seen_by"]):
        known = game.view(seat)["known"]
        assert known[(seat + 2) % 4] == set(cards(names))
        assert known[(seat + 1) % 4] == known[(seat + 3) % 4] == set()


def check_split_count(given: dict, expect: dict, config: dict) -> None:
    for seed in range(20):
        rng = random.Random(seed)
        deck = rng.sample(range(40), 40)
        game = NaiveGame(0, deck, players=4, show_partner="before_last_tricks")
        while game.face_up != -1:
            game.act(rng.choice(game.legal()))
        view = game.view(0)
        if bool(view["known"][1] or view["known"][3]) == given["face_up_known_with_opponent"]:
            break
    unseen = set(deck) - view["hand"] - view["known"][2] - set().union(*view["played"])
    assert len(unseen) == given["unseen"]
    assert len(list(combinations(unseen, given["per_opponent"]))) == expect["splits"]


def check_deal(given: dict, expect: dict, config: dict) -> None:
    deck, n = cards(given["deck"]), given["players"]
    game = NaiveGame(given["dealer"], deck, players=n, **config)
    drawn_by = None
    for seat, name in given["actions"]:
        bottom = game.face_up
        assert game.current_player == seat
        game.act(action(name))
        if game.face_up == -1 and drawn_by is None:
            drawn_by = [bottom in hand for hand in game.hands].index(True)
    tricks = list(zip(game.trick_winners, game.trick_points, strict=True))
    assert tricks == [tuple(trick) for trick in expect["tricks"]]
    own = [sum(pts for who, pts in tricks if who == seat) for seat in range(n)]
    assert own == expect["player_scores"]
    assert game.scores == expect["side_scores"]
    assert game.over
    assert ("draw" if game.winner is None else game.winner) == expect["result"]
    assert drawn_by == expect["face_up_drawn_by"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_rule_case(case: dict) -> None:
    check = globals()[f"check_{case['kind']}"]
    check(case["given"], case["expect"], case["config"])


ALL_SWAPS = {"exchange_seven": True, "exchange_two": True, "withdraw": "deuce"}
OPTIONS = [
    {},
    {"players": 2, **ALL_SWAPS, "rebury": "repeat", "match_wins": 2, "max_deals": 4},
    {"players": 3, "removed_two": "cups", **ALL_SWAPS, "rebury": "once", "match_wins": 2},
    {"players": 4, **ALL_SWAPS, "show_partner": "both", "signals": "conventional"},
    {"players": 4, "withdraw": "two_trumps", "signals": "free", "match_wins": 1},
    {"players": 6, "exchange_seven": True, "withdraw": "two_trumps", "rebury": "repeat"}
    | {"signals": "conventional", "signals_from_trick": 0, "signal_audience": "table"}
    | {"show_partner": "before_last_tricks"},
    {"cards": tuple(range(0, 40, 2)), "hand_size": 2, "exchange_seven": True, "rebury": "repeat"},
]


def check_position(game: NaiveGame) -> None:
    """No card is lost; what is known is true and known to the right seats."""
    full, view = game.full(), [game.view(seat) for seat in range(game.players)]
    bottom = [] if game.face_up == -1 else [game.face_up]
    seen = [c for pile in [*full["hands"], full["stock"], bottom, *game.played] for c in pile]
    assert sorted(seen) == game.rules.deck()
    for seat, seen_by in enumerate(view):
        assert seen_by["hand"] == full["hands"][seat]
        assert seen_by["stock_count"] + sum(seen_by["hand_sizes"]) == len(
            [c for pile in [*full["hands"], full["stock"]] for c in pile]
        )
        for other, known in enumerate(seen_by["known"]):
            assert known <= full["hands"][other]
            assert view[other]["known"][other] >= known or game.players == 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_random_games_keep_cards_and_points(options: dict, seed: int) -> None:
    rng = random.Random(seed)
    game = NaiveGame(rng.randrange(options.get("players", 2)), **options)
    deck = game.rules.deck()
    while not game.over:
        game.start_deal(rng.sample(deck, len(deck)), lambda size: rng.randint(0, size))
        while game.current_player != -1:
            check_position(game)
            game.act(rng.choice(game.legal()))
        check_position(game)
        assert game.trick == len(game.trick_points) == len(deck) // game.players
        assert sum(game.scores) == sum(game.trick_points) == points(deck)
        assert game.returns() == [game.scores[game.side(s)] for s in range(game.players)]


STUDY = [
    {"cards": (0, 4, 5, 8, 9, 14, 18, 19), "hand_size": 2, "exchange_seven": True},
    {"cards": (0, 4, 8, 9, 14, 18, 19, 24), "hand_size": 2, "rebury": "repeat"},
    {"cards": (0, 4, 8, 9, 14, 18, 19, 24), "hand_size": 2, "rebury": "once"},
    {"cards": (0, 1, 4, 5, 6, 9, 14, 19), "hand_size": 2, "withdraw": "two_trumps"},
    {"cards": (0, 4, 5, 6, 9, 14, 18, 19), "players": 4, "hand_size": 1, "signals": "conventional"},
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("options", STUDY, ids=str)
def test_worlds_hold_the_truth(options: dict, seed: int) -> None:
    """Section 7: uniform over the orders that fit what was seen, reburials included."""
    options = {"signals_from_trick": 0, **options}
    rng = random.Random(seed)
    deck, indices, actions = rng.sample(options["cards"], len(options["cards"])), [], []

    def bury(size: int) -> int:
        indices.append(rng.randint(0, size))
        return indices[-1]

    game = NaiveGame(0, deck, bury=bury, **options)
    for observer in range(game.players):
        worlds = consistent_worlds(options, 0, deck, indices, [], observer)
        assert list(worlds.values()) == pytest.approx([1 / len(worlds)] * len(worlds))
    for _ in range(rng.randint(1, 6)):
        actions.append(rng.choice(game.legal()))
        game.act(actions[-1])
    for observer in range(game.players):
        worlds = consistent_worlds(options, 0, deck, indices, actions, observer)
        hands = [tuple(sorted(hand)) for hand in game.hands]
        assert (*hands, tuple(game.stock), game.face_up) in worlds
        assert sum(worlds.values()) == pytest.approx(1)


def test_no_trump_binds_until_the_sender_plays() -> None:
    """Section 7: exact until then; afterwards trumps left in the hand are possible again."""
    options = {"cards": (*range(6), *range(10, 16)), "players": 4, "hand_size": 2}
    options |= {"signals": "conventional", "signals_from_trick": 0}
    deck = [10, 0, 1, 2, 11, 3, 4, 12, 5, 13, 14, 15]  # seat 0 leads, holds 10 and 11; 5 is up
    actions = [FIRST_SIGNAL + MESSAGES.index("NO_TRUMP"), 10]
    for done, possible in ((1, False), (2, True)):
        worlds = consistent_worlds(options, 3, deck, [], actions[:done], observer=2)
        assert any(c < 10 for world in worlds for c in world[0]) == possible


def test_signals_leave_no_trace_with_the_other_side() -> None:
    """A HAVE_A and its REL answer: known to partners, the references go to the partner only."""
    hands = [[9, 11, 12], [10, 13, 14], [8, 21, 22], [20, 23, 24]]
    for audience in ("team", "table"):
        game = midgame(
            hands, 0, 1, signals="conventional", signals_from_trick=0, signal_audience=audience
        )
        before = game.view(1)
        game.act(FIRST_SIGNAL + MESSAGES.index("HAVE_A"))
        assert (game.view(1) == before) == (audience == "team")
        assert game.view(2)["reference"] == [-1, -1, 9, -1]
        for play in (9, 10, FIRST_SIGNAL + MESSAGES.index("REL-1")):
            game.act(play)
        view = game.view(0)
        assert view["known"] == [set(), set(), {8}, set()]
        assert view["reference"] == [8, -1, 9, -1]
        assert (view["last_message"], view["signalled"]) == ([0, -1, 16, -1], True)
        assert game.view(3)["signalled"] == (audience == "table")
        assert game.view(3)["known"][2] == ({8} if audience == "table" else set())
        assert not [a for a in game.legal() if a >= FIRST_SIGNAL]


@pytest.mark.parametrize(
    "options",
    [
        {"players": 5},
        {"signals": "free"},
        {"show_partner": "both", "players": 3},
        {"removed_two": "cups"},
        {"players": 6, "exchange_two": True},
        {"cards": (0, 1, 2, 3, 5, 6, 7, 8), "exchange_seven": True},
        {"cards": (0, 1, 2, 3, 4, 5)},
    ],
    ids=str,
)
def test_impossible_rules_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        TableRules(**options)
