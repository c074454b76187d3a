"""Everybody against everybody, or one against all, on the same decks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.arena.play import episode_seeds, match_seating, play_deals
from briscola_env.arena.results_file import ResultsFile
from briscola_env.policies import Policy
from briscola_env.rules import Rules


@dataclass(frozen=True)
class Tournament:
    """Who plays and how much.

    policies: name by label. decks: each played by every pair in every rotation. gauntlet: only the
    first policy meets the others. ValueError if there are fewer than two.
    """

    policies: Mapping[str, str]
    rules: Rules
    decks: int = 1000
    seed: int = 0
    gauntlet: bool = False

    def __post_init__(self) -> None:
        if len(self.policies) < 2:
            raise ValueError("a tournament needs two different policies or more")

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Who meets, int [M, 2]: one policy alone on its side, the other on all others.

        With three players that makes a difference, and each pair meets both ways.
        """
        n = range(len(self.policies))
        meetings = combinations(n, 2) if self.rules.sides == 2 else permutations(n, 2)
        return np.array([pair for pair in meetings if not self.gauntlet or 0 in pair])


def labelled(names: Sequence[Any]) -> dict[str, str]:
    """Policies whose names are their labels; ValueError if one stands there twice."""
    labels = {str(name): str(name) for name in names}
    for label in labels:
        if list(map(str, names)).count(label) > 1:
            raise ValueError(f"policy {label!r} stands there twice: give it two labels in a spec")
    return labels


def read_spec(path: Path) -> dict[str, Any]:
    """The values in a YAML file: policies, and perhaps decks, seed, players, rules, gauntlet.

    `policies` is a list of names, or a mapping from labels to names, and comes back as a mapping.
    ValueError says in one line what is wrong; ImportError names the extra, if PyYAML is missing.
    """
    try:
        import yaml
    except ImportError:
        raise ImportError("a YAML file needs PyYAML: pip install 'briscola-env[train]'") from None
    try:
        spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(spec, dict) or "policies" not in spec:
        raise ValueError(f"{path}: a mapping with `policies` is asked for")
    for key, value in spec.items():
        if key not in _SPEC:
            raise ValueError(f"{path}: unknown key {key!r}; there are {', '.join(_SPEC)}")
        allowed, fits = _SPEC[key]
        if not fits(value):
            raise ValueError(f"{path}: {key}={value!r}: {allowed} is allowed")
    if isinstance(spec["policies"], list):
        spec["policies"] = labelled(spec["policies"])
    spec["policies"] = {str(label): str(name) for label, name in spec["policies"].items()}
    return spec


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and value >= least


_SPEC: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "policies": (
        "a list of names or a mapping from labels to names",
        lambda value: isinstance(value, (list, dict)),
    ),
    "decks": ("a whole number from 1 on", _whole(1)),
    "seed": ("a whole number from 0 on", _whole(0)),
    "players": ("2, 3, 4 or 6", _whole(2)),
    "rules": ("a mapping from names to values", lambda value: isinstance(value, dict)),
    "gauntlet": ("true or false", lambda value: isinstance(value, bool)),
}


def play(
    tournament: Tournament, policies: Sequence[Policy], results: ResultsFile
) -> Iterator[tuple[int, int]]:
    """Play what is missing; yields (games in the file, games in all) now and then.

    policies: loaded, in the tournament's order. Pairs that are equally far are played together, so
    that each policy is asked for all its games at once. After every yield the games are on disk.
    """
    sides, pairs = tournament.rules.sides, tournament.pairs
    done = np.array([results.decks_done(*pair) for pair in pairs.tolist()])
    done = np.minimum(done, tournament.decks)
    size = min(max(tournament.decks // 64, 16), 2048)
    alone = match_seating(sides) == 0
    while True:
        yield int(done.sum()) * sides, len(pairs) * tournament.decks * sides
        first = int(done.min())
        if first == tournament.decks:
            return
        behind = np.flatnonzero(done == first)
        ahead = done[done > first].min(initial=tournament.decks)
        last = min(first + size, int(ahead))
        seating = np.concatenate([np.where(alone, *pair) for pair in pairs[behind]])
        seeds = episode_seeds(tournament.seed, first, last - first)
        scores = play_deals(policies, tournament.rules, seeds, seating).scores
        results.add(pairs[behind], first, scores.reshape(len(behind), sides, -1, sides))
        done[behind] = last
