"""The end game that is solved: exactly for two players, in sampled worlds for teams."""

from itertools import combinations

import numpy as np
import pytest

from briscola_env.cards import card_set, cards_of
from briscola_env.policies.base import RandomPolicy
from briscola_env.policies.exact import ExactEndgame, can_solve_end, open_margins
from briscola_env.policies.solver import mistakes
from briscola_env.rules import Rules
from tests.minimax import minimax
from tests.positions import legal_rows, random_positions, views

SEEDS = np.arange(400).astype(np.uint64)


def test_two_players_make_no_mistake_in_the_last_tricks_and_the_policy_is_asked_before():
    policy = ExactEndgame(RandomPolicy())
    states = random_positions(Rules(), 400, np.arange(400) % 6 + 34, seed=3)
    actions = policy.act(views(states), legal_rows(states), SEEDS)
    assert (mistakes(states, actions) == 0).all()
    random = RandomPolicy().act(views(states), legal_rows(states), SEEDS)
    assert mistakes(states, random).mean() > 1
    early = random_positions(Rules(), 100, 20, seed=3)
    asked = policy.act(views(early), legal_rows(early), SEEDS[:100])
    alone = RandomPolicy().act(views(early), legal_rows(early), SEEDS[:100])
    assert (asked == alone).all()


def worlds_of(state, seat):
    """All that the other hands of a state can be, from what `seat` knows at the empty stock."""
    players, info = int(state["players"]), views(state[None])[0]
    others = [other for other in range(players) if other != seat]
    hands = [set(cards_of(state["hands"][other])) for other in others]
    known = [set(cards_of(info["known"][other])) for other in others]

    def deal(left, k):
        if k == len(others):
            yield state.copy()
            return
        for hand in combinations(sorted(left), len(hands[k])):
            if known[k] <= set(hand):
                for world in deal(left - set(hand), k + 1):
                    world["hands"][others[k]] = card_set(hand)
                    yield world

    return list(deal(set().union(*hands), 0))


@pytest.mark.parametrize("players", [4, 6])
def test_teams_play_the_card_that_is_best_on_average_over_all_worlds(players):
    rules = Rules(players=players)
    # In the last but one trick; of six players only who comes late, as the worlds are many.
    place = 4 if players == 6 else 0
    plays = len(rules.deck) - 2 * players + place + np.arange(60) % (players - place)
    states = random_positions(rules, 60, plays, seed=5)
    actions = ExactEndgame(RandomPolicy()).act(views(states), legal_rows(states), SEEDS[:60])
    lost, right, first = [], 0, 0
    for state, action in zip(states, actions, strict=True):
        seat = int(state["current_player"])
        tables = [minimax(world) for world in worlds_of(state, seat)]
        means = {card: np.mean([table[card] for table in tables]) for card in tables[0]}
        lost.append(max(means.values()) - means[int(action)])
        right += lost[-1] < 1e-9
        first += means[min(means)] == max(means.values())
    assert np.mean(lost) < 0.1
    assert right >= 54 > first


@pytest.mark.parametrize("players", [2, 4, 6])
def test_open_margins_are_what_minimax_finds_for_each_side(players):
    rules = Rules(players=players)
    tricks = {2: 3, 4: 3, 6: 2}[players]
    states = random_positions(rules, 30, len(rules.deck) - tricks * players, seed=6)
    margins = open_margins(states)
    assert margins.shape == (30, players)
    for state, row in zip(states, margins, strict=True):
        leads, left = int(state["current_player"]), 120 - int(state["scores"][:2].sum())
        margin = 2 * max(minimax(state).values()) - left
        assert row.tolist() == [
            margin if seat % 2 == leads % 2 else -margin for seat in range(players)
        ]


@pytest.mark.parametrize("players", [4, 6])
def test_a_card_of_a_team_depends_on_its_own_row_and_on_what_its_seat_knows(players):
    rules = Rules(players=players)
    plays = len(rules.deck) - 3 * players + np.arange(40) % (2 * players)
    states = random_positions(rules, 40, plays, seed=7)
    policy, infos, legal = ExactEndgame(RandomPolicy()), views(states), legal_rows(states)
    actions = policy.act(infos, legal, SEEDS[:40])
    assert legal[np.arange(40), actions].all()
    order = np.random.default_rng(0).permutation(40)
    again = policy.act(infos[order], legal[order], SEEDS[order])
    assert (again == actions[order]).all()
    assert (policy.act(infos, legal, SEEDS[:40] + np.uint64(1000)) != actions).any()


@pytest.mark.parametrize(
    ("rules", "solved"),
    [
        (Rules(), True),
        (Rules(players=4), True),
        (Rules(players=6), True),
        (Rules(players=3), False),
        (Rules(players=4, hand_size=5), False),
        (Rules(players=4, signals="conventional"), False),
    ],
)
def test_which_tables_have_an_end_to_be_solved(rules, solved):
    assert can_solve_end(rules) == solved


def test_three_players_and_seats_that_may_signal_ask_the_policy_to_the_end():
    for rules in (Rules(players=3), Rules(players=4, signals="free")):
        states = random_positions(rules, 50, len(rules.deck) - 2 * rules.players, seed=8)
        infos, legal = views(states), legal_rows(states)
        asked = ExactEndgame(RandomPolicy()).act(infos, legal, SEEDS[:50])
        assert (asked == RandomPolicy().act(infos, legal, SEEDS[:50])).all()
