"""Positions on small decks, and how often `resample` must show each world that fits them."""

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
from scipy.stats import chi2

from briscola_env.information import info_state, resample
from briscola_env.state import States
from tests.naive import (
    FIRST_SIGNAL,
    VAGUE,
    NaiveGame,
    consistent_worlds,
    looks_the_same,
    shared_out,
)
from tests.twin import as_records, bits, full_fields, public_fields, rules_fields

Weights = dict[tuple[int, ...], float]  # hands as sets, then stock from the bottom -> probability


@dataclass
class Scene:
    """A position of the twin, how it came about, and the same as a record."""

    options: dict[str, Any]
    deck: list[int]
    bury: list[int]  # place of each reburial
    actions: list[int]
    game: NaiveGame

    @property
    def record(self) -> States:
        """The position as the engine would have it, shape [1]."""
        game = self.game
        fields = {**rules_fields(game), **public_fields(game), **full_fields(game, 12345)}
        return as_records([fields])


def scene(options: dict[str, Any], seed: int, actions: int) -> Scene:
    """A random position, that many actions after a random deal by dealer 0; swaps and signals
    are taken as often as cards.
    """
    rng, bury, taken = random.Random(seed), [], []
    deck = rng.sample(options["cards"], len(options["cards"]))

    def place(size: int) -> int:
        bury.append(rng.randint(0, size))
        return bury[-1]

    game = NaiveGame(0, deck, bury=place, **options)
    for _ in range(actions):
        legal = game.legal()
        special = [action for action in legal if action >= 40]
        taken.append(rng.choice(special if special and rng.random() < 0.6 else legal))
        game.act(taken[-1])
    return Scene(options, deck, bury, taken, game)


def scenes(
    options: dict[str, Any], number: int, wanted: Callable[[Scene], bool], most: int
) -> list[Scene]:
    """The first so many random positions, up to `most` actions after the deal, that are wanted."""
    found: list[Scene] = []
    for seed in range(4000):
        candidate = scene(options, seed, seed % (most + 1))
        if wanted(candidate):
            found.append(candidate)
        if len(found) == number:
            return found
    raise AssertionError(f"only {len(found)} such positions of {options}")


def world_key(hands: Any, stock: Any) -> tuple[int, ...]:
    """A world: the hands as sets, then the stock, next drawn card last."""
    return (*(bits(hand) for hand in hands), *stock[::-1])


def expected_worlds(position: Scene, observer: int) -> Weights:
    """Probability of each world by replaying every order of the deck (the twin's own count)."""
    worlds = consistent_worlds(
        position.options, 0, position.deck, position.bury, position.actions, observer
    )
    return {world_key(world[:-2], world[-2]): probability for world, probability in worlds.items()}


def expected_with_first_hands(position: Scene, observer: int) -> Weights:
    """The same without reburials, quicker where a partner's first hand was shown.

    The keys also hold what the partners of the other sides know of each other's hands.
    """
    options, n = position.options, position.game.players
    truth = NaiveGame(0, position.deck, **options)
    shown = options.get("show_partner") in ("before_first_trick", "both")
    seats = range(n)
    given = {s for s in seats if s == observer or (shown and s % 2 == observer % 2)}
    script = []
    first_view = truth.view(observer)
    for action in position.actions:
        seat = truth.current_player
        truth.act(action)
        if action < 40:  # what a hand was said to hold or to lack binds until its next card
            for earlier in script:
                earlier[2] |= earlier[1] == seat and earlier[0] - FIRST_SIGNAL in VAGUE
        if action < FIRST_SIGNAL or truth.hears(observer, seat):
            script.append([action, seat, False, truth.view(observer)])
    unseen = set(position.deck[n * truth.rules.hand_size + 1 :])
    start = NaiveGame(0, position.deck, **options)
    unseen |= {card for seat in seats if seat not in given for card in start.hands[seat]}
    counts: dict[tuple[int, ...], int] = defaultdict(int)
    for others in shared_out(unseen, n - len(given), truth.rules.hand_size):
        rest = iter(others)
        hands = [start.hands[seat] if seat in given else next(rest) for seat in seats]
        for stock in permutations(unseen.difference(*others)):
            dealt = {"hands": hands, "face_up": start.face_up, "stock": stock}
            world = NaiveGame(0, dealt=dealt, **options)
            if world.view(observer) == first_view and looks_the_same(world, script, observer):
                team = [bits(world.known_to_partners[s]) for s in seats if s % 2 != observer % 2]
                counts[(*world_key(world.hands, world.stock), *team)] += 1
    total = sum(counts.values())
    return {key: count / total for key, count in counts.items()}


def sampled_worlds(position: Scene, observer: int, number: int, with_team: bool) -> States:
    """So many worlds by `resample` for what `observer` knows, one a row, as keys of `Weights`."""
    record, game = position.record, position.game
    info = np.empty_like(record)
    info_state(record, np.array([observer]), info)
    worlds = np.repeat(info, number)
    seeds = np.random.default_rng(observer).integers(0, 2**64, number, dtype=np.uint64)
    resample(np.repeat(info, number), seeds, worlds)
    columns = [worlds["hands"][:, seat] for seat in range(game.players)]
    columns += [worlds["stock"][:, k].astype(np.int64) for k in range(len(game.stock))]
    if with_team:
        others = [seat for seat in range(game.players) if seat % 2 != observer % 2]
        columns += [worlds["team_known"][:, seat] for seat in others]
    return np.stack(columns, axis=1)


def misfit(expected: Weights, rows: States) -> tuple[float, int]:
    """Chi-square statistic and degrees of freedom; a world that is impossible is an error."""
    keys, counts = np.unique(rows, axis=0, return_counts=True)
    found = {tuple(key): int(count) for key, count in zip(keys.tolist(), counts, strict=True)}
    impossible = set(found) - set(expected)
    assert not impossible, f"{len(impossible)} worlds are impossible, as {min(impossible)}"
    number = len(rows)
    terms = [
        (found.get(key, 0) - number * weight) ** 2 / (number * weight)
        for key, weight in expected.items()
    ]
    return sum(terms), len(expected) - 1


def p_value(misfits: list[tuple[float, int]]) -> float:
    """How likely that much misfit is by chance, over several samples together."""
    return float(chi2.sf(sum(m for m, _ in misfits), sum(dof for _, dof in misfits)))
