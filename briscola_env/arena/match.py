"""One policy against another on mirrored decks."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.arena import stats
from briscola_env.arena.play import Deals, join_deals, play_parts
from briscola_env.arena.stats import Estimate
from briscola_env.policies.base import Policy
from briscola_env.rules import Rules

_SPRT_PART = 256  # decks between two looks at a sequential test


@dataclass(frozen=True)
class Match:
    """What `policy` did against `opponent`.

    Each deck was played once with `policy` on each side, `opponent` on all the others. wins, draws,
    losses: games, from the policy's view. score: wins and half the draws, a game. margin: card
    points a game, own side less the mean of the others. Intervals are 95 %, normal theory on the
    means of the decks. effective_deals: see `stats.effective_deals`. games_per_second: None if the
    time is not known.
    """

    policy: str
    opponent: str
    decks: int
    games: int
    wins: int
    draws: int
    losses: int
    score: Estimate
    margin: Estimate
    effective_deals: float
    games_per_second: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; None where a number is not defined."""
        return {key: finite(value) for key, value in asdict(self).items()}


def finite(value: Any) -> Any:
    """The same value with None for every float that JSON does not know."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summarize(
    scores: NDArray[np.int16], policy: str, opponent: str, seconds: float | None = None
) -> Match:
    """The result of D decks, one at least, in the seating of `match_seating`.

    scores: int16 [sides, D, sides], card points by side of the policy, deck and side.
    """
    rotations, decks, sides = scores.shape
    own = np.arange(sides)
    results = stats.results(scores, own)
    margins = stats.margins(scores, own)
    score = stats.mean_interval(results.mean(axis=0))
    games = rotations * decks
    wins, draws, losses = (int((results == value).sum()) for value in (1.0, 0.5, 0.0))
    return Match(
        policy,
        opponent,
        decks,
        games,
        wins,
        draws,
        losses,
        # No score is below 0 or above 1, whatever normal theory says about few decks.
        Estimate(score.value, max(score.low, 0.0), min(score.high, 1.0)),
        stats.mean_interval(margins.mean(axis=0)),
        stats.effective_deals(margins),
        None if seconds is None else games / seconds,
    )


def play_until_decided(
    policies: Sequence[Policy],
    rules: Rules,
    seed: int,
    decks: int,
    means: tuple[float, float],
    history: bool = False,
) -> Iterator[Deals]:
    """Parts of a match, ending with the deck at which `stats.sprt` decides, at most `decks`.

    means: of the margin, in card points, the lower one first (ValueError).
    """
    margins = np.empty(0)
    stats.sprt(margins, *means)  # refuses wrong means before anything is played
    for part in play_parts(policies, rules, seed, decks, None, history, _SPRT_PART):
        margins = np.concatenate([margins, stats.deck_margins(part.scores)])
        test = stats.sprt(margins, *means)
        if test.decision:
            yield part.first(part.decks - (len(margins) - test.decks))
            return
        yield part


def evaluate(policy: Policy, opponent: Policy, rules: Rules, decks: int, seed: int = 0) -> Match:
    """Play the first `decks` decks of an arena seed, each in every rotation, and sum up."""
    deals = join_deals(list(play_parts([policy, opponent], rules, seed, decks)))
    return summarize(deals.scores, policy.name, opponent.name, deals.seconds)
