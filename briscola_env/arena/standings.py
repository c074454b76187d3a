"""What a tournament says: ratings, the cross table, and whether the ratings can be believed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briscola_env.arena import stats
from briscola_env.arena.bradley_terry import Ratings, cycle, ratings
from briscola_env.arena.match import Match, summarize
from briscola_env.arena.stats import Floats


@dataclass(frozen=True)
class Standings:
    """Results of P policies.

    labels: names in the tournament's order; other fields speak of places in it. order: from the
    strongest to the weakest. matches: the result of the first policy against the second, both ways,
    for all that met; with three players the first sat alone against two of the second. margins: of
    each policy, card points a game, in all these games. cycle: policies each of which beats the
    next beyond doubt (95 %), and the last the first: then no ratings can be right; None if there is
    none. upsets: pairs of which the first beats the second beyond doubt and is rated lower.
    """

    labels: Sequence[str]
    sides: int
    ratings: Ratings
    order: Sequence[int]
    matches: dict[tuple[int, int], Match]
    margins: Sequence[Floats]
    cycle: Sequence[int] | None
    upsets: Sequence[tuple[int, int]]

    def mean_score(self, policy: int) -> float:
        """Wins and half the draws, a game, over all its opponents, each with the same weight."""
        return float(np.mean([m.score.value for (i, _), m in self.matches.items() if i == policy]))

    def mean_margin(self, policy: int) -> float:
        """Card points a game over all its opponents, each with the same weight."""
        return float(np.mean([m.margin.value for (i, _), m in self.matches.items() if i == policy]))


def standings(
    labels: Sequence[str], pairs: NDArray[np.int64], scores: Sequence[NDArray[np.int16]]
) -> Standings:
    """Sum up the games of each pair; policies that have met nobody are left out.

    pairs: int [M, 2], who met, as in `Tournament.pairs`. scores: of each pair, int16 [sides, D,
    sides] as in `match.summarize`, one deck at least; D may differ.
    """
    present = np.unique(pairs)
    labels, pairs = [labels[i] for i in present], np.searchsorted(present, pairs)
    sides = scores[0].shape[-1]
    own, n = np.arange(sides), len(labels)
    views = {tuple(pair): games for pair, games in zip(pairs.tolist(), scores, strict=True)}
    if sides == 2:  # the same games as the other policy sees them
        views |= {(j, i): games[::-1] for (i, j), games in views.items()}
    matches, beats = {}, np.zeros((n, n), np.bool_)
    margins: list[list[Floats]] = [[] for _ in labels]
    outcomes = np.zeros((len(pairs), max(games.shape[1] for games in scores), 3))
    for (i, j), games in sorted(views.items()):
        matches[i, j] = summarize(games, labels[i], labels[j])
        margins[i].append(stats.margins(games, own).ravel())
        result = stats.results(games, own)
        # A fair share is one win in `sides`; a draw is nobody's.
        gain = np.where(result == 0.5, 0.0, result - 1 / sides).mean(axis=0)
        beats[i, j] |= stats.mean_interval(gain).low > 0
        beats[j, i] |= stats.mean_interval(gain).high < 0
    for m, (i, j) in enumerate(pairs.tolist()):
        result = stats.results(views[i, j], own)
        for k, value in enumerate((1.0, 0.5, 0.0)):
            outcomes[m, : result.shape[1], k] = (result == value).sum(axis=0)
    rated = ratings(pairs, outcomes, n, sides)
    return Standings(
        labels,
        sides,
        rated,
        np.argsort(-rated.rating, kind="stable").tolist(),
        matches,
        [np.concatenate(games) for games in margins],
        cycle(beats),
        [(i, j) for i, j in np.argwhere(beats).tolist() if rated.rating[i] < rated.rating[j]],
    )
