"""The SQLite file in which the games of a tournament live.

Every game that was finished stands in it exactly once, whatever happened to the process. Running
the same tournament again plays only what is missing; one with more decks or policies adds to it.
"""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from briscola_env.rules import Rules

_FORMAT = "briscola-tournament 1"

_SCHEMA = (
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE policy (
        id INTEGER PRIMARY KEY,
        label TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,   -- as `briscola evaluate` takes it
        sha256 TEXT NOT NULL  -- of the checkpoint's or the module's file, empty for our policies
    )""",
    """CREATE TABLE game (
        alone INTEGER NOT NULL REFERENCES policy,   -- played `side`
        others INTEGER NOT NULL REFERENCES policy,  -- played all the other sides
        deck INTEGER NOT NULL,                      -- number of the deck: its cards, dealer, seeds
        side INTEGER NOT NULL,
        points_0 INTEGER NOT NULL,                  -- card points of side 0
        points_1 INTEGER NOT NULL,
        points_2 INTEGER,                           -- three players only
        PRIMARY KEY (alone, others, deck, side)
    ) WITHOUT ROWID""",
)


class ResultsFile:
    """Games by pair, deck and side; opened by `with`.

    path: made if it is not there. sources: of every policy of the tournament, in order: label, name
    and the SHA-256 of the file that it comes from. ValueError if the file is of another tournament,
    or a policy is no longer what it was.
    """

    def __init__(
        self, path: Path, rules: Rules, seed: int, sources: Sequence[tuple[str, str, str]]
    ) -> None:
        self._path = path
        self._sides = rules.sides
        settings = {"format": _FORMAT, "seed": str(seed)}
        settings |= {f"rules.{name}": json.dumps(v) for name, v in rules.to_dict().items()}
        try:
            self._base = sqlite3.connect(path)
        except sqlite3.Error as error:
            raise ValueError(f"{path}: {error}") from None
        try:
            with self._base:
                self._base.execute("BEGIN IMMEDIATE")
                if not self._base.execute("SELECT name FROM sqlite_master").fetchone():
                    for statement in _SCHEMA:
                        self._base.execute(statement)
                    self._base.executemany("INSERT INTO setting VALUES (?, ?)", settings.items())
                self._check_settings(settings)
                self._ids = [self._enter(*source) for source in sources]
        except sqlite3.Error as error:
            self._base.close()
            raise ValueError(f"{path}: {error}") from None
        except ValueError:
            self._base.close()
            raise

    def __enter__(self) -> "ResultsFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def _check_settings(self, settings: Mapping[str, str]) -> None:
        """ValueError if the file is of another tournament."""
        found = dict(self._base.execute("SELECT name, value FROM setting"))
        for name, value in settings.items():
            if found.get(name) != value:
                raise ValueError(
                    f"{self._path} has the games of another tournament: {name} is "
                    f"{found.get(name)}, not {value}; name another folder by --out"
                )

    def _enter(self, label: str, name: str, sha256: str) -> int:
        """The id of a policy, entered if it is new; ValueError if it has changed."""
        row = self._base.execute(
            "SELECT id, name, sha256 FROM policy WHERE label = ?", (label,)
        ).fetchone()
        if row is None:
            cursor = self._base.execute(
                "INSERT INTO policy (label, name, sha256) VALUES (?, ?, ?)", (label, name, sha256)
            )
            return int(cursor.lastrowid or 0)
        if row[1:] != (name, sha256):
            raise ValueError(
                f"{self._path}: policy {label!r} has changed since it played: it was {row[1]} "
                f"{row[2][:12]}, now {name} {sha256[:12]}; give it another label"
            )
        return int(row[0])

    def _stored(self, alone: int, others: int) -> tuple[int, int, bool]:
        """The two ids as they stand in the file, and whether they change places there.

        With two sides the order says nothing: the older policy is `alone`.
        """
        first, second = self._ids[alone], self._ids[others]
        swapped = self._sides == 2 and first > second
        return (second, first, True) if swapped else (first, second, False)

    def decks_done(self, alone: int, others: int) -> int:
        """How many decks, from number 0 on, this pair (places in the tournament) has played."""
        query = "SELECT coalesce(max(deck) + 1, 0) FROM game WHERE alone = ? AND others = ?"
        row = self._base.execute(query, self._stored(alone, others)[:2]).fetchone()
        return int(row[0])

    def add(self, pairs: NDArray[np.int64], first: int, scores: NDArray[np.int16]) -> None:
        """Write the games of pairs, int [M, 2], on the decks from `first` on, all or none.

        scores: int16 [M, sides, D, sides], card points; the second axis is the side that the first
        of the pair plays. ValueError if another process has written one of them.
        """
        _, sides, decks, _ = scores.shape
        side, deck = (axis.ravel() for axis in np.indices((sides, decks)))
        rows: list[list[int]] = []
        for pair, games in zip(pairs.tolist(), scores, strict=True):
            *ids, swapped = self._stored(*pair)
            who = np.tile(ids, (sides * decks, 1))
            points = (games[::-1] if swapped else games).reshape(-1, sides)
            rows += np.column_stack([who, first + deck, side, points]).tolist()
        marks = ", ".join("?" * (4 + sides)) + (", NULL" if sides == 2 else "")
        try:
            with self._base:
                self._base.executemany(f"INSERT INTO game VALUES ({marks})", rows)
        except sqlite3.IntegrityError:
            raise ValueError(f"{self._path}: another process plays this tournament") from None
        except sqlite3.Error as error:
            raise ValueError(f"{self._path}: {error}") from None

    def scores(self, alone: int, others: int) -> NDArray[np.int16]:
        """Card points of one pair's games, int16 [sides, D, sides]: by side of the first, deck."""
        sides = self._sides
        first, second, swapped = self._stored(alone, others)
        columns = ", ".join(f"points_{side}" for side in range(sides))
        query = f"SELECT {columns} FROM game WHERE alone = ? AND others = ? ORDER BY side, deck"
        rows = self._base.execute(query, (first, second)).fetchall()
        scores = np.array(rows, np.int16).reshape(sides, -1, sides)
        return scores[::-1] if swapped else scores
