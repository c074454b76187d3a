"""The one random generator: splitmix64, small enough to live in a game record.

Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. The state is an
unsigned 64-bit number; every call adds a constant and returns the scrambled sum. A whole number
below n is the high half of a product, off from uniform by less than n / 2**32.
"""

from typing import Any

import numpy as np

from briscola_env.jit import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_ONE, _27, _30, _31, _32 = (np.uint64(k) for k in (1, 27, 30, 31, 32))


@kernel
def _scramble(x: Any) -> Any:
    x = (x ^ (x >> _30)) * _MULTIPLIER_1
    x = (x ^ (x >> _27)) * _MULTIPLIER_2
    return x ^ (x >> _31)


@kernel
def child_seed(seed: Any, index: Any) -> Any:
    """Seed number `index` (0, 1, ...) of those that belong to `seed`; uint64 both."""
    return _scramble(seed + _GOLDEN * (np.uint64(index) + _ONE))


@kernel
def child_seeds(seed: Any, first: Any, out: Any) -> None:
    """Fill `out` (uint64 [N]) with the child seeds first, first + 1, ... of `seed`."""
    for i in range(len(out)):
        out[i] = child_seed(np.uint64(seed), first + i)


DEAL_STREAM, POLICY_STREAM, SEAT_STREAM = 0, 1, 2
"""What the child seeds of an episode's seed are for: cards, policies, who sits where."""


@kernel
def deal_seeds(seeds: Any, out: Any) -> None:
    """The seeds for `dealing.deal` of the episodes with these seeds; uint64 [N] both."""
    for i in range(len(seeds)):
        out[i] = child_seed(seeds[i], DEAL_STREAM)


@kernel
def decision_seeds(seeds: Any, seats: Any, decisions: Any, out: Any) -> None:
    """A policy's seeds, uint64 [N], from the episode's seed, its seat and the decision's number.

    They depend neither on the cards nor on which policy sits there, so that a policy against
    itself plays the same deal in every rotation.
    """
    for i in range(len(seeds)):
        seat_seed = child_seed(child_seed(seeds[i], POLICY_STREAM), seats[i])
        out[i] = child_seed(seat_seed, decisions[i])


@kernel
def number_below(seed: Any, n: Any) -> Any:
    """A whole number 0..n-1 made from a seed that is used for nothing else."""
    return np.int64(((_scramble(seed + _GOLDEN) >> _32) * np.uint64(n)) >> _32)


@kernel
def random_below(state: Any, n: Any) -> Any:
    """Draw a whole number 0..n-1 from the generator in a game record, which moves on."""
    number = number_below(state["rng"], n)
    state["rng"] += _GOLDEN
    return number
