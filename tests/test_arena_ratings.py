"""Ratings against closed forms, a reference fit and simulation."""

import numpy as np
import pytest
from scipy import optimize

from briscola_env.arena.bradley_terry import ELO, cycle, fit, ratings

PAIRS = np.array([(i, j) for i in range(5) for j in range(i)])
BOTH_WAYS = np.array([(i, j) for i in range(4) for j in range(4) if i != j])


def chances(strengths, draw, pair, sides):
    """Chances that the first of the pair wins, of a draw, that the second wins, from the paper."""
    first, second = np.exp(strengths[list(pair)])
    tie = np.exp(draw) * (first * second ** (sides - 1)) ** (1 / sides)
    weights = np.array([first, tie, (sides - 1) * second])
    return weights / weights.sum()


def reference_fit(pairs, counts, policies, sides):
    """Greatest likelihood by a general optimiser, the last strength held at 0."""

    def minus_log_likelihood(x):
        strengths = np.append(x[:-1], 0)
        logs = [np.log(chances(strengths, x[-1], pair, sides)) for pair in pairs]
        return -(counts * np.array(logs)).sum() / counts.sum()

    best = optimize.minimize(minus_log_likelihood, np.zeros(policies), method="BFGS", tol=1e-12)
    strengths = np.append(best.x[:-1], 0)
    return ELO * (strengths - strengths.mean())


def test_two_players_are_rated_by_the_odds_of_their_decided_games():
    for won, drawn, lost in ((60, 10, 30), (30, 50, 30), (1, 7, 9)):
        rated = fit(np.array([[0, 1]]), np.array([[won, drawn, lost]]), 2, prior=0)
        expected = 400 * np.log10(won / lost)
        assert rated[0] - rated[1] == pytest.approx(expected, abs=1e-6)
        assert rated.sum() == pytest.approx(0, abs=1e-9)


def test_without_draws_the_model_is_bradley_and_terrys():
    # Three policies in a ring of games: the odds multiply.
    pairs = np.array([[0, 1], [1, 2]])
    rated = fit(pairs, np.array([[30, 0, 10], [20, 0, 10]]), 3, prior=0)
    assert rated[0] - rated[2] == pytest.approx(400 * np.log10(3 * 2), abs=1e-6)


@pytest.mark.parametrize(
    ("pairs", "policies", "sides"), [(PAIRS, 5, 2), (BOTH_WAYS, 4, 3), (PAIRS[:4], 4, 2)]
)
def test_the_fit_is_that_of_a_general_optimiser(pairs, policies, sides):
    rng = np.random.default_rng(policies)
    if len(pairs) == 4:
        pairs = np.array([[0, 1], [0, 2], [3, 0], [1, 2]])
    counts = rng.integers(5, 200, (len(pairs), 3)).astype(float)
    expected = reference_fit(pairs, counts, policies, sides)
    assert fit(pairs, counts, policies, sides, prior=0) == pytest.approx(expected, abs=0.01)


def test_expected_scores_are_the_scores():
    counts = np.random.default_rng(1).integers(5, 200, (len(PAIRS), 3)).astype(float)
    strengths = fit(PAIRS, counts, 5, prior=0) / ELO
    draws = counts[:, 1].sum()
    # The draw parameter is what makes the expected number of draws right.
    games = counts.sum(axis=1)

    def expected(draw):
        return np.array([chances(strengths, draw, p, 2) for p in PAIRS]) * games[:, None]

    draw = optimize.brentq(lambda x: expected(x)[:, 1].sum() - draws, -10, 10)
    for policy in range(5):
        score = sum(
            (table[:, 0] + table[:, 1] / 2)[PAIRS[:, 0] == policy].sum()
            + (table[:, 2] + table[:, 1] / 2)[PAIRS[:, 1] == policy].sum()
            for table in (counts, -expected(draw))
        )
        assert score == pytest.approx(0, abs=1e-4)


def test_many_fits_at_once_are_the_same_as_one_by_one():
    counts = np.random.default_rng(2).integers(0, 50, (6, len(PAIRS), 3)).astype(float)
    together = fit(PAIRS, counts, 5)
    for one, rated in zip(counts, together, strict=True):
        assert fit(PAIRS, one, 5) == pytest.approx(rated, abs=1e-6)


def test_a_policy_that_wins_everything_has_a_finite_rating():
    rated = fit(np.array([[0, 1]]), np.array([[1000, 0, 0]]), 2)
    assert 500 < rated[0] - rated[1] < 5000


def test_policies_that_never_met_are_refused():
    with pytest.raises(ValueError, match="have met none of the others"):
        fit(np.array([[0, 1], [2, 3]]), np.ones((2, 3)), 4)


def simulate(rng, truth, decks):
    """Two games a deck for every pair of PAIRS, float [M, decks, 3]."""
    tables = [chances(truth / ELO, -2.0, pair, 2) for pair in PAIRS]
    return np.stack([rng.multinomial(2, p, size=decks) for p in tables]).astype(float)


def test_ratings_find_the_truth():
    rng, truth = np.random.default_rng(5), np.array([150.0, 40.0, 0.0, -60.0, -130.0])
    rated = ratings(PAIRS, simulate(rng, truth, 4000), 5, bootstraps=200)
    assert rated.rating == pytest.approx(truth, abs=8)
    assert (rated.low < rated.rating).all()
    assert (rated.rating < rated.high).all()
    assert np.array_equal(rated.superiority > 0.99, truth[:, None] > truth[None, :])


def test_95_percent_intervals_of_ratings_cover_the_truth_in_93_to_97_percent():
    rng, truth = np.random.default_rng(6), np.array([30.0, -30.0])
    pair = np.array([[0, 1]])
    table = chances(truth / ELO, -2.0, (0, 1), 2)
    covered, experiments = 0, 2000
    for seed in range(experiments):
        outcomes = rng.multinomial(2, table, size=150)[None].astype(float)
        rated = ratings(pair, outcomes, 2, bootstraps=500, seed=seed)
        covered += rated.low[0] <= truth[0] <= rated.high[0]
    assert 0.93 <= covered / experiments <= 0.97


def test_a_bootstrap_sample_takes_the_same_decks_for_all_pairs():
    # 0 and 1 always get the same results against 2: whatever the decks, they are level.
    results = np.random.default_rng(7).multinomial(2, (0.5, 0.1, 0.4), size=300).astype(float)
    rated = ratings(np.array([[0, 2], [1, 2]]), np.stack([results, results]), 3, bootstraps=100)
    assert rated.rating[0] == pytest.approx(rated.rating[1], abs=1e-6)
    assert np.allclose(rated.low[:2], rated.low[0])
    assert rated.superiority[0, 2] + rated.superiority[2, 0] == 1


def test_ratings_are_the_same_every_time_and_ask_no_global_generator():
    outcomes = simulate(np.random.default_rng(5), np.zeros(5), 100)
    first, second = (ratings(PAIRS, outcomes, 5, bootstraps=100) for _ in range(2))
    assert np.array_equal(first.low, second.low)
    other = ratings(PAIRS, outcomes, 5, bootstraps=100, seed=1)
    assert not np.array_equal(first.low, other.low)


def beats(*pairs, n=5):
    matrix = np.zeros((n, n), bool)
    matrix[tuple(np.array(pairs).T)] = True
    return matrix


def test_a_circle_of_victories_is_found():
    assert sorted(cycle(beats((0, 1), (1, 2), (2, 0)))) == [0, 1, 2]
    found = cycle(beats((0, 1), (1, 2), (2, 3), (3, 4), (4, 1), (0, 4)))
    assert len(found) == 4
    start = found.index(1)
    assert found[start:] + found[:start] == [1, 2, 3, 4]
    assert len(cycle(beats((0, 1), (1, 2), (2, 3), (3, 0), (3, 1)))) == 3


def test_an_order_has_no_circle():
    assert cycle(np.triu(np.ones((6, 6), bool), 1)) is None
    assert cycle(np.zeros((3, 3), bool)) is None
