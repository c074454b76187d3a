"""Statistics against known answers and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from briscola_env.arena import stats
from briscola_env.arena.match import summarize
from briscola_env.arena.play import episode_seeds, play_deals
from briscola_env.policies import GreedyPolicy, RandomPolicy
from briscola_env.rules import Rules
from tests.tables import fewer

EXPERIMENTS = 2000


@pytest.fixture(scope="module")
def population():
    """Results and margins by deck of real mirrored deals, two float arrays [D]."""
    decks = fewer(20_000)
    deals = play_deals([GreedyPolicy(), RandomPolicy()], Rules(), episode_seeds(11, 0, decks))
    own = np.arange(2)
    return stats.results(deals.scores, own).mean(axis=0), stats.deck_margins(deals.scores)


def test_three_wins_two_draws_five_losses_are_a_score_of_two_fifths():
    # Two games a deck: the policy is on side 0, then on side 1.
    games = [(70, 50)] * 3 + [(60, 60)] * 2 + [(40, 80)] * 5
    first = [games[i] for i in range(0, 10, 2)]
    second = [games[i][::-1] for i in range(1, 10, 2)]
    match = summarize(np.array([first, second], np.int16), "a", "b")
    assert (match.wins, match.draws, match.losses) == (3, 2, 5)
    assert match.score.value == pytest.approx(0.40)
    assert match.margin.value == pytest.approx((3 * 20 - 5 * 40) / 10)


def test_draws_are_never_wins():
    match = summarize(np.full((2, 9, 2), 60, np.int16), "a", "b")
    assert (match.wins, match.draws, match.losses) == (0, 18, 0)
    assert match.score.value == 0.5
    three = summarize(np.full((3, 9, 3), 40, np.int16), "a", "b")
    assert (three.wins, three.draws, three.losses) == (0, 27, 0)


@pytest.mark.parametrize(
    ("points", "result"),
    [
        ((41, 40, 39), (1, 0, 0)),
        ((45, 45, 30), (0.5, 0.5, 0.5)),
        ((20, 50, 50), (0.5, 0.5, 0.5)),
        ((30, 30, 60), (0, 0, 1)),
        ((61, 59), (1, 0)),
        ((60, 60), (0.5, 0.5)),
    ],
)
def test_the_strictly_highest_score_wins_and_a_shared_first_place_is_drawn(points, result):
    scores = np.array([[points]], np.int16)
    for side, expected in enumerate(result):
        assert stats.results(scores, np.array([side]))[0, 0] == expected


def test_the_margin_with_three_sides_is_against_the_mean_of_the_others():
    scores = np.array([[(60, 40, 20)], [(60, 40, 20)], [(60, 40, 20)]], np.int16)
    assert stats.margins(scores, np.arange(3)).tolist() == [[30], [0], [-30]]
    assert stats.deck_margins(scores).tolist() == [0]


@given(st.integers(2, 3), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_margins_are_those_of_a_plain_loop(sides, rotations, decks, seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 121, (rotations, decks, sides)).astype(np.int16)
    own = rng.integers(0, sides, rotations)
    expected = [
        [
            row[own[r]] - sum(int(p) for s, p in enumerate(row) if s != own[r]) / (sides - 1)
            for row in scores[r].astype(int)
        ]
        for r in range(rotations)
    ]
    assert np.allclose(stats.margins(scores, own), expected)


def test_the_interval_is_that_of_normal_theory():
    values = np.array([1.0, 2.0, 4.0, 9.0])
    estimate = stats.mean_interval(values)
    low, high = scipy_stats.norm.interval(0.95, values.mean(), scipy_stats.sem(values))
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((4, low, high))


def test_one_deck_has_no_interval_and_says_so_in_json():
    match = summarize(np.full((2, 1, 2), 60, np.int16), "a", "b")
    assert np.isnan(match.score.low)
    values = match.to_dict()
    assert values["margin"] == {"value": 0, "low": None, "high": None}
    assert values["effective_deals"] is None


def test_no_score_is_above_1_or_below_0_within_its_interval():
    won = np.array([[(80, 40)] * 4 + [(60, 60)], [(40, 80)] * 5], np.int16)
    score = summarize(won, "a", "b").score
    assert score.value == 0.95
    assert score.low < 0.9
    assert score.high == 1
    assert summarize(won[::-1], "b", "a").score.low == 0


@pytest.mark.parametrize(("which", "decks"), [(0, 200), (1, 200), (1, 50)])
def test_95_percent_intervals_cover_the_truth_in_93_to_97_percent(population, which, decks):
    values, rng = population[which], np.random.default_rng(1)
    truth, covered = values.mean(), 0
    for _ in range(EXPERIMENTS):
        estimate = stats.mean_interval(rng.choice(values, decks))
        covered += estimate.low <= truth <= estimate.high
    assert 0.93 <= covered / EXPERIMENTS <= 0.97


def test_effective_deals_of_independent_games_are_their_number():
    values = np.random.default_rng(0).normal(5, 30, (2, 20_000))
    assert stats.effective_deals(values) == pytest.approx(40_000, rel=0.03)


def test_effective_deals_count_what_mirroring_saves():
    rng = np.random.default_rng(0)
    luck, noise = rng.normal(0, 30, 20_000), rng.normal(0, 10, (2, 20_000))
    values = np.stack([luck, -luck]) + noise  # the cards cancel: 10 times 100 is 1000
    assert stats.effective_deals(values) == pytest.approx(400_000, rel=0.05)
    assert stats.effective_deals(np.stack([luck, -luck])) == float("inf")
    assert np.isnan(stats.effective_deals(np.zeros((2, 1))))


# -------------------------------------------------------------------------------- sequential test


@pytest.mark.parametrize("truth", [0.0, 4.0])
def test_the_sequential_test_errs_in_at_most_5_percent(population, truth):
    margins, rng = population[1] - population[1].mean() + truth, np.random.default_rng(2)
    wrong, decks = 0, []
    experiments = 5 * EXPERIMENTS
    for _ in range(experiments):
        test = stats.sprt(rng.choice(margins, 3000), 0.0, 4.0)
        assert test.decision in ("low", "high")
        wrong += test.decision != ("low" if truth == 0 else "high")
        decks.append(test.decks)
    # The simulation's own standard error is 0.2 %.
    assert 0.03 <= wrong / experiments <= 0.055
    assert np.mean(decks) < 300  # a fixed number of decks would need (2 * 1.645 * 27 / 4)² = 493


def test_the_sequential_test_is_decided_by_the_first_crossing_and_not_by_what_follows():
    values = np.random.default_rng(3).normal(1.0, 5.0, 3000)
    test = stats.sprt(values, 0.0, 1.0)
    assert test.decision == "high"
    assert stats.sprt(values[: test.decks], 0.0, 1.0) == test
    assert stats.sprt(values[: test.decks - 1], 0.0, 1.0).decision is None
    assert stats.sprt(np.concatenate([values, -values * 9]), 0.0, 1.0) == test


def test_the_log_likelihood_ratio_is_that_of_two_fitted_normals():
    values = np.random.default_rng(4).normal(0.4, 2.0, 30)
    logs = []
    for mean in (0.0, 1.0):
        spread = np.sqrt(np.mean((values - mean) ** 2))
        logs.append(scipy_stats.norm.logpdf(values, mean, spread).sum())
    assert stats.sprt(values, 0.0, 1.0).llr == pytest.approx(logs[1] - logs[0])


def test_the_sequential_test_waits_for_its_least_number_of_decks():
    values = np.random.default_rng(4).normal(50.0, 1.0, 100)
    test = stats.sprt(values, 0.0, 40.0)
    assert (test.decision, test.decks) == ("high", stats.MIN_DECKS)
    assert test.llr > 10 * test.bounds[1]
    undecided = stats.sprt(values[: stats.MIN_DECKS - 1], 0.0, 40.0)
    assert (undecided.decision, undecided.decks) == (None, stats.MIN_DECKS - 1)


def test_a_policy_against_itself_is_no_better():
    assert stats.sprt(np.zeros(100), 0.0, 1.0).decision == "low"


@pytest.mark.parametrize("means", [(1, 0), (1, 1), (0, float("inf")), (float("nan"), 1)])
def test_a_sequential_test_of_nothing_is_refused(means):
    with pytest.raises(ValueError, match="the first mean is the smaller one"):
        stats.sprt(np.zeros(10), *means)
