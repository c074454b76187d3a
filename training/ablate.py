"""What a setting does: runs that differ in it alone, several seeds each, as a table.

    python -m training.ablate configs/ablations/settings.yaml --seeds 1 2 3 --out runs/ablations

A run that is there already is not run again, so that the table can be continued; one that was there
with other settings stops it.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from rich.progress import track

from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.policies import make_policy
from training import selfplay
from training.config import ConfigError, load_config


@dataclass(frozen=True)
class Result:
    """One finished run. margin: card points a deal over the opponent; half: 95 % of it."""

    variant: str
    seed: int
    margin: float
    half: float
    minutes: float


def ablate(
    settings: Path, seeds: Sequence[int], opponent: str, decks: int, out: Path
) -> list[Result]:
    """Train every variant with every seed, unless it is there, and measure it.

    ConfigError for settings that cannot be, or not those of a run that is there, before any work.
    """
    plan = yaml.safe_load(settings.read_text())
    changes = {
        (name, seed): [*plan["base"], *variant, f"seed={seed}", "evaluation.every=100000"]
        for name, variant in plan["variants"].items()
        for seed in seeds
    }
    for (name, seed), these in changes.items():
        config, run_dir = load_config(None, these), out / f"{name}-{seed}"
        if (run_dir / LAST).exists() and load_config(run_dir / selfplay.CONFIG) != config:
            raise ConfigError(f"{run_dir} has a run with other settings: name another --out")
    results = []
    for (name, seed), these in track(changes.items(), description="ablations"):
        run_dir = out / f"{name}-{seed}"
        if not (run_dir / LAST).exists():
            learner = selfplay.begin(run_dir, None, these)
            while learner.iteration < learner.config.iterations:
                selfplay.iterate(learner)
            selfplay.write_config(learner.config, run_dir)
            selfplay.to_checkpoint(learner).save(run_dir / LAST)
        rules = Checkpoint.load(run_dir / LAST).rules
        policy, yardstick = make_policy(str(run_dir / LAST), rules), make_policy(opponent, rules)
        margin = evaluate(policy, yardstick, rules, decks, seed=1).margin
        minutes = Checkpoint.load(run_dir / LAST).training["seconds"] / 60
        results.append(Result(name, seed, margin.value, margin.value - margin.low, minutes))
    return results


def table(results: Sequence[Result], opponent: str) -> str:
    """The results in Markdown: a line a variant, with the mean over seeds."""
    lines = [
        f"| variant | margin over `{opponent}`, by seed | mean | minutes a run |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(result.variant for result in results):
        own = [result for result in results if result.variant == name]
        margins = ", ".join(f"{result.margin:+.2f} ±{result.half:.2f}" for result in own)
        mean = np.mean([result.margin for result in own])
        minutes = np.mean([result.minutes for result in own])
        lines.append(f"| {name} | {margins} | {mean:+.2f} | {minutes:.1f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.ablate", description=__doc__)
    parser.add_argument("settings", type=Path, help="a file like configs/ablations/settings.yaml")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--against", default="expert-v1")
    parser.add_argument("--decks", type=int, default=5000)
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"))
    options = parser.parse_args(arguments)
    try:
        results = ablate(
            options.settings, options.seeds, options.against, options.decks, options.out
        )
    except (ValueError, OSError, KeyError, FloatingPointError) as error:
        print(f"training.ablate: {error}", file=sys.stderr)
        return 2
    print(table(results, options.against))
    return 0


if __name__ == "__main__":
    sys.exit(main())
