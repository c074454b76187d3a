"""The table of the comparison: which measurements stand side by side, and how they are shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

Values = dict[str, list[float | None]]
"""By measurement, such as `ours.raw_env`: its value in each repeat, None where it failed."""


@dataclass(frozen=True)
class Line:
    """A line of the table. asked: the least ratio that was aimed at."""

    what: str
    ours: str
    against: str = ""
    theirs: str = ""
    asked: float | None = None
    seconds: bool = False


_PLAYOUTS = "random playouts in a kernel, dealing included"
_SHOWN = "step, auto-reset, features and mask; 4,096 games; random action in the kernel"
_GIVEN = "the same, actions passed in as an array at each step"
_RAW = "`agent_iter`, `last`, `step` on `raw_env()`"
_VECTOR = "`gymnasium.make_vec`, 1,024 environments against `random`"

# Measured one after the other, each group five times in changing order.
GROUPS: tuple[tuple[Line, ...], ...] = (
    (
        Line(_PLAYOUTS, "ours.playouts_2", "OpenSpiel oh_hell, C++", "peers.rollouts_oh_hell", 4),
        Line(_PLAYOUTS, "ours.playouts_2", "OpenSpiel spades, C++", "peers.rollouts_spades", 4),
        Line(_PLAYOUTS, "ours.playouts_2", "OpenSpiel euchre, C++", "peers.rollouts_euchre", 4),
        Line(f"{_PLAYOUTS}, 6 players", "ours.playouts_6"),
    ),
    (
        Line(_SHOWN, "ours.random_steps_2", "Pgx leduc_holdem", "peers.pgx_leduc_holdem", 5),
        Line(
            _SHOWN,
            "ours.random_steps_2",
            "OpenSpiel spades, numpy observer",
            "peers.observed_spades",
            25,
        ),
        Line(
            _SHOWN,
            "ours.random_steps_2",
            "the same, dealing left out",
            "peers.observed_spades_dealt",
        ),
        Line(_SHOWN, "ours.random_steps_2", "Pgx kuhn_poker (3 cards)", "peers.pgx_kuhn_poker"),
        Line(_GIVEN, "ours.given_steps_2", "Pgx leduc_holdem", "peers.pgx_leduc_holdem", 2.5),
        Line(
            _GIVEN,
            "ours.given_steps_2",
            "OpenSpiel spades, numpy observer",
            "peers.observed_spades",
            12.5,
        ),
        Line(
            "the same by `Games`, checked, new arrays",
            "ours.games_2",
            "Pgx leduc_holdem",
            "peers.pgx_leduc_holdem",
        ),
        Line("6 players: random action in the kernel", "ours.random_steps_6"),
        Line("6 players: actions passed in", "ours.given_steps_6"),
        Line("6 players: by `Games`", "ours.games_6"),
    ),
    (
        Line(_RAW, "ours.raw_env", "PettingZoo tictactoe_v3 `env()`", "peers.tictactoe_env", 5),
        Line(_RAW, "ours.raw_env", "its `raw_env()`", "peers.tictactoe_raw_env", 1),
        Line(_RAW, "ours.raw_env", "leduc_holdem_v4 `env()`", "peers.leduc_holdem_v4_env", 15),
        Line(_RAW, "ours.raw_env", "texas_holdem_v4 `env()`", "peers.texas_holdem_v4_env", 15),
        Line(
            _RAW,
            "ours.raw_env",
            "texas_holdem_no_limit_v6 `env()`",
            "peers.texas_holdem_no_limit_v6_env",
            15,
        ),
        Line(_RAW, "ours.raw_env", "hanabi_v5 `env()`", "peers.hanabi_v5_env", 15),
        Line(_RAW, "ours.raw_env", "RLCard leduc-holdem", "peers.rlcard_leduc-holdem"),
        Line(_RAW, "ours.raw_env", "RLCard uno", "peers.rlcard_uno"),
        Line(_RAW, "ours.raw_env", "RLCard bridge", "peers.rlcard_bridge"),
        Line(
            "the same on `env()`",
            "ours.env",
            "PettingZoo tictactoe_v3 `env()`",
            "peers.tictactoe_env",
            0.9,
        ),
    ),
    (Line(_VECTOR, "ours.vector", 'ours, `vectorization_mode="sync"`', "ours.sync", 30),),
    (
        Line("`import briscola_env`", "ours.import", seconds=True),
        Line("import and first game, warm cache", "ours.first_game_warm", seconds=True),
        Line("import and first game, empty cache", "ours.first_game_empty", seconds=True),
    ),
)

HEADER = ("what", "ours", "against", "theirs", "ratio", "lowest - highest", "asked", "reached")


def measurements(group: Sequence[Line], ours_alone: bool) -> list[str]:
    """What a group measures, in order, each once."""
    names = [name for line in group for name in (line.ours, line.theirs) if name]
    kept = [name for name in names if name.startswith("ours.") or not ours_alone]
    return list(dict.fromkeys(kept))


def _short(value: float, seconds: bool) -> str:
    """Three digits: 48.2 M, 37.3 k, 1.45 s."""
    if seconds:
        return f"{value:.2f} s"
    for limit, unit in ((1e6, " M"), (1e3, " k"), (1, "")):
        if value >= limit:
            scaled = value / limit
            return f"{scaled:.{max(0, 2 - (scaled >= 10) - (scaled >= 100))}f}{unit}"
    return f"{value:.3g}"


def _typical(values: Sequence[float | None], seconds: bool) -> str:
    known = [value for value in values if value is not None]
    return _short(median(known), seconds) if known else "-"


def _ratios(line: Line, values: Values) -> list[float]:
    """Ours by theirs, repeat by repeat."""
    pairs = zip(values.get(line.ours, []), values.get(line.theirs, []), strict=False)
    return [ours / theirs for ours, theirs in pairs if ours is not None and theirs is not None]


def cells(line: Line, values: Values) -> tuple[str, ...]:
    """One line of the table as text, in the order of HEADER."""
    ours = _typical(values.get(line.ours, []), line.seconds)
    ratios = _ratios(line, values)
    if not ratios:
        theirs = "-" if line.theirs else ""
        return line.what, ours, line.against, theirs, "", "", "", ""
    ratio = median(ratios)
    asked = reached = ""
    if line.asked is not None:
        asked, reached = f"{line.asked:g}", "yes" if ratio >= line.asked else "no"
    spread = f"{min(ratios):.3g} - {max(ratios):.3g}"
    theirs = _typical(values[line.theirs], line.seconds)
    return line.what, ours, line.against, theirs, f"{ratio:.3g}", spread, asked, reached


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up as plain text, too."""
    shown = [header, ["" for _ in header], *rows]
    widths = [max(len(row[k]) for row in shown) for k in range(len(header))]
    shown[1] = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in shown
    )


def table(values: Values, ours_alone: bool = False) -> str:
    """The table as Markdown; what repeats the line above is left out."""
    rows: list[tuple[str, ...]] = []
    above = ("", "")
    for line in (line for group in GROUPS for line in group):
        row = cells(line, values)[:2] if ours_alone else cells(line, values)
        if row[:2] != above:
            rows.append(row)
        elif not ours_alone:
            rows.append(("", "", *row[2:]))
        above = row[:2]
    return aligned(HEADER[: len(rows[0])], rows)


def write_between(path: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- name -->` and `<!-- /name -->` in a page."""
    page = path.read_text()
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if start not in page or end not in page:
        raise SystemExit(f"{path} has no {start} ... {end}")
    before, rest = page.split(start, 1)
    after = rest.split(end, 1)[1]
    path.write_text(f"{before}{start}\n\n{text}\n\n{end}{after}")
