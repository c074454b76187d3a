"""Ratings from many pairings: Bradley and Terry's model with draws, intervals by bootstrap.

R. A. Bradley, M. E. Terry, "Rank analysis of incomplete block designs", 1952; draws by R. R.
Davidson, "On extending the Bradley-Terry model to accommodate ties", 1970. With strengths p and a
draw parameter v, a side wins against another with chance p1 / (p1 + p2 + v sqrt(p1 p2)). Three
sides: p1 / (p1 + p2 + p3 + v (p1 p2 p3)^(1/3)), any shared first place being one draw. A rating is
400 log10 p, with mean 0: 400 points more are odds of ten to one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briscola_env.arena.stats import CONFIDENCE, Floats

ELO = 400 / np.log(10)
_MAX_STEPS, _TOLERANCE, _LONGEST_STEP = 100, 1e-9, 2.0
_DRAWN_AT_ONCE = 4_000_000  # decks, over all bootstrap samples


@dataclass(frozen=True)
class Ratings:
    """Ratings [P] of P policies and the ends of their 95 % intervals, in rating points.

    superiority: [P, P], the likelihood that the first is stronger than the second: the share of
    bootstrap samples in which its rating is higher.
    """

    rating: Floats
    low: Floats
    high: Floats
    superiority: Floats


def _design(pairs: NDArray[np.int64], policies: int, sides: int) -> tuple[Floats, Floats]:
    """Log-linear form of the model: the outcome o of match m has weight exp(x[m, o] b + c[m, o]).

    b: log strengths and the log of the draw parameter. Returns x, [M, 3, policies + 1], and c,
    [M, 3]; the outcomes are: first wins, drawn, second wins.
    """
    x, c = np.zeros((len(pairs), 3, policies + 1)), np.zeros((len(pairs), 3))
    matches = np.arange(len(pairs))
    x[matches, 0, pairs[:, 0]] = 1
    x[matches, 1, pairs[:, 0]] = 1 / sides
    x[matches, 1, pairs[:, 1]] = (sides - 1) / sides
    x[:, 1, policies] = 1
    x[matches, 2, pairs[:, 1]] = 1
    c[:, 2] = np.log(sides - 1)  # the second policy plays that many sides
    return x, c


def fit(
    pairs: NDArray[np.int64], counts: Floats, policies: int, sides: int = 2, prior: float = 1.0
) -> Floats:
    """Ratings, float [..., policies], of greatest likelihood.

    pairs: int [M, 2], who met: the first policy alone on one side, the second on all others.
    counts: [..., M, 3], games that the first won, that were drawn, that the second won. prior: so
    many games are added to each pair, a third to each outcome, so that nobody's rating is infinite.
    Newton's method on a concave likelihood. ValueError if a policy is not connected to the others.
    """
    _require_connected(pairs, policies)
    x, c = _design(pairs, policies, sides)
    rows = x.reshape(-1, policies + 1)  # one an outcome of a match
    counts = np.asarray(counts, np.float64) + prior / 3
    games = counts.sum(axis=-1)
    b = np.zeros((*counts.shape[:-2], policies + 1))
    # Strengths count only relative to each other: hold their sum in place.
    gauge = np.zeros((policies + 1, policies + 1))
    gauge[:policies, :policies] = 1
    for _ in range(_MAX_STEPS):
        weights = (b @ rows.T).reshape(counts.shape) + c
        chances = np.exp(weights - weights.max(axis=-1, keepdims=True))
        chances /= chances.sum(axis=-1, keepdims=True)
        expected = games[..., None] * chances
        gradient = (counts - expected).reshape(*b.shape[:-1], -1) @ rows
        mean = (chances[..., None, :] @ x)[..., 0, :]
        hessian = rows.T @ (expected.reshape(*b.shape[:-1], -1, 1) * rows)
        hessian -= np.swapaxes(mean, -1, -2) @ (games[..., None] * mean)
        step = np.linalg.solve(hessian + gauge, gradient[..., None])[..., 0]
        longest = np.abs(step).max(axis=-1, keepdims=True)
        b += step * np.minimum(1, _LONGEST_STEP / np.maximum(longest, _LONGEST_STEP))
        if longest.max(initial=0) < _TOLERANCE:
            break
    strengths = b[..., :policies]
    rating: Floats = ELO * (strengths - strengths.mean(axis=-1, keepdims=True))
    return rating


def _require_connected(pairs: NDArray[np.int64], policies: int) -> None:
    group = np.arange(policies)
    for first, second in pairs:
        group[group == group[first]] = group[second]
    if len(np.unique(group)) > 1:
        raise ValueError("ratings: some policies have met none of the others, even indirectly")


def ratings(
    pairs: NDArray[np.int64],
    outcomes: Floats,
    policies: int,
    sides: int = 2,
    bootstraps: int = 1000,
    seed: int = 0,
) -> Ratings:
    """Ratings with percentile intervals from resampling the decks.

    pairs: int [M, 2], see `fit`. outcomes: [M, D, 3], games of each outcome on each deck, all 0 for
    a deck that a pair did not play. A bootstrap sample draws D decks with replacement, the same
    ones for all pairs, as all pairs play the same cards.
    """
    matches, decks, _ = outcomes.shape
    by_deck = outcomes.transpose(1, 0, 2).reshape(decks, matches * 3)
    rng = np.random.default_rng(seed)
    samples, at_once = [], max(1, _DRAWN_AT_ONCE // decks)
    for first in range(0, bootstraps, at_once):
        n = min(at_once, bootstraps - first)
        drawn = rng.integers(decks, size=(n, decks))
        times = np.stack([np.bincount(row, minlength=decks) for row in drawn]).astype(np.float64)
        counts = (times @ by_deck).reshape(n, matches, 3)
        samples.append(fit(pairs, counts, policies, sides))
    sample = np.concatenate(samples)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(sample, (tail, 1 - tail), axis=0)
    above = (sample[:, :, None] > sample[:, None, :]).mean(axis=0)
    level = (sample[:, :, None] == sample[:, None, :]).mean(axis=0)
    rating = fit(pairs, outcomes.sum(axis=1), policies, sides)
    return Ratings(rating, low, high, above + level / 2)


def cycle(beats: Sequence[Sequence[bool]] | NDArray[np.bool_]) -> list[int] | None:
    """A shortest circle of policies each of which beats the next, None if there is none.

    beats: [P, P], True where the first beats the second beyond doubt.
    """
    matrix = np.asarray(beats, np.bool_)
    best: list[int] | None = None
    for start in range(len(matrix)):
        paths = {start: [start]}
        frontier = [start]
        while frontier:
            nodes, frontier = frontier, []
            for node in nodes:
                for after in np.flatnonzero(matrix[node]).tolist():
                    if after == start and (best is None or len(paths[node]) < len(best)):
                        best = paths[node]
                    if after not in paths:
                        paths[after] = [*paths[node], after]
                        frontier.append(after)
    return best
