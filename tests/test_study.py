"""Study decks: the compact tree, and exact exploitability where it can be worked out by hand."""

from itertools import combinations, permutations

import numpy as np
import pytest

from briscola_env.cards import ACE, cards_of
from briscola_env.dealing import deal
from briscola_env.engine import legal_actions, step
from briscola_env.information import info_state
from briscola_env.policies import ExpertPolicy, GreedyPolicy, RandomPolicy
from briscola_env.policies.exact import ExactEndgame
from briscola_env.rules import STUDY_DECKS, InvalidRulesError, Rules
from briscola_env.state import new_states
from briscola_env.study import (
    build_tree,
    exploitability,
    infoset_numbers,
    policy_actions,
    policy_probabilities,
    to_efg,
)

SIX = Rules(**STUDY_DECKS["study-6"])
ONE_ACE = Rules(cards=(0, 1, 2, 3, 4, ACE), hand_size=2)
"""One suit, so that the higher card takes; nothing counts but who gets the ace, 11 points."""


@pytest.fixture(scope="module")
def six():
    return build_tree(SIX)


@pytest.fixture(scope="module")
def one_ace():
    return build_tree(ONE_ACE)


class Fixed:
    """Plays what a function of one info state says."""

    name = "fixed"

    def __init__(self, choose):
        self.choose = choose

    def act(self, info_states, legal, seeds):
        return np.array([self.choose(info) for info in info_states])


def hand_of(info):
    return cards_of(info["hands"][info["observer"]])


# --------------------------------------------------------------------------------------- the tree


def walked(rules):
    """Every position with a choice, one game at a time: (what was seen, in order, info state)."""
    h = rules.hand_size
    decks = []
    for first in combinations(rules.deck, h):
        for second in combinations(sorted({*rules.deck} - {*first}), h):
            rest = sorted({*rules.deck} - {*first} - {*second})
            hands = [card for pair in zip(first, second, strict=True) for card in pair]
            decks += [[*hands, *order] for order in permutations(rest)]
    for deck in decks:
        state = new_states(rules, 1)
        deal(state, np.zeros(1, np.uint64), np.array([1]), np.array([deck]))
        seen = [(seat, int(state["hands"][0, seat]), deck[2 * h]) for seat in range(2)]
        yield from walked_from(state, seen)


def walked_from(state, seen):
    legal = np.empty((1, 40), np.bool_)
    legal_actions(state, legal)
    seat = int(state["current_player"][0])
    if legal.sum() > 1:
        info = np.empty_like(state)
        info_state(state, np.array([seat]), info)
        yield seen[seat], info[0].tobytes()
    for action in np.flatnonzero(legal[0]):
        after = state.copy()
        step(after, np.array([action]))
        drawn = after["hands"][0] & ~state["hands"][0]
        views = [(*view, int(action), int(drawn[own])) for own, view in enumerate(seen)]
        yield from walked_from(after, views)


def test_study_6_has_1680_information_sets_and_the_tree_has_all_of_them(six):
    infos = {}
    for seen, info in walked(SIX):
        infos.setdefault(seen, set()).add(info)
    assert all(len(shown) == 1 for shown in infos.values()), "an information set shows two things"
    assert len(infos) == len(six.legal) == 1680
    assert sorted(info.tobytes() for info in six.info_states) == sorted(
        info for shown in infos.values() for info in shown
    )


@pytest.mark.slow
def test_positions_with_drawn_cards_in_between_have_a_tree_too():
    rules = Rules(cards=(0, 7, 9, 10, 17, 19, 29, 39), hand_size=2)
    tree = build_tree(rules)
    assert len({seen for seen, _ in walked(rules)}) == len(tree.legal)
    assert tree.num_deals == 8 * 7 * 6 * 5 * 4 * 3 * 2 // 4 * 2**4 * 4


@pytest.mark.slow
def test_study_8_has_about_209000_information_sets():
    tree = build_tree(Rules(**STUDY_DECKS["study-8"]))
    assert len(tree.legal) == 208_760
    assert tree.num_deals == 362_880


def test_every_way_to_deal_and_play_is_in_the_tree(six):
    assert six.num_deals == 180 * 2 * 2 * 2 * 2
    margins = np.concatenate([level.margin[level.seat < 0] for level in six.levels])
    assert (np.abs(margins) <= SIX.deck_points).all()
    assert ((margins + SIX.deck_points) % 2 == 0).all()


def test_the_efg_file_has_each_choice_and_each_end_once(six):
    lines = to_efg(six).splitlines()
    assert lines[0] == 'EFG 2 R "Briscola" { "leader" "other" }'
    assert lines[1].startswith('c "" 1 ""')
    assert lines[1].count("1/180") == 180
    players = [line.split('"')[2].split() for line in lines if line.startswith("p")]
    sets = {(int(seat), int(number)) for seat, number in players}
    numbers = infoset_numbers(six)
    assert len(sets) == len(six.legal)
    for seat in range(2):
        own = np.sort(numbers[six.info_states["observer"] == seat])
        np.testing.assert_array_equal(own, np.arange(1, len(own) + 1))
    assert sum(line.startswith("t") for line in lines) == six.num_deals


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, r"40 cards with hand_size=3 .* 10\^\d+ ways, .*study-6, study-8.*--minutes"),
        ({"cards": tuple(range(10)), "hand_size": 3}, "10 cards with hand_size=3"),
        ({"cards": (0, 9, 10, 19), "hand_size": 1}, "hand_size=1: there is nothing to choose"),
        ({"players": 4}, "players=4"),
        ({"cards": SIX.cards, "hand_size": 2, "rebury": "once"}, "rebury='once'"),
    ],
)
def test_what_cannot_be_walked_is_refused_with_the_reason(options, says):
    with pytest.raises(InvalidRulesError, match=says):
        build_tree(Rules(**options))


# --------------------------------------------------------------------------------- worked by hand
# The ace is dealt to a hand in 4 of 6 deals: that seat wins 11, as often either. Else it is face up
# (1 of 6), and who loses the first trick draws it, or in the stock (1 of 6), and who wins it does.
# So each seat can but try to lose the first trick if the ace is face up, and else to win it.


def sensible(info):
    """Lose if the ace is face up, else win: no card can be better, whatever the other does."""
    hand = hand_of(info)
    lose = info["initial_face_up"] == ACE
    return min(hand) if lose else max(hand)


def foolish(info):
    hand = hand_of(info)
    return max(hand) if info["initial_face_up"] == ACE else min(hand)


def test_dominant_play_cannot_be_exploited(one_ace):
    found = exploitability(one_ace, policy_probabilities(one_ace, Fixed(sensible)))
    assert [found.value, *found.best_responses] == pytest.approx([0, 0, 0], abs=1e-12)
    assert found.exploitability == pytest.approx(0, abs=1e-12)


def test_who_does_the_wrong_thing_loses_22_ninths(one_ace):
    # In the 2 of 6 deals that are open, the fool loses but for the one split in six that forces it.
    found = exploitability(one_ace, policy_probabilities(one_ace, Fixed(foolish)))
    assert found.best_responses == pytest.approx((22 / 9, 22 / 9))
    assert found.value == pytest.approx(0)


def test_random_play_loses_11_ninths(one_ace):
    # In those deals sensible play wins with probability 2/3 against random play in either seat.
    found = exploitability(one_ace, policy_probabilities(one_ace, RandomPolicy()))
    assert found.best_responses == pytest.approx((11 / 9, 11 / 9))
    assert found.exploitability == pytest.approx(11 / 9)


def test_a_deck_without_points_cannot_be_exploited():
    tree = build_tree(Rules(cards=(0, 1, 2, 10, 11, 12), hand_size=2))
    found = exploitability(tree, policy_probabilities(tree, RandomPolicy()))
    assert (found.value, found.best_responses) == (0, (0, 0))


# ------------------------------------------------------------------------------ policies in general


@pytest.mark.parametrize("policy", [RandomPolicy(), GreedyPolicy(), ExpertPolicy()])
def test_a_best_response_wins_at_least_what_the_policy_itself_wins(six, policy):
    found = exploitability(six, policy_probabilities(six, policy))
    leads, follows = found.best_responses
    assert leads >= found.value
    assert follows >= -found.value
    assert found.exploitability > 0


def test_the_end_game_is_exact_from_the_reply_before_the_last_draw_on_and_loses_nothing(six):
    plain = policy_probabilities(six, RandomPolicy())
    ended = policy_probabilities(six, ExactEndgame(RandomPolicy()))
    infos = six.info_states
    replies = (infos["trick"] == infos["draws"] - 1) & (infos["table_count"] == 1)
    late = np.repeat((infos["face_up"] < 0) | replies, np.diff(six.first_choice))
    np.testing.assert_array_equal(plain[~late], ended[~late])
    assert set(ended[late]) == {0, 1}
    assert exploitability(six, ended).exploitability < exploitability(six, plain).exploitability


def test_lots_are_drawn_from_the_seed(six):
    class Lots(RandomPolicy):
        probabilities = property()  # as if it had none

    same, again = (policy_actions(six, Lots(), seed=3) for _ in range(2))
    np.testing.assert_array_equal(same, again)
    np.testing.assert_array_equal(same, policy_probabilities(six, Lots(), seed=3))
    assert (same != policy_actions(six, Lots(), seed=4)).any()
    assert same.sum() == len(six.legal)


def test_probabilities_that_are_none_are_refused(six):
    class Wrong(RandomPolicy):
        def probabilities(self, info_states, legal):
            return legal * 0.4

    with pytest.raises(ValueError, match="'random': what it answers are not probabilities"):
        policy_probabilities(six, Wrong())
    with pytest.raises(ValueError, match="'fixed'"):
        policy_actions(six, Fixed(lambda info: 39))
