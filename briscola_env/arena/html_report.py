"""A tournament as one HTML file with its pictures inside."""

import html
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from briscola_env.arena.report import (
    STANDINGS_HEADER,
    STANDINGS_NOTE,
    standings_rows,
    warnings,
)
from briscola_env.arena.standings import Standings

_BLUE, _GREY = "#2a6f97", "#8a8a8a"
_BIN = 4  # card points a bar of the histogram

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem; border-bottom: 1px solid #ddd; text-align: left; }
th.number, td.number { text-align: right; }
.note { color: #666; font-size: 13px; }
.warning { background: #fff3cd; border-left: 4px solid #e0a800; padding: .6rem 1rem; }
svg { max-width: 100%; height: auto; }
"""


def require_matplotlib() -> None:
    """ImportError that names the extra if matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError(
            "the report's pictures need matplotlib: pip install 'briscola-env[arena]'"
        ) from None


def _svg(figure: Any) -> str:
    """The picture as an element of a page, the same bytes every time."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "briscola", "svg.fonttype": "none"}):
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight")
    return text.getvalue()[text.getvalue().index("<svg") :]


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def ratings_figure(table: Standings) -> Any:
    """Ratings as dots with their intervals, the strongest at the top; a matplotlib figure."""
    order, rated = list(table.order), table.ratings
    figure, axes = _figure(7.5, 1.0 + 0.36 * len(order))
    places = np.arange(len(order))
    bars = np.stack([rated.rating - rated.low, rated.high - rated.rating])[:, order]
    axes.errorbar(
        rated.rating[order], places, xerr=np.maximum(bars, 0), fmt="o", color=_BLUE, capsize=3
    )
    axes.set_yticks(places, [table.labels[i] for i in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.axvline(0, color=_GREY, linewidth=0.8)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("rating, 95 % interval")
    return figure


def _heat_map(table: Standings, values: Any, label: str, middle: float) -> Any:
    """Row against column, policies from strong to weak; NaN where they have not met."""
    n = len(table.order)
    figure, axes = _figure(2.2 + 0.72 * n, 1.2 + 0.55 * n)
    half = max(np.nanmax(np.abs(values - middle)), 1e-9)
    image = axes.imshow(values, cmap="RdBu", vmin=middle - half, vmax=middle + half, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            dark = abs(value - middle) > 0.6 * half
            color = "white" if dark else "black"
            axes.text(column, row, f"{value:.3f}", ha="center", va="center", color=color, size=9)
    labels = [table.labels[i] for i in table.order]
    axes.set_xticks(range(n), labels, rotation=35, ha="right")
    axes.set_yticks(range(n), labels)
    axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=axes, label=label)
    return figure


def cross_table_figure(table: Standings) -> Any:
    """Score of the row's policy against the column's; a matplotlib figure."""
    values = np.full((len(table.order), len(table.order)), np.nan)
    for row, i in enumerate(table.order):
        for column, j in enumerate(table.order):
            if (i, j) in table.matches:
                values[row, column] = table.matches[i, j].score.value
    return _heat_map(table, values, "score of row against column", 1 / table.sides)


def superiority_figure(table: Standings) -> Any:
    """Likelihood that the row's policy is stronger than the column's; a matplotlib figure."""
    order = list(table.order)
    values = table.ratings.superiority[np.ix_(order, order)].copy()
    np.fill_diagonal(values, np.nan)
    return _heat_map(table, values, "likelihood that row is stronger than column", 0.5)


def margins_figure(table: Standings) -> Any:
    """Distribution of each policy's margins over all its games; a matplotlib figure."""
    order = list(table.order)
    figure, axes = _figure(7.5, 1.2 + 0.55 * len(order))
    most = max(float(np.abs(margins).max()) for margins in table.margins)
    edges = np.arange(-most - _BIN / 2, most + _BIN, _BIN)
    for place, i in enumerate(order):
        share, _ = np.histogram(table.margins[i], edges)
        height = 0.85 * share / max(share.max(), 1)
        axes.stairs(place - height, edges, baseline=place, fill=True, color=_BLUE, alpha=0.45)
        mean = float(table.margins[i].mean())
        axes.plot([mean, mean], [place - 0.85, place], color="black", linewidth=1.5)
    axes.set_yticks(range(len(order)), [table.labels[i] for i in order])
    axes.set_ylim(len(order) - 0.8, -1)
    axes.axvline(0, color=_GREY, linewidth=0.8)
    axes.set_xlabel("margin of a game in card points; the line is the mean")
    return figure


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns whose name begins with a space hold numbers."""
    kinds = [' class="number"' if name.startswith(" ") else "" for name in header]

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = (
            f"<{tag}{kind}>{html.escape(cell.strip())}</{tag}>"
            for kind, cell in zip(kinds, cells, strict=True)
        )
        return f"<tr>{''.join(inner)}</tr>"

    return f"<table>{line('th', header)}{''.join(line('td', row) for row in rows)}</table>"


def html_report(table: Standings, facts: Sequence[tuple[str, str]]) -> str:
    """The page. facts: name and value of what else should stand there: seed, rules, checkpoints."""
    games = sum(match.games for match in table.matches.values()) // (2 if table.sides == 2 else 1)
    doubts = "".join(f'<p class="warning">{html.escape(text)}.</p>' for text in warnings(table))
    alone = (
        " With three players the row's policy sits alone against two of the column's."
        if table.sides == 3
        else ""
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Briscola tournament</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>
<body>
<h1>Briscola tournament</h1>
<p>{len(table.labels)} policies, {games:,} games. Every deck was played by every pair once from
each side, with the same cards.{alone}</p>
{doubts}
<h2>Ratings</h2>
{_html_table(STANDINGS_HEADER, standings_rows(table))}
{_svg(ratings_figure(table))}
<p class="note">{html.escape(STANDINGS_NOTE)}. Better than next: likelihood of superiority over the
next in the table, the share of bootstrap samples in which it is rated higher.</p>
<h2>Cross table</h2>
{_svg(cross_table_figure(table))}
<h2>Likelihood of superiority</h2>
{_svg(superiority_figure(table))}
<h2>Margins</h2>
{_svg(margins_figure(table))}
<h2>How it was played</h2>
{_html_table(("", ""), list(facts))}
</body></html>
"""
