"""How results look on the terminal: tables and a progress bar, both by rich."""

import csv
import io
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from briscola_env.arena.match import Match
from briscola_env.arena.phases import Phases
from briscola_env.arena.standings import Standings
from briscola_env.arena.stats import Estimate, Sprt

_BAR_AFTER = 2.0  # seconds; what is done sooner needs no bar
_PLAIN_WIDTH = 240  # columns where the output is not a terminal


def require_rich() -> None:
    """ImportError that names the extra if rich is not installed."""
    try:
        import rich  # noqa: F401
    except ImportError:
        raise ImportError("tables need rich: pip install 'briscola-env[train]'") from None


def _console(file: IO[str]) -> Any:
    from rich.console import Console

    width = None if file.isatty() else _PLAIN_WIDTH
    return Console(file=file, width=width, markup=False, highlight=False)


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], file: IO[str], optional: int = 0
) -> None:
    """Aligned columns; those whose name begins with a space hold numbers, to the right.

    optional: so many of the last columns are left out where the terminal is too narrow for them.
    """
    console = _console(file)
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        number = name.startswith(" ")
        table.add_column(
            name.strip(),
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=number,
            min_width=None if number else min(len(name), 10),
        )
    for row in rows:
        table.add_row(*row)
    # Names fold, numbers are never cut: a line that is still too long is the terminal's to break.
    least = console.measure(table, options=console.options.update(width=_PLAIN_WIDTH)).minimum
    if optional and least > console.width:
        narrow = len(header) - optional
        print_table(header[:narrow], [row[:narrow] for row in rows], file)
    else:
        console.width = max(least, console.width)
        console.print(table, crop=False)


class ProgressBar:
    """A bar with the time left, shown after two seconds if the file is a terminal."""

    def __init__(self, text: str, file: IO[str]) -> None:
        self._bar: Any = None
        if file.isatty():
            console = _console(file)
            from rich import progress

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TextColumn("time left"),
                progress.TimeRemainingColumn(),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task(text, total=None)
        self._show_at = time.monotonic() + _BAR_AFTER

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def show(self, done: int, total: int) -> None:
        """So many of all are done."""
        if self._bar:
            self._bar.update(self._task, completed=done, total=total)
            if time.monotonic() > self._show_at:
                self._bar.start()


def _plus_minus(estimate: Estimate, digits: int, sign: str = "") -> str:
    half = (estimate.high - estimate.low) / 2
    text = f"{estimate.value:{sign}.{digits}f}"
    return text if math.isnan(half) else f"{text} ±{half:.{digits}f}"


def _count(number: float | None) -> str:
    if number is None or math.isnan(number):
        return "-"
    return "∞" if math.isinf(number) else f"{number:,.0f}"


def print_matches(matches: Sequence[Match], file: IO[str]) -> None:
    """The table of `briscola evaluate`, and how to read it."""
    header = ("policy", "opponent", " decks", " won", " drawn", " lost", " score", " margin")
    rows = [
        (
            match.policy,
            match.opponent,
            f"{match.decks:,}",
            *(f"{count:,}" for count in (match.wins, match.draws, match.losses)),
            _plus_minus(match.score, 4),
            _plus_minus(match.margin, 2, "+"),
            _count(match.effective_deals),
            _count(match.games_per_second),
        )
        for match in matches
    ]
    print_table((*header, " effective", " games/s"), rows, file, optional=2)
    print(
        "score: wins and half the draws; margin: card points a deal, own side less the mean of "
        "the others\n± 95 %, normal theory on the means of the decks; effective: single deals that "
        "would be as exact for the margin",
        file=file,
    )


def print_sprt(match: Match, test: Sprt, file: IO[str]) -> None:
    """The outcome of a sequential test in one line."""
    said = {
        "high": f"accepted: the margin is {test.high:g}, not {test.low:g}",
        "low": f"accepted: the margin is {test.low:g}, not {test.high:g}",
        None: f"not decided between {test.low:g} and {test.high:g}",
    }[test.decision]
    low, high = test.bounds
    print(
        f"sprt {match.policy} v {match.opponent}: {said}; llr {test.llr:+.2f} "
        f"({low:+.2f} .. {high:+.2f}) after {test.decks:,} decks",
        file=file,
    )


def print_phases(match: Match, phases: Phases, file: IO[str]) -> None:
    """Where the points of one match were won: by trick, and in sum for both policies."""
    by_trick = []
    for trick in range(phases.counts.shape[1]):
        cells = [f"{trick + 1}"]
        for leading in (1, 0):
            tricks, won = (phases.of(0, leading, name, trick) for name in ("tricks", "won"))
            cells.append(f"{100 * tricks:.1f}%")
            cells.append(f"{100 * won / tricks:.1f}%" if tricks else "-")
            cells.append(f"{phases.margin(0, leading, trick):+.2f}")
        cells.append(f"{phases.margin(0, 1, trick) + phases.margin(0, 0, trick):+.2f}")
        for name in ("trumps", "carichi_lost"):
            cells.append(f"{phases.of(0, None, name, trick):.3f}")
        by_trick.append(cells)
    print(f"\n{match.policy} v {match.opponent}, a deal, by trick", file=file)
    print_table(
        (
            " trick",
            " leads",
            " wins",
            " margin",
            " follows",
            " wins",
            " margin",
            " both",
            " trumps",
            " carichi",
        ),
        by_trick,
        file,
    )
    print(
        "wins: of the tricks led, of those followed; margin: card points a deal in these; "
        "trumps played;\ncarichi: aces and threes lost",
        file=file,
    )
    print(file=file)
    measures = _MEASURES if phases.of(0, None, "open_cards") else _MEASURES[:-3]
    rows = [(name, *(value(phases, policy) for policy in (0, 1))) for name, value in measures]
    print_table(("a deal", f" {match.policy}", f" {match.opponent}"), rows, file)


def _share(part: float, whole: float, text: str) -> str:
    return text.format(part / whole) if whole else "-"


_MEASURES: tuple[tuple[str, Callable[[Phases, int], str]], ...] = (
    ("margin in tricks led", lambda p, i: f"{p.margin(i, 1):+.2f}"),
    ("margin in tricks followed", lambda p, i: f"{p.margin(i, 0):+.2f}"),
    ("tricks won", lambda p, i: f"{p.of(i, None, 'won'):.2f}"),
    ("trumps played", lambda p, i: f"{p.of(i, None, 'trumps'):.2f}"),
    ("  of these into tricks lost", lambda p, i: f"{p.of(i, None, 'trumps_lost'):.2f}"),
    ("card points won by trumping", lambda p, i: f"{p.of(i, None, 'trump_points'):.2f}"),
    (
        "  trumps played for a point of these",
        lambda p, i: _share(p.of(i, None, "trumps"), p.of(i, None, "trump_points"), "{:.4f}"),
    ),
    ("aces and threes lost", lambda p, i: f"{p.of(i, None, 'carichi_lost'):.3f}"),
    ("cards played with all known", lambda p, i: f"{p.of(i, None, 'open_cards'):.2f}"),
    (
        "  mistakes among them",
        lambda p, i: _share(p.of(i, None, "mistakes"), p.of(i, None, "open_cards"), "{:.2%}"),
    ),
    ("  card points they cost", lambda p, i: f"{p.of(i, None, 'mistake_points'):.3f}"),
)


STANDINGS_HEADER = (
    "",
    "policy",
    " rating",
    " 95 %",
    " better than next",
    " score",
    " margin",
)


def standings_rows(table: Standings) -> list[tuple[str, ...]]:
    """The cells under STANDINGS_HEADER, the strongest policy first."""
    rated = table.ratings
    rows: list[tuple[str, ...]] = []
    for place, i in enumerate(table.order):
        after = table.order[place + 1] if place + 1 < len(table.order) else None
        rows.append(
            (
                f"{place + 1}.",
                table.labels[i],
                f"{rated.rating[i]:+.1f}",
                f"{rated.low[i]:+.1f} .. {rated.high[i]:+.1f}",
                "" if after is None else f"{100 * rated.superiority[i, after]:.1f}%",
                f"{table.mean_score(i):.4f}",
                f"{table.mean_margin(i):+.2f}",
            )
        )
    return rows


def print_standings(table: Standings, file: IO[str]) -> None:
    """Ratings and cross table of a tournament."""
    print_table(STANDINGS_HEADER, standings_rows(table), file)
    print(file=file)
    header = ["score of, against", *(f" {place + 1}." for place in range(len(table.order)))]
    rows = []
    for place, i in enumerate(table.order):
        cells = [table.matches.get((i, j)) for j in table.order]
        rows.append(
            [
                f"{place + 1}. {table.labels[i]}",
                *("" if match is None else f"{match.score.value:.4f}" for match in cells),
            ]
        )
    print_table(header, rows, file)
    print(f"\n{STANDINGS_NOTE}", file=file)
    for text in warnings(table):
        print(f"WARNING: {text}", file=file)


STANDINGS_NOTE = (
    "rating: Bradley-Terry with draws, 400 points are odds of ten to one, mean 0; 95 %: "
    "percentiles of 1,000\nbootstrap samples of the decks; score: wins and half the draws; "
    "margin: card points a deal, own side less the mean of the others"
)


def warnings(table: Standings) -> list[str]:
    """What the ratings cannot explain, a sentence each."""
    texts = []
    if table.cycle:
        labels = [table.labels[i] for i in table.cycle]
        circle = " beats ".join([*labels, labels[0]])
        texts.append(f"the results are not transitive, no ratings can explain them: {circle}")
    for i, j in table.upsets:
        texts.append(f"{table.labels[i]} beats {table.labels[j]}, which is rated higher")
    return texts


def write_csv(table: Standings, folder: Path) -> None:
    """`ratings.csv` and `cross_table.csv`, one line a policy and one a pair."""
    rated = table.ratings
    ratings = [
        (
            table.labels[i],
            rated.rating[i],
            rated.low[i],
            rated.high[i],
            table.mean_score(i),
            table.mean_margin(i),
        )
        for i in table.order
    ]
    _write_csv(folder / "ratings.csv", "policy rating low high score margin", ratings)
    cross = [
        (
            m.policy,
            m.opponent,
            m.decks,
            m.wins,
            m.draws,
            m.losses,
            m.score.value,
            m.score.low,
            m.score.high,
            m.margin.value,
            m.margin.low,
            m.margin.high,
            rated.superiority[pair],
        )
        for pair, m in table.matches.items()
    ]
    _write_csv(
        folder / "cross_table.csv",
        "policy opponent decks won drawn lost score score_low score_high margin margin_low "
        "margin_high superiority",
        cross,
    )


def _write_csv(path: Path, header: str, rows: Sequence[Sequence[Any]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header.split())
    for row in rows:
        writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])
    write_text(path, text.getvalue())


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole: under a temporary name first."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
