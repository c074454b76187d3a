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

from briscola_env import __version__
from briscola_env.arena.entrants import load_policy, source_hash, table_rules
from briscola_env.arena.match import Match, evaluate, finite, summarize
from briscola_env.arena.play import join_deals, play_parts
from briscola_env.arena.report import ProgressBar, print_table
from briscola_env.checkpoint import BEST, Checkpoint, replace_file
from briscola_env.policies import Policy, checkpoint_of
from briscola_env.policies.exact import ExactEndgame
from briscola_env.policies.netsearch import ModelSearch
from briscola_env.policies.network import NetworkPolicy, from_checkpoint, policy_of
from briscola_env.rng import child_seed
from briscola_env.rules import Rules
from training.config import load_config
from training.learner import Learner, make_learner
from training.selfplay import iterate, to_checkpoint

REPORT = "exploit.json"
PICK_DECKS, PICK_EVERY = 1000, 10  # decks that compare snapshots; iterations between two
PPO_SHARE = 2 / 3  # of the time; search has the rest
LEARNING_SHARE = 0.9 * PPO_SHARE  # the decks that are reported have what is left of it
WORLDS = 256  # sampled for a decision of the search
_PICKING, _REPORTING = 100, 101  # what child seeds are for, beside those of the learner
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
        network = target.checkpoint and NetworkPolicy(target.checkpoint, target.rules, "search")
        search: Policy = ModelSearch("search", target.policy, network, WORLDS, target.exact)
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
