"""Learning curves of runs, as one picture, or as columns of numbers.

    python -m training.plots runs/a runs/b --metric eval/margin_expert-v1 --out docs/curve.svg
    python -m training.plots runs/a --metric eval/margin_expert-v1

A metric with an interval in the log (eval/margin_*) is drawn with it.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from training.log import METRICS, read_metrics

AXES = ("minutes", "decisions", "iterations")


def read_log(run_dir: Path) -> list[dict[str, Any]]:
    """A run's metrics, a dict an iteration, with the training time so far as `minutes`."""
    path = run_dir / METRICS
    try:
        lines = read_metrics(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: not the log of a run ({error})") from None
    minutes, before = 0.0, 0
    for line in lines:
        # Clocks of the training alone: evaluations and pauses are not counted.
        minutes += (line["decisions"] - before) / line["charts/samples_per_second"] / 60
        before = line["decisions"]
        line["minutes"], line["iterations"] = minutes, line["iteration"]
    return lines


def points(run_dir: Path, metric: str, axis: str) -> dict[str, list[float]]:
    """The metric over an axis of AXES as lists by name; `low` and `high` if it has an interval.

    ValueError if the run does not have it.
    """
    lines = [line for line in read_log(run_dir) if metric in line]
    if not lines:
        raise ValueError(f"{run_dir}: its log has no {metric!r}")
    columns = {axis: [line[axis] for line in lines], metric: [line[metric] for line in lines]}
    if metric.startswith("eval/margin_"):
        for end in ("low", "high"):
            name = metric.replace("margin", f"margin_{end}")
            columns[end] = [line[name] for line in lines]
    return columns


def draw(run_dirs: Sequence[Path], metric: str, axis: str, out: Path) -> None:
    """Draw the metric of each run over an axis of AXES; ValueError as from `points`."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for run_dir in run_dirs:
        columns = points(run_dir, metric, axis)
        places = columns[axis]
        (curve,) = axes.plot(places, columns[metric], label=run_dir.name)
        if "low" in columns:
            bounds = (columns["low"], columns["high"])
            axes.fill_between(places, *bounds, color=curve.get_color(), alpha=0.2, linewidth=0)
    axes.set_xlabel(axis)
    axes.set_ylabel(metric)
    axes.grid(alpha=0.3)
    if len(run_dirs) > 1:
        axes.legend(frameon=False)
    # Without a date and with fixed names, so that the same logs give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "briscola"}):
        figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.plots", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_DIR")
    parser.add_argument("--metric", default="eval/margin_expert-v1")
    parser.add_argument("--over", choices=AXES, default="minutes")
    parser.add_argument("--out", type=Path, help="an .svg or .png file; else numbers are printed")
    options = parser.parse_args(arguments)
    try:
        if options.out is not None:
            draw(options.runs, options.metric, options.over, options.out)
        for run_dir in options.runs if options.out is None else ():
            columns = points(run_dir, options.metric, options.over)
            print(f"{run_dir}: {', '.join(columns)}")
            for row in zip(*columns.values(), strict=True):
                print("".join(f"{value:12.2f}" for value in row))
    except (ValueError, OSError) as error:
        print(f"training.plots: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
