"""The solver against plain minimax, and what is made of it."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from briscola_env.cards import cards_of
from briscola_env.engine import step
from briscola_env.policies.endgame import exact_cards
from briscola_env.policies.solver import action_values, solve
from briscola_env.rules import Rules
from tests.minimax import minimax
from tests.positions import legal_rows, random_positions, views


@pytest.mark.parametrize(
    ("players", "tricks", "count"),
    [
        (2, 3, 1500),
        (2, 4, 500),
        (2, 6, 40),
        (3, 3, 300),
        (3, 4, 30),
        (4, 2, 500),
        (4, 3, 60),
        (6, 2, 60),
    ],
)
def test_solver_equals_plain_minimax(players, tricks, count):
    rules = Rules(players=players)
    rng = np.random.default_rng(tricks)
    total = len(rules.deck)
    plays = total - tricks * players + rng.integers(0, players, count)
    states = random_positions(rules, count, plays, seed=players)
    values, best = solve(states)
    every = action_values(states)
    for i in range(count):
        slow = minimax(states[i])
        assert values[i] == max(slow.values())
        assert set(cards_of(best[i])) == {c for c, v in slow.items() if v == values[i]}
        assert {c: every[i, c] for c in slow} == slow
        assert (np.delete(every[i], list(slow)) == -1).all()


def slow_with_swaps(states):
    """The value of one state by minimax over the engine's own steps, swaps among the actions."""
    state, side = states[0], int(states["current_player"][0]) % int(states["sides"][0])

    def value(position):
        now = position[0]
        if now["current_player"] < 0:
            return int(now["scores"][side])
        values = []
        for action in np.flatnonzero(legal_rows(position)[0]):
            child = position.copy()
            step(child, np.array([action]))
            values.append(value(child))
        return max(values) if now["current_player"] % now["sides"] == side else min(values)

    return value(states.copy()) - int(state["scores"][side])


def test_swaps_are_searched_like_cards():
    # Suits of four ranks, so that sevens and twos are often in hand, and short deals.
    cards = tuple(10 * suit + rank for suit in range(3) for rank in (0, 4, 7, 9))
    rules = Rules(cards=cards, hand_size=3, exchange_seven=True, exchange_two=True)
    states = random_positions(rules, 300, 4, seed=1)
    swaps = legal_rows(states)[:, 40:].any(axis=1)
    states = states[swaps][:6]
    assert len(states) == 6
    assert [int(v) for v in solve(states)[0]] == [
        slow_with_swaps(states[i : i + 1]) for i in range(6)
    ]


def test_a_finished_deal_is_worth_nothing_and_an_info_state_is_refused():
    states = random_positions(Rules(), 2, 40, seed=0)
    values, best = solve(states)
    assert values.tolist() == best.tolist() == [0, 0]
    with pytest.raises(ValueError, match="hides cards"):
        solve(views(random_positions(Rules(), 1, 10, seed=0)))


def test_the_reply_before_the_last_draw_is_best_on_average_over_the_cards_it_may_draw():
    states = random_positions(Rules(), 300, 33, seed=4)
    assert ((states["trick"] == 16) & (states["table_count"] == 1)).all()
    found = exact_cards(views(states))
    wrong_in_one = 0
    for i in range(300):
        seat = int(states["current_player"][i])
        left = [*cards_of(states["hands"][i, 1 - seat]), int(states["stock"][i, 0])]
        assert len(left) == 3
        total: Counter[int] = Counter()
        for hidden in left:
            world = states[i : i + 1].copy()
            world["stock"][0, 0] = hidden
            world["hands"][0, 1 - seat] = sum(1 << card for card in left if card != hidden)
            values = minimax(world[0])
            wrong_in_one += values[int(found[i])] < max(values.values())
            total.update(values)
        assert total[int(found[i])] == max(total.values())
    assert wrong_in_one > 20  # what is best on average is not best in every world


@pytest.mark.parametrize("rules", [Rules(exchange_seven=True), Rules(withdraw="deuce"), Rules(4)])
def test_the_reply_before_the_last_draw_is_left_alone_where_more_is_to_be_thought_of(rules):
    decisions = (rules.num_tricks - 3) * rules.players - 1
    states = random_positions(rules, 200, decisions, seed=4)
    late = (states["trick"] == states["draws"] - 1) & (states["table_count"] > 0)
    assert late.any()
    assert (exact_cards(views(states))[late] == -1).all()


def test_values_of_both_sides_share_the_points_left():
    states = random_positions(Rules(), 50, 30, seed=5)
    values = action_values(states)
    for i in range(50):
        best = int(values[i].argmax())
        after = states[i : i + 1].copy()
        step(after, np.array([best]))
        won = after["scores"][0] - states["scores"][i]
        me, other = int(states["current_player"][i]), int(after["current_player"][0])
        rest = int(solve(after)[0][0])
        left = 120 - int(states["scores"][i, :2].sum())
        mine = int(won[me]) + (rest if me == other else left - int(won.sum()) - rest)
        assert mine == values[i].max()


def test_a_second_process_runs_the_cached_solver():
    code = "from briscola_env.policies.solver import solve\n"
    code += "from briscola_env.state import new_states\nfrom briscola_env.rules import Rules\n"
    code += "from briscola_env.dealing import deal\nimport numpy as np\n"
    code += "s = new_states(Rules(cards=tuple(range(12))), 1)\n"
    code += "deal(s, np.zeros(1, np.uint64)); print(int(solve(s)[0][0]))"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout != ""
