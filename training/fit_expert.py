"""Fit the expert's weights by evolution strategies in self-play.

    python -m training.fit_expert --players 2 --iterations 600 --seed 1 --out weights.json

Every iteration tries random steps both ways from the present weights: `w + e` plays `w - e` on
mirrored decks inside one kernel. The mean of `margin * e` points uphill (Salimans et al.,
"Evolution strategies as a scalable alternative to reinforcement learning", 2017) and Adam (Kingma,
Ba, 2015) follows it with a rate that falls to zero. The result is the mean of the last 30 % of the
steps. The same arguments give the same weights. What vague signals are worth is not fitted: these
deals have no signals.
"""

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.dealing import deal_one
from briscola_env.engine import step_one
from briscola_env.jit import kernel
from briscola_env.policies.expert import WEIGHTS, expert_move_one, expert_weights
from briscola_env.policies.search import margin_one
from briscola_env.rng import child_seed
from briscola_env.rules import PLAYER_COUNTS, Rules
from briscola_env.state import new_states

PAIRS, DECKS = 32, 256  # steps tried in an iteration, and decks for each
SIGMA = 0.5  # size of the steps tried, in units of _UNITS
RATE = 0.1  # of Adam at the start, in the same units
BETA_1, BETA_2 = 0.9, 0.99
AVERAGED = 0.3  # share of the last steps that make the result

_UNITS = {
    "last_draw_strength": 0.3,
    "lost_point": 0.1,
    "lead_share": 0.2,
    "many_trumps": 0.5,
    "follow_base": 0.15,
    "ruff_base": 0.15,
    "partner_base": 0.15,
    "follow_slope": 0.03,
    "ruff_slope": 0.03,
    "partner_slope": 0.03,
}
"""A step's unit where it is not one card point."""


@kernel
def play_mirrored(blank: Any, seed: Any, first: Any, weights: Any, margins: Any) -> None:
    """Margins of weights[0] against weights[1] into `margins` [decks], in card points.

    blank: one record with the rules. Deck k is dealt from child seed first + k of `seed`, once for
    each side that weights[0] can sit on; the margin is the mean.
    """
    work = blank.copy()
    state, sides = work[0], np.int64(blank[0]["sides"])
    for k in range(len(margins)):
        margins[k] = 0.0
        for side in range(sides):
            work[0] = blank[0]
            deal_one(state, child_seed(seed, first + k), 0)
            while state["current_player"] >= 0:
                other = 0 if state["current_player"] % sides == side else 1
                step_one(state, expert_move_one(state, weights[other]))
            margins[k] += margin_one(state["scores"], sides, side) / sides


@kernel
def _play_pairs(blank: Any, seed: Any, first: Any, pairs: Any, margins: Any, out: Any) -> None:
    """Mean margin of pairs[p, 0] against pairs[p, 1] into out[p]."""
    for p in range(len(pairs)):
        play_mirrored(blank, seed, first + p * len(margins), pairs[p], margins)
        out[p] = margins.mean()


def start_weights(players: int) -> NDArray[Any]:
    """A plausible table to start from, WEIGHTS [1]."""
    weights = np.zeros(1, WEIGHTS)
    strength = np.arange(10)
    weights["trump_early"] = 3 + strength * 11 / 9
    weights["trump_late"] = 5 + strength * 19 / 9
    for field in ("plain_early", "plain_late"):
        weights[field] = [0, 0.1, 0.2, 0.3, 0.4, 1, 1.5, 2, 4, 8]
    values = {
        "lead_early": 2.5,
        "lead_late": 2.5,
        "last_draw": 3,
        "last_draw_strength": 1.85,
        "follow_base": 0.6,
        "follow_slope": 0.1,
        "ruff_base": 0,
        "ruff_slope": 0.1,
        "carico_loss": 8,
        "figure_loss": 1,
        "own_carico": 1,
        "lost_point": 0.5 if players == 3 else 1,
    }
    if players > 3:
        values |= {"partner_adds": 1, "partner_base": 0.5, "partner_slope": 0.05}
        values |= {"no_trump_said": 0.5, "carico_said": 2}
    for field, value in values.items():
        weights[field] = value
    return weights


def _units(players: int) -> NDArray[np.float64]:
    """The unit of each weight, [weights]; 0 for those that are not fitted."""
    units = np.ones(1, WEIGHTS)
    for field, unit in _UNITS.items():
        units[field] = unit
    fixed = ["no_trump_said", "carico_said"]
    if players < 4:
        fixed += ["partner_adds", "partner_base", "partner_slope"]
    for field in fixed:
        units[field] = 0
    return units.view(np.float64)


def measure(players: int, pair: NDArray[Any], decks: int, seed: int) -> tuple[float, float]:
    """Mean margin of pair[0] against pair[1] and half its 95 % interval, over mirrored decks."""
    margins = np.zeros(decks)
    play_mirrored(new_states(Rules(players=players), 1), np.uint64(seed), 0, pair, margins)
    return float(margins.mean()), float(1.96 * margins.std() / np.sqrt(decks))


def fit(players: int, iterations: int, seed: int, start: NDArray[Any]) -> NDArray[Any]:
    """Fitted weights, WEIGHTS [1]; prints how they do against `start` [1] every 100 iterations."""
    rng = np.random.default_rng(seed)
    units, weights = _units(players), start.view(np.float64).copy()
    mean, square, total = np.zeros(len(units)), np.zeros(len(units)), np.zeros(len(units))
    blank, margins, out = new_states(Rules(players=players), 1), np.zeros(DECKS), np.zeros(PAIRS)
    averaged, began = max(1, round(AVERAGED * iterations)), time.perf_counter()
    for k in range(iterations):
        steps = rng.standard_normal((PAIRS, len(units)))
        tried = weights + SIGMA * units * np.stack([steps, -steps], axis=1)
        pairs = tried.view(WEIGHTS)[..., 0]
        _play_pairs(blank, np.uint64(seed), k * PAIRS * DECKS, pairs, margins, out)
        gradient = (out[:, None] * steps).mean(axis=0) / (2 * SIGMA)
        mean = BETA_1 * mean + (1 - BETA_1) * gradient
        square = BETA_2 * square + (1 - BETA_2) * gradient**2
        unbiased = mean / (1 - BETA_1 ** (k + 1))
        spread = np.sqrt(square / (1 - BETA_2 ** (k + 1))) + 1e-8
        weights += RATE * (1 - k / iterations) * units * unbiased / spread
        if k >= iterations - averaged:
            total += weights
        if (k + 1) % 100 == 0:
            pair = np.concatenate([weights.view(WEIGHTS), start])
            margin, half = measure(players, pair, 5_000, seed + 1)
            seconds = time.perf_counter() - began
            print(f"{k + 1:5d}  {seconds:5.0f} s  {margin:+.2f} ±{half:.2f} v start", flush=True)
    return (total / averaged).view(WEIGHTS)


def to_table(weights: Any) -> dict[str, Any]:
    """One WEIGHTS record as plain values with two decimals, for JSON."""
    return {name: np.round(weights[name], 2).tolist() for name in WEIGHTS.names or ()}


def format_tables(tables: dict[str, Any]) -> str:
    """The tables as JSON, a weight a line."""
    text = json.dumps(tables, indent=1)
    return re.sub(r"\[[^\]]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def main() -> None:
    """Fit one number of players and write its weights into a JSON file, beside what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--players", type=int, choices=PLAYER_COUNTS, required=True)
    parser.add_argument("--iterations", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="expert", help="which table of the file to write")
    parser.add_argument("--start", help="start from the packaged table of that name")
    parser.add_argument("--out", type=Path, required=True, help="JSON file")
    options = parser.parse_args()
    start = start_weights(options.players)
    if options.start:
        start = expert_weights(options.start)[[options.players]]
    fitted = fit(options.players, options.iterations, options.seed, start)
    tables = json.loads(options.out.read_text()) if options.out.exists() else {}
    tables.setdefault(options.name, {})[str(options.players)] = to_table(fitted[0])
    options.out.write_text(format_tables(tables))


if __name__ == "__main__":
    main()
