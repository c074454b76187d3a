"""Exploits of a frozen policy: points a deal that can surely be won from it.

    python -m training.best_response CHECKPOINT --minutes 5

Two exploiters look for them: PPO against the frozen policy, from the frozen network's own weights,
and search that asks the frozen policy what it would do. What they win on fresh decks is a lower
bound: a better exploiter may win more, so a small figure does not say that a policy is safe.
"""

import argparse
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env import __version__
from briscola_env.arena.entrants import load_policy, source_hash, table_rules
from briscola_env.arena.match import Match, evaluate, finite, summarize
from briscola_env.arena.play import join_deals, play_parts
from briscola_env.arena.report import ProgressBar, print_table
from briscola_env.checkpoint import BEST, Checkpoint, replace_file
from briscola_env.engine import step
from briscola_env.information import sample_worlds
from briscola_env.policies import Policy, checkpoint_of
from briscola_env.policies.base import act_where_free, show_turns
from briscola_env.policies.beliefs import turn_back
from briscola_env.policies.exact import ExactEndgame, open_margins
from briscola_env.policies.netsearch import PRIOR_POINTS
from briscola_env.policies.network import NetworkPolicy, from_checkpoint, policy_of
from briscola_env.rng import child_seed
from briscola_env.rules import Rules
from briscola_env.state import States
from training.config import load_config
from training.learner import Learner, make_learner
from training.selfplay import iterate, to_checkpoint

REPORT = "exploit.json"
PICK_DECKS, PICK_EVERY = 1000, 10  # decks that compare snapshots; iterations between two
PPO_SHARE = 2 / 3  # of the time; search has the rest
LEARNING_SHARE = 0.9 * PPO_SHARE  # the decks that are reported have what is left of it
WORLDS, CANDIDATES = 32, 256  # searched in, and sampled to find them
LEAST_WORLDS = 8  # different ones that must be left of the candidates
OWN_TURNS = 2  # that are played after the action, until the critic speaks
_PICKING, _REPORTING = 100, 101  # what child seeds are for, beside those of the learner
_ROWS = 16  # decisions searched at once: their worlds stay in the cache
_PPO_PART, _SEARCH_PART = 512, 16  # decks between two looks at the clock


@dataclass(frozen=True)
class Target:
    """The frozen policy, at its table; checkpoint: where its network is, None if it has none."""

    name: str
    policy: Policy
    rules: Rules
    checkpoint: Checkpoint | None

    @property
    def exact(self) -> bool:
        """Whether it has the last tricks solved: little or nothing is won from it there."""
        return isinstance(self.policy, ExactEndgame)


def load_target(name: str) -> Target:
    """The policy of that name, as it plays in the arena; ValueError as from `load_policy`."""
    rules, path = table_rules([name], {}), checkpoint_of(name)
    checkpoint = Checkpoint.load(path) if path else None
    return Target(name, load_policy(name, rules), rules, checkpoint)


class Clock:
    """The time that there is, and whether Ctrl-C has ended it."""

    def __init__(self, seconds: float, bar: ProgressBar) -> None:
        self.start, self.seconds, self.bar = time.monotonic(), seconds, bar
        self.stopped = False

    def stop(self, *_: object) -> None:
        """End all that runs by this clock; a second Ctrl-C is not caught."""
        self.stopped = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def passed(self) -> float:
        """The share of the time that is gone."""
        gone = time.monotonic() - self.start
        self.bar.show(int(min(gone, self.seconds)), int(self.seconds))
        return gone / self.seconds

    def over(self, share: float) -> bool:
        """True if that share of the time is gone, or if it was ended."""
        return self.passed() >= share or self.stopped


def _seed(seed: int, purpose: int) -> int:
    """The seed for a purpose."""
    return int(child_seed(np.uint64(seed), purpose))


# --------------------------------------------------------------------------------------------- PPO


def make_exploiter(target: Target, seed: int) -> Learner:
    """A learner in a league of the frozen policy alone: none of that one's decisions are learned.

    It has the frozen network's weights, or fresh ones if the target has no network.
    """
    changes = [
        f"rules={json.dumps(target.rules.to_dict())}",
        f"league.fixed={json.dumps({target.name: 1.0})}",
        f"exact_endgame={json.dumps(target.exact)}",
        f"seed={seed}",
    ]
    frozen = target.checkpoint
    if frozen is None:
        return make_learner(load_config(None, changes))
    network = from_checkpoint(frozen, target.name)
    changes += [
        f"frame={frozen.frame}",
        f"show_points={frozen.show_points}",
        f"recent_tricks={frozen.recent_tricks}",
        f"reward_points={frozen.reward_points}",
        *(f"network.{part}={network.sizes[part]}" for part in ("suits", "actor", "critic")),
        "learning_rate=1.0e-3",
        "entropy_coef=0.01",  # it can play already
    ]
    learner = make_learner(load_config(None, changes))
    learner.network.load_state_dict(network.state_dict())
    return learner


def train_exploiter(target: Target, seed: int, clock: Clock, run_dir: Path | None = None) -> Policy:
    """The best snapshot of PPO against the frozen policy, which learns until its time is over.

    The start is the first snapshot; they are compared on decks of their own. run_dir: where the
    best one is saved.
    """
    learner, picking = make_exploiter(target, seed), _seed(seed, _PICKING)
    best: Policy | None = None
    most = -math.inf
    while True:
        last = clock.over(LEARNING_SHARE)
        if last or learner.iteration % PICK_EVERY == 0:
            checkpoint = to_checkpoint(learner)
            snapshot = policy_of(checkpoint, target.rules, "ppo")
            match = evaluate(snapshot, target.policy, target.rules, PICK_DECKS, picking)
            if best is None or match.margin.value > most:
                best, most = snapshot, match.margin.value
                if run_dir:
                    checkpoint.save(run_dir / BEST)
        if last and best:
            return best
        # Rates fall with the time: how many iterations there will be is not known.
        total = round(learner.iteration * LEARNING_SHARE / clock.passed())
        total = max(total, learner.iteration + 1)
        learner.config = learner.config.model_copy(update={"iterations": total})
        iterate(learner)


# ------------------------------------------------------------------------------------------ search


class ModelSearch:
    """Looks one move ahead in sampled worlds, with the frozen policy as model of the other sides.

    Worlds in which it would not have played its latest cards are thrown away, the latest card
    first, as far back as leaves enough of them. In those that are left each action is tried and the
    deal is played on, the other sides by the frozen policy, its own by the frozen network, whose
    critic says what comes after OWN_TURNS more turns. Without a network the deal is played to its
    end by the frozen policy alone. A frozen policy that plays at random is asked for a random card
    each time, so that a world is kept with the right odds.
    """

    name = "search"

    def __init__(self, target: Target) -> None:
        self.frozen, self.exact, checkpoint = target.policy, target.exact, target.checkpoint
        self.network = checkpoint and NetworkPolicy(checkpoint, target.rules, self.name)
        self.own: Policy = self.network or self.frozen

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        return act_where_free(self._search, info_states, legal, seeds, _ROWS)

    def _search(
        self, infos: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """The best action of each of a few decisions."""
        worlds, luck = self._likely_worlds(infos, seeds)
        rows, moves = np.nonzero(legal)
        tried, seats = worlds[rows].ravel(), infos["observer"][rows].astype(np.int64)
        margins = self._play_out(
            tried, np.repeat(moves, WORLDS), np.repeat(seats, WORLDS), luck[rows].ravel()
        )
        scores = np.where(legal, 0.0, -np.inf)
        scores[rows, moves] = margins.reshape(len(rows), WORLDS).mean(axis=1)
        scores += self._prior(infos, legal, seeds)
        best: NDArray[np.int64] = scores.argmax(axis=1)
        return best

    def _prior(
        self, infos: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        """Card points [N, num_actions] for the own policy's opinion, as the worlds are few."""
        if self.network:
            likely = self.network.probabilities(infos, legal).astype(np.float64)
            prior: NDArray[np.float64] = PRIOR_POINTS * np.log(np.maximum(likely, 1e-9))
            return prior
        choices = self.own.act(infos, legal, seeds)
        return PRIOR_POINTS * (np.arange(legal.shape[1]) == choices[:, None])

    def _likely_worlds(
        self, infos: States, seeds: NDArray[np.uint64]
    ) -> tuple[States, NDArray[np.uint64]]:
        """Full states [N, WORLDS] that explain what was played, and a seed for each."""
        worlds, luck = sample_worlds(infos, seeds, CANDIDATES)
        pasts = worlds.ravel().copy()
        pasts["observer"] = np.repeat(infos["observer"], CANDIDATES)
        left, going = np.ones(luck.shape, np.bool_), np.ones(len(infos), np.bool_)
        while going.any():
            rows = np.flatnonzero(left & going[:, None])
            played = np.empty(len(rows), np.int64)
            turn_back(pasts, rows, played)
            going[rows[played < 0] // CANDIDATES] = False  # what there is is explained
            rows, played = rows[played >= 0], played[played >= 0]
            agreeing = left.copy()
            would = _ask(self.frozen, pasts, rows, luck.ravel())
            agreeing.ravel()[rows[would != played]] = False
            going &= agreeing.sum(axis=1) >= LEAST_WORLDS
            left[going] = agreeing[going]
        order = (~left).argsort(axis=1, kind="stable")  # those that are left come first
        places = np.arange(WORLDS) % left.sum(axis=1, keepdims=True)
        chosen = np.take_along_axis(order, places, axis=1)
        return (
            np.take_along_axis(worlds, chosen, axis=1),
            np.take_along_axis(luck, chosen, axis=1),
        )

    def _play_out(
        self,
        states: States,
        moves: NDArray[np.int64],
        seats: NDArray[np.int64],
        luck: NDArray[np.uint64],
    ) -> NDArray[np.float64]:
        """Margins [K], in card points, that `seats` may expect of the deal after moves."""
        each, sides = np.arange(len(states)), int(states["sides"][0])
        own, margins, turns = seats % sides, np.zeros(len(states)), np.zeros(len(states), np.int64)
        acting, choices = each, moves
        while acting.size:
            moved = states[acting]
            step(moved, choices)
            states[acting] = moved
            over = moved["current_player"] < 0
            if self.exact:
                solved = ~over & (moved["trick"] == moved["draws"]) & (moved["table_count"] == 0)
                rows = acting[solved]
                if rows.size:
                    margins[rows] = open_margins(moved[solved])[np.arange(len(rows)), seats[rows]]
                over |= solved
            if self.network:
                turns[acting] += moved["current_player"] == seats[acting]
                judged = ~over & (turns[acting] > OWN_TURNS)
                margins[acting[judged]] = self.network.values(moved[judged], seats[acting[judged]])
                over |= judged
            acting = acting[~over]
            mine = states["current_player"][acting] % sides == own[acting]
            choices = np.empty(len(acting), np.int64)
            choices[mine] = _ask(self.own, states, acting[mine], luck)
            choices[~mine] = _ask(self.frozen, states, acting[~mine], luck)
        points = states["scores"][:, :sides].astype(np.float64)
        ours = points[each, own]
        margins += ours - (points.sum(axis=1) - ours) / (sides - 1)
        return margins


def _ask(
    policy: Policy, states: States, rows: NDArray[np.int64], luck: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """What a policy does in the games `rows` of full states, from what the seats to act know."""
    if not rows.size:
        return np.empty(0, np.int64)
    infos, seats = np.empty(len(rows), states.dtype), np.empty(len(rows), np.int64)
    legal = np.empty((len(rows), int(states["num_actions"][0])), np.bool_)
    show_turns(states, rows, infos, legal, seats)
    # The place in the deal tells one choice's luck from the next.
    return policy.act(infos, legal, luck[rows] + infos["history_length"].astype(np.uint64))


# ------------------------------------------------------------------------------------------ report


@dataclass(frozen=True)
class Finding:
    """What one exploiter won on decks by which nothing was chosen; seconds: with its learning."""

    match: Match
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The match as in the JSON of `briscola evaluate`, and the time."""
        return {**self.match.to_dict(), "seconds": round(self.seconds, 1)}


def measure(
    exploiter: Policy, target: Target, seed: int, decks: int, part: int, over: Callable[[], bool]
) -> Match:
    """The result on so many decks, or fewer if the time is over first; no others are dealt them."""
    policies, parts = [exploiter, target.policy], []
    for deals in play_parts(policies, target.rules, _seed(seed, _REPORTING), decks, size=part):
        parts.append(deals)
        if over():
            break
    deals = join_deals(parts)
    return summarize(deals.scores, exploiter.name, target.name, deals.seconds)


def explore(
    target: Target, seed: int, decks: int, clock: Clock, run_dir: Path | None = None
) -> list[Finding]:
    """Let both exploiters look for what they can find until the clock is over."""
    start = time.monotonic()
    learned = train_exploiter(target, seed, clock, run_dir)
    match = measure(learned, target, seed, decks, _PPO_PART, lambda: clock.over(PPO_SHARE))
    findings = [Finding(match, time.monotonic() - start)]
    if not clock.stopped:
        start = time.monotonic()
        search: Policy = ModelSearch(target)
        search = ExactEndgame(search) if target.exact else search
        match = measure(search, target, seed, decks, _SEARCH_PART, lambda: clock.over(1.0))
        findings.append(Finding(match, time.monotonic() - start))
    return findings


def best_of(findings: Sequence[Finding]) -> Finding:
    """The finding that is surest to win most.

    The larger of two lower ends of 95 % intervals is too high with a chance of 5 % at most: each of
    them is with 2.5 %.
    """
    return max(findings, key=lambda finding: finding.match.margin.low)


def claim(target: Target, findings: Sequence[Finding]) -> str:
    """What was shown, in words."""
    best = best_of(findings).match
    if best.margin.low <= 0:
        return (
            f"No exploit of {target.name} was found beyond doubt. That is not to say that there is "
            "none: this is a lower bound."
        )
    return (
        f"At least {best.margin.low:.1f} card points a deal can be won from {target.name} "
        f"(95 % sure; {best.policy} won {best.margin.value:.1f}). This is a lower bound: a better "
        "exploiter may win more."
    )


def report(
    target: Target, seed: int, findings: Sequence[Finding], interrupted: bool
) -> dict[str, Any]:
    """All that is known, for JSON, laid out as by `briscola evaluate`."""
    digest = source_hash(target.name)
    return {
        "briscola_env": __version__,
        "rules": target.rules.to_dict(),
        "seed": seed,
        "interrupted": interrupted,
        "sha256": {target.name: digest} if digest else {},
        "matches": [finding.to_dict() for finding in findings],
        "lower_bound": finite(max(best_of(findings).match.margin.low, 0.0)),
        "claim": claim(target, findings),
    }


def print_findings(findings: Sequence[Finding]) -> None:
    """A table of what each exploiter won."""
    rows = [
        (
            finding.match.policy,
            f"{finding.match.decks:,}",
            f"{finding.match.margin.value:+.2f}",
            f"{finding.match.margin.low:+.2f} .. {finding.match.margin.high:+.2f}",
            f"{finding.seconds:.0f} s",
        )
        for finding in findings
    ]
    print_table(("method", " decks", " margin", " 95 %", " time"), rows, sys.stdout)


# ------------------------------------------------------------------------------------ command line


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line, checked; ValueError."""
    parser = argparse.ArgumentParser(
        prog="python -m training.best_response",
        description="How many points a deal can surely be won from a frozen policy.",
    )
    parser.add_argument("policy", help="a checkpoint, a run's folder, or any policy's name")
    parser.add_argument("--minutes", type=float, required=True, help="for everything")
    parser.add_argument("--seed", type=int, default=0, help="(0)")
    parser.add_argument(
        "--decks", type=int, default=10_000, help="that are reported on, while time lasts (10000)"
    )
    parser.add_argument("--run-dir", type=Path, help="a new folder: exploiter and report")
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    options = parser.parse_args(arguments)
    if not 0 < options.minutes < math.inf:
        raise ValueError(f"--minutes {options.minutes:g}: a number above 0")
    if not 0 <= options.seed < 2**63:
        raise ValueError(f"--seed {options.seed}: a whole number from 0 on")
    if options.decks < 2:
        raise ValueError(f"--decks {options.decks}: a whole number from 2 on")
    return options


def new_folder(folder: Path) -> None:
    """Make it; ValueError if something is in it already."""
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"--run-dir {folder}: there is something in it; name another folder")
    folder.mkdir(parents=True, exist_ok=True)


@contextmanager
def _clock(seconds: float) -> Iterator[Clock]:
    """A clock with its progress bar, which Ctrl-C stops."""
    with ProgressBar("exploit, seconds", sys.stderr) as bar:
        clock = Clock(seconds, bar)
        previous = signal.signal(signal.SIGINT, clock.stop)
        try:
            yield clock
        finally:
            signal.signal(signal.SIGINT, previous)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code: 2 after a mistake, 130 after Ctrl-C."""
    try:
        options = _options(arguments)
        target = load_target(options.policy)
        if options.run_dir:
            new_folder(options.run_dir)
        with _clock(60 * options.minutes) as clock:
            findings = explore(target, options.seed, options.decks, clock, options.run_dir)
        text = json.dumps(report(target, options.seed, findings, clock.stopped), indent=2)
        if options.run_dir:
            replace_file(options.run_dir / REPORT, f"{text}\n".encode())
    except (ValueError, ImportError, OSError, FloatingPointError) as error:
        print(f"training.best_response: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # the second one
        return 130
    if options.json:
        print(text)
    else:
        print_findings(findings)
        print(claim(target, findings))
    if clock.stopped:
        print("training.best_response: interrupted, this was found so far", file=sys.stderr)
    return 130 if clock.stopped else 0


if __name__ == "__main__":
    sys.exit(main())
