"""Tricks, draws, swaps and matches as the rules page tells them, on the compiled engine."""

import random
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from briscola_env.cards import card_set, parse_card
from briscola_env.engine import returns, step
from briscola_env.rules import FIRST_SIGNAL, Rules
from briscola_env.state import States, new_states
from tests.tables import OPTIONS, act, fewer, legal, play, start

WEAK_TO_STRONG = {  # by hand, from docs/rules.md: 2 4 5 6 7 J H K 3 A
    0: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],  # coins
    1: [10, 11, 12, 13, 14, 15, 16, 17, 18, 19],  # cups
    2: [20, 21, 22, 23, 24, 25, 26, 27, 28, 29],  # swords
    3: [30, 31, 32, 33, 34, 35, 36, 37, 38, 39],  # batons
}
WORTH = {5: 2, 6: 3, 7: 4, 8: 10, 9: 11}  # J H K 3 A; nothing else counts


def on_the_table(players: int, tricks: list[tuple[int, ...]], trumps: list[int]) -> States:
    """One game a trick: seat 0 leads, each seat holds only its card, the stock is empty."""
    states = new_states(Rules(players=players), len(tricks))
    for seat in range(players):
        states["hands"][:, seat] = [1 << trick[seat] for trick in tricks]
    states["trump"] = trumps
    states["leader"] = states["current_player"] = 0
    states["trick"] = states["num_tricks"] - 2
    for seat in range(players):
        step(states, np.array([trick[seat] for trick in tricks]))
    return states


def strongest(trick: tuple[int, ...], trump: int) -> int:
    """Place of the winning card by the written order: the trumps, else the suit led."""
    trumps = [card for card in trick if card in WEAK_TO_STRONG[trump]]
    suit = WEAK_TO_STRONG[trump] if trumps else WEAK_TO_STRONG[trick[0] // 10]
    return trick.index(max((card for card in trick if card in suit), key=suit.index))


def test_all_ordered_pairs_of_cards_under_each_trump() -> None:
    cases = [(pair, trump) for trump in range(4) for pair in permutations(range(40), 2)]
    assert len(cases) == 6240
    pairs, trumps = [pair for pair, _ in cases], [trump for _, trump in cases]
    states = on_the_table(2, pairs, trumps)
    second_wins = []
    for (led, second), trump in cases:
        if led // 10 == second // 10:
            order = WEAK_TO_STRONG[led // 10]
            second_wins.append(order.index(second) > order.index(led))
        else:
            second_wins.append(second in WEAK_TO_STRONG[trump])
    assert states["last_winner"].tolist() == [int(wins) for wins in second_wins]
    worth = [WORTH.get(a % 10, 0) + WORTH.get(b % 10, 0) for a, b in pairs]
    assert states["last_points"].tolist() == worth


@pytest.mark.parametrize("players", [3, 4, 6])
def test_with_two_trumps_or_none_the_strongest_that_counts_wins(players: int) -> None:
    rng, cases = random.Random(players), []
    for trumps, _ in product((0, 1, 2), range(fewer(500))):
        trump = rng.randrange(4)
        others = [card for card in range(40) if card // 10 != trump]
        trick = rng.sample(WEAK_TO_STRONG[trump], trumps) + rng.sample(others, players - trumps)
        cases.append((tuple(rng.sample(trick, players)), trump))
    states = on_the_table(players, [trick for trick, _ in cases], [trump for _, trump in cases])
    expected = [strongest(trick, trump) for trick, trump in cases]
    assert states["last_winner"].tolist() == expected
    assert states["leader"].tolist() == states["current_player"].tolist() == expected


@pytest.mark.parametrize("table", OPTIONS)
def test_cards_are_conserved_and_points_sum_to_the_deck(table: str) -> None:
    rules = Rules(**OPTIONS[table])
    deck, n = card_set(rules.deck), rules.players
    states = start(rules, range(fewer(100)))
    points = np.zeros((len(states), n), np.int16)
    for _ in play(states, np.random.default_rng(1)):
        for state in states:
            stock = [int(card) for card in state["stock"][: state["stock_count"]]]
            bottom = [int(state["face_up"])] if state["face_up"] >= 0 else []
            hands, played = state["hands"][:n].tolist(), state["played"][:n].tolist()
            piles = [*hands, *played, *(1 << card for card in [*stock, *bottom])]
            assert sum(piles) == deck  # no card twice: the sets add up
            assert (state["stock"][state["stock_count"] :] == -1).all()
            won = sum(played) - sum(1 << int(card) for card in state["table"] if card >= 0)
            worth = sum(WORTH.get(card % 10, 0) for card in range(40) if won >> card & 1)
            assert state["scores"].sum() == worth
    returns(states, points)
    assert (points == states["scores"][:, [seat % rules.sides for seat in range(n)]]).all()
    assert (points[:, : rules.sides].sum(axis=1) == rules.deck_points).all()


@pytest.mark.parametrize(("players", "tricks"), [(2, 20), (3, 13), (4, 10), (6, 6)])
def test_tricks_of_a_deal(players: int, tricks: int) -> None:
    states = start(Rules(players=players), range(fewer(100)))
    plays = sum(1 for _ in play(states, np.random.default_rng(2)))
    assert plays == tricks * players
    assert (states["trick"] == tricks).all()
    assert (states["hands"] == 0).all()


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_the_winner_draws_first_and_the_seat_before_it_takes_the_face_up_card(players: int) -> None:
    states = start(Rules(players=players), range(fewer(100)))
    last_draws = 0
    for _ in play(states, np.random.default_rng(3)):
        before = states.copy()
        ending = np.flatnonzero(states["table_count"] == players - 1)
        after = states.copy()
        step(after, np.array([legal(states, i)[0] for i in range(len(states))]))
        for i in ending:
            check_draw(players, before[i], after[i])
            last_draws += before["face_up"][i] >= 0 > after["face_up"][i]
    assert last_draws == len(states)


def check_draw(players: int, before: Any, after: Any) -> None:
    """Who got which card after a trick: the top of the stock first, the face-up card last."""
    winner, stock = int(after["last_winner"]), before["stock"][: before["stock_count"]].tolist()
    pile = [int(before["face_up"]), *stock] if before["face_up"] >= 0 else []
    for i in range(players):
        seat = (winner + i) % players
        kept = int(before["hands"][seat]) & ~int(after["played"][seat])
        expected = 1 << pile.pop() if pile else 0
        assert int(after["hands"][seat]) == kept | expected
    if before["face_up"] >= 0 > after["face_up"]:
        taker = (winner - 1) % players
        assert int(after["known"][taker]) == 1 << int(before["face_up"])
        assert int(after["hands"][taker]) >> int(before["face_up"]) & 1


@pytest.mark.parametrize("players", [2, 3, 4, 6])
@pytest.mark.parametrize("last", [False, True])
def test_every_leader_and_every_winner(players: int, last: bool) -> None:
    """Points, log and next leader; also in the last trick, which nothing follows."""
    for leader, place in product(range(players), range(players)):
        states = new_states(Rules(players=players), 1)
        state, winner = states[0], (leader + place) % players
        low = [11, 12, 13, 14, 15, 16]  # cups, worth 0 0 0 0 2 3
        cards = low[:players]
        cards[place] = 39  # the ace of trumps
        for i in range(players):
            state["hands"][(leader + i) % players] = 1 << cards[i]
        state["trump"], state["leader"], state["current_player"] = 3, leader, leader
        state["trick"] = state["num_tricks"] - (1 if last else 2)
        act(states, *cards)
        worth = sum(WORTH.get(card % 10, 0) for card in cards)
        sides = state["sides"]
        assert (state["last_winner"], state["last_points"], state["leader"]) == (
            winner,
            worth,
            winner,
        )
        assert state["current_player"] == (-1 if last else winner)
        assert state["scores"].tolist() == [worth * (s == winner % sides) for s in range(3)]
        assert state["history"][:players].tolist() == cards
        assert state["history_seat"][:players].tolist() == [
            (leader + i) % players for i in range(players)
        ]
        assert state["winner"] == (winner % sides if last else -1)


@pytest.mark.parametrize(
    ("players", "scores", "winner"),
    [
        (2, [60, 60], -1),
        (2, [61, 59], 0),
        (2, [0, 120], 1),
        (3, [41, 39, 40], 0),
        (3, [40, 40, 40], -1),
        (3, [30, 45, 45], -1),
        (3, [44, 45, 31], 1),
        (3, [10, 50, 60], 2),
        (4, [60, 60], -1),
        (4, [59, 61], 1),
        (6, [60, 60], -1),
        (6, [61, 59], 0),
    ],
)
def test_the_side_with_strictly_the_most_points_wins(
    players: int, scores: list[int], winner: int
) -> None:
    states = last_card(Rules(players=players), scores)
    assert states[0]["winner"] == winner
    assert states[0]["current_player"] == -1
    assert legal(states) == []
    assert states[0]["last_scores"].tolist() == [*scores, -1][:3]


def last_card(rules: Rules, scores: list[int], states: States | None = None) -> States:
    """A game in which the last, worthless trick has just been played with these side scores."""
    states = start(rules, [1]) if states is None else states
    state = states[0]
    state["hands"] = 0
    state["hands"][: rules.players] = [1 << card for card in (1, 2, 3, 4, 11, 12)[: rules.players]]
    state["stock"], state["stock_count"], state["face_up"] = -1, 0, -1
    state["trick"] = rules.num_tricks - 1
    state["scores"][: len(scores)] = scores
    for _ in range(rules.players):
        act(states, legal(states)[0])
    return states


def test_the_deal_passes_to_the_next_dealer_after_drawn_deals_too() -> None:
    for players in (2, 3, 4, 6):
        rules = Rules(players=players, match_wins=1, max_deals=2 * players)
        states = start(rules, [5], dealers=[1])
        for deal_number in range(2 * players):
            assert states[0]["dealer"] == (1 + deal_number) % players
            assert states[0]["leader"] == states[0]["current_player"] == (2 + deal_number) % players
            assert states[0]["deals"] == deal_number
            drawn = [40, 40, 40] if players == 3 else [60, 60]
            states = last_card(rules, drawn, states)
        # truncated: over, and nobody has won
        assert (states[0]["current_player"], states[0]["winner"]) == (-1, -1)
        assert states[0]["wins"].tolist() == [0, 0, 0]


def test_a_match_of_three_players_to_two_can_need_four_decisive_deals() -> None:
    rules = Rules(players=3, match_wins=2)
    states, wins = start(rules, [5]), [0, 0, 0]
    for winner in (0, 1, 2, 1):
        assert states[0]["winner"] == -1
        states = last_card(rules, [80 if side == winner else 20 for side in range(3)], states)
        wins[winner] += 1
        assert states[0]["wins"].tolist() == wins
        assert states[0]["last_scores"].tolist() == [
            80 if side == winner else 20 for side in range(3)
        ]
    assert (states[0]["winner"], states[0]["current_player"], states[0]["deals"]) == (1, -1, 4)


def cards(names: str) -> list[int]:
    """Card ids of short names."""
    return [parse_card(name) for name in names.split()]


def test_both_exchanges_follow_each_other_in_one_turn() -> None:
    rules = Rules(exchange_seven=True, exchange_two=True)
    hands = cards("7c 2c 4d"), cards("5d 6d 7d")
    rest = [card for card in range(40) if card not in [*hands[0], *hands[1], parse_card("Ac")]]
    deck = [card for pair in zip(*hands, strict=True) for card in pair] + [parse_card("Ac"), *rest]
    states = start(rules, [1], dealers=[1], decks=[deck])
    assert legal(states) == sorted(hands[0])  # never in the first trick
    states[0]["trick"], states[0]["last_winner"] = 1, 0
    assert legal(states) == [*sorted(hands[0]), 40]  # the two does not take an ace
    act(states, 40)
    assert (states[0]["face_up"], states[0]["known"][0]) == (parse_card("7c"), 1 << 19)
    assert legal(states) == [*sorted(cards("Ac 2c 4d")), 41]
    act(states, 41)
    assert states[0]["face_up"] == parse_card("2c")
    assert states[0]["known"][0] == card_set(cards("Ac 7c"))
    assert legal(states) == sorted(cards("Ac 7c 4d"))
    assert states[0]["current_player"] == 0
    act(states, parse_card("Ac"))  # also the card just taken
    assert states[0]["known"][0] == 1 << parse_card("7c")


def test_one_withdrawal_a_deal_by_anybody() -> None:
    rules = Rules(players=3, withdraw="two_trumps")
    hands = cards("4c 7c 4d"), cards("5c Jc 5d"), cards("6c Hc 6d")
    first = [card for triple in zip(*hands, strict=True) for card in triple]
    rest = [card for card in rules.deck if card not in [*first, parse_card("Kc")]]
    states = start(rules, [1], dealers=[2], decks=[[*first, parse_card("Kc"), *rest]])
    act(states, parse_card("4d"))
    act(states, 42)
    assert (states[0]["withdrawn"], states[0]["withdrawn_by"]) == (parse_card("5c"), 1)
    assert states[0]["face_up"] == parse_card("5c")
    assert states[0]["initial_face_up"] == parse_card("Kc")
    assert 42 not in legal(states)
    act(states, parse_card("Kc"))
    assert 42 not in legal(states)  # seat 2 holds two trumps, but the card is gone


def test_signals_reach_from_rank_to_rank() -> None:
    """REL-9 after HAVE_A, and REL+9 after that, name the two and the ace."""
    rules = Rules(players=4, signals="conventional", signals_from_trick=0)
    hands = cards("Ac 4d 5d"), cards("4s 5s 6s"), cards("2c 6d 7d"), cards("4b 5b 6b")
    first = [card for four in zip(*hands, strict=True) for card in four]
    rest = [card for card in range(40) if card not in [*first, parse_card("Kc")]]
    states = start(rules, [1], dealers=[3], decks=[[*first, parse_card("Kc"), *rest[::-1]]])
    have_ace, low, carico, minus_nine, plus_nine = (FIRST_SIGNAL + m for m in (0, 5, 7, 8, 25))
    assert legal(states) == [*sorted(hands[0]), have_ace]
    act(states, have_ace)
    assert legal(states) == sorted(hands[0])  # at most one a turn
    act(states, parse_card("4d"))
    assert legal(states) == [*sorted(hands[1]), FIRST_SIGNAL + 6]  # no trump, and it heard nothing
    act(states, parse_card("4s"))
    assert legal(states) == [*sorted(hands[2]), low, minus_nine]
    act(states, minus_nine, parse_card("6d"), parse_card("4b"))
    assert states[0]["reference"].tolist() == [0, -1, 9, -1, -1, -1]
    assert states[0]["current_player"] == 2
    act(states, *cards("7d 5b"))
    assert plus_nine in legal(states)
    assert (
        carico in legal(states) or not card_set(cards("Ad 3d As 3s Ab 3b")) & states["hands"][0, 0]
    )


def test_free_symbols_are_never_masked_from_their_first_trick_on() -> None:
    rules = Rules(players=4, signals="free", signals_from_trick=2)
    states = start(rules, [3])
    rng = np.random.default_rng(0)
    for _ in play(states, rng):
        symbols = [action for action in legal(states) if action >= FIRST_SIGNAL]
        may = states[0]["trick"] >= 2 and not states[0]["signalled"]
        assert symbols == (list(range(43, 51)) if may else [])
