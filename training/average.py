"""The mean of several runs' weights, as one checkpoint.

    python -m training.average runs/{a,b}/last.safetensors --out runs/mean.safetensors

Runs that begin with the same weights (`--set start=...`) and go on with other seeds end near one
another, each with errors of its own; their mean keeps what they agree on (Wortsman et al., Model
soups, 2022). docs/results.md has what it is worth here.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from briscola_env.checkpoint import Checkpoint
from briscola_env.policies.network import from_checkpoint
from briscola_env.rules import CheckpointError


def average(checkpoints: Sequence[Checkpoint]) -> Checkpoint:
    """The mean of their weights; CheckpointError unless they are of one network and game.

    What it says of its training is what each of them says of its own.
    """
    first = checkpoints[0]
    for other in checkpoints[1:]:
        for field in ("rules", "frame", "show_points", "exact_endgame", "reward_points", "network"):
            has, needs = getattr(other, field), getattr(first, field)
            if has != needs:
                raise CheckpointError(f"they are not of one network: {field} {has} and {needs}")
    weights = {
        name: np.mean([each.weights[name] for each in checkpoints], axis=0, dtype=np.float64)
        for name in first.weights
    }
    return replace(
        first,
        training={
            "algorithm": "mean of weights",
            "of": [dict(each.training) for each in checkpoints],
        },
        weights={name: array.astype(np.float32) for name, array in weights.items()},
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.average", description=__doc__)
    parser.add_argument("checkpoints", type=Path, nargs="+", help="two or more, or folders of runs")
    parser.add_argument("--out", type=Path, required=True, help="the checkpoint to write")
    options = parser.parse_args(arguments)
    try:
        loaded = [Checkpoint.load(path) for path in options.checkpoints]
        for path, checkpoint in zip(options.checkpoints, loaded, strict=True):
            from_checkpoint(checkpoint, str(path))
        average(loaded).save(options.out)
        print(f"{options.out}: the mean of {len(loaded)} checkpoints")
    except (ValueError, OSError) as error:
        print(f"training.average: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
