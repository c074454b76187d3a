"""Numbers with error bars from decks that were played in every rotation.

The unit of all statistics is the deck: games with the same cards are not independent, their mean
is one observation. Policy 0's result on a deck is the mean over the rotations; decks are
independent of each other.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean and the ends of its interval; the ends are NaN where one deck cannot tell."""

    value: float
    low: float
    high: float


def own_and_others(scores: NDArray[np.int16], own: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Card points of one side and of the others, float [R, D] and [R, D, sides-1].

    scores: int16 [R, D, sides]. own: int [R], the side in question in each rotation.
    """
    rotations, _, sides = scores.shape
    rows = np.arange(rotations)
    others = np.array([[s for s in range(sides) if s != side] for side in own]).T
    points = scores.astype(np.float64)
    return points[rows, :, own], np.stack([points[rows, :, other] for other in others], axis=-1)


def margins(scores: NDArray[np.int16], own: NDArray[np.int64]) -> Floats:
    """Own card points less the mean of the other sides', float [R, D]; see `own_and_others`."""
    mine, others = own_and_others(scores, own)
    margin: Floats = mine - others.mean(axis=-1)
    return margin


def results(scores: NDArray[np.int16], own: NDArray[np.int64]) -> Floats:
    """1 won, 1/2 drawn, 0 lost, float [R, D]; see `own_and_others`.

    The side with strictly the most points has won; if two share that, the deal is drawn for all.
    """
    mine, others = own_and_others(scores, own)
    ordered = np.sort(scores, axis=-1)
    drawn = ordered[..., -1] == ordered[..., -2]
    return np.where(drawn, 0.5, (mine > others.max(axis=-1)).astype(np.float64))


def deck_margins(scores: NDArray[np.int16]) -> Floats:
    """Policy 0's mean margin on each deck, float [D], from deals in the seating of a match.

    scores: int16 [sides, D, sides]; row r has policy 0 on side r.
    """
    means: Floats = margins(scores, np.arange(len(scores))).mean(axis=0)
    return means


def mean_interval(values: Floats, confidence: float = CONFIDENCE) -> Estimate:
    """Mean of independent observations [D], with the interval of normal theory: mean ± z s/√D."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, float("nan"), float("nan"))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    half = z * float(values.std(ddof=1)) / len(values) ** 0.5
    return Estimate(mean, mean - half, mean + half)


def effective_deals(values: Floats) -> float:
    """How many single deals with cards of their own would give the mean as exactly.

    values: float [R, D], one policy's margin in each game. It is the variance of one game over the
    squared standard error of the mean of the decks; infinite if every deck has the same mean.
    """
    means = values.mean(axis=0)
    if len(means) < 2:
        return float("nan")
    error = float(means.var(ddof=1)) / len(means)
    single = float(values.var(ddof=1))
    return single / error if error > 0 else float("inf")


MIN_DECKS = 32
"""A sequential test does not end before: until then the spread is not known well enough."""


@dataclass(frozen=True)
class Sprt:
    """State of a sequential test of "the mean is `low`" against "the mean is `high`".

    decision: `low` or `high`, the hypothesis that is accepted, or None. llr: the log-likelihood
    ratio, high over low, after `decks` decks. bounds: where it decides.
    """

    low: float
    high: float
    decision: str | None
    decks: int
    llr: float
    bounds: tuple[float, float]


def sprt(values: Floats, low: float, high: float, alpha: float = 0.05, beta: float = 0.05) -> Sprt:
    """The sequential test after these decks [D], in order; it ends at the first that decides.

    values: one policy's margin on each deck. alpha: chance to accept `high` though `low` is true;
    beta: the opposite; the bounds log(beta) and -log(alpha) keep them, whatever the means are.
    ValueError unless low < high.

    Generalised sequential probability ratio test (Wald, "Sequential tests of statistical
    hypotheses", 1945; Li, Liu, Ying, "Generalized sequential probability ratio test for separate
    families of hypotheses", 2014) for a normal mean whose unknown variance is fitted under either
    hypothesis: llr = D/2 log((s² + (m - low)²) / (s² + (m - high)²)), with mean m and variance s².
    """
    if not -np.inf < low < high < np.inf:
        raise ValueError(f"sprt {low:g} {high:g}: the first mean is the smaller one")
    bounds = (float(np.log(beta)), float(-np.log(alpha)))
    n = np.arange(1, len(values) + 1)
    mean = np.cumsum(values) / n
    variance = np.maximum(np.cumsum(np.square(values)) / n - mean**2, 1e-9)
    llr = n / 2 * np.log((variance + (mean - low) ** 2) / (variance + (mean - high) ** 2))
    decided = np.flatnonzero(((llr <= bounds[0]) | (llr >= bounds[1])) & (n >= MIN_DECKS))
    if len(decided) == 0:
        return Sprt(low, high, None, len(values), float(llr[-1]) if len(llr) else 0.0, bounds)
    end = int(decided[0])
    decision = "high" if llr[end] > 0 else "low"
    return Sprt(low, high, decision, end + 1, float(llr[end]), bounds)
