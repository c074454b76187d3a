"""The kernels that are timed: random play fused with dealing, features and masks.

They call the package's own record kernels. Without options that add actions, the legal actions are
the cards in hand, so a random action is a random member of that set.
"""

from typing import Any

import numpy as np

from briscola_env.dealing import deal_one
from briscola_env.encoding import encode_one
from briscola_env.engine import legal_actions, step_one
from briscola_env.information import info_state_one
from briscola_env.jit import kernel, lowest, popcount
from briscola_env.rng import child_seed

_7, _13, _17, _32 = (np.uint64(k) for k in (7, 13, 17, 32))


@kernel
def _next_random(x: Any) -> Any:
    """Marsaglia's xorshift, "Xorshift RNGs", 2003; x is not 0."""
    x ^= x << _13
    x ^= x >> _7
    return x ^ (x << _17)


@kernel
def _index_below(random: Any, n: Any) -> Any:
    """0..n-1 from the high half of a random number."""
    return np.int64(((random >> _32) * np.uint64(n)) >> _32)


@kernel
def _random_card(cards: Any, random: Any) -> Any:
    """A random member of a set of cards; without branches for the usual three or fewer."""
    k = _index_below(random, popcount(cards))
    without_one = cards & (cards - 1)
    without_two = without_one & (without_one - 1)
    rest = cards if k == 0 else (without_one if k == 1 else without_two)
    for _ in range(k - 2):
        rest &= rest - 1
    return lowest(rest)


@kernel
def deal_all(states: Any, seed: Any) -> None:
    """Deal every record."""
    for i in range(len(states)):
        deal_one(states[i], child_seed(seed, i), -1)


@kernel
def playouts(states: Any, games: Any, seed: Any) -> Any:
    """Play so many games, dealing included, at random in `states[0]`; the number of plies."""
    state, random, plies = states[0], seed, 0
    for game in range(games):
        deal_one(state, child_seed(seed, game), -1)
        while state["current_player"] >= 0:
            random = _next_random(random)
            step_one(state, _random_card(state["hands"][state["current_player"]], random))
            plies += 1
    return plies


STAGES = (
    "a random card, played; dealt again when it is over",
    "the record copied, what the seat may not know erased",
    "features",
    "mask",
)


@kernel
def steps(
    states: Any,
    actions: Any,
    rounds: Any,
    stages: Any,
    seed: Any,
    info: Any,
    arguments: Any,
    out: Any,
    masks: Any,
) -> None:
    """`rounds` steps in every game, each followed by features and mask of the seat to act.

    actions: int64 [N], or empty: then they are random. A game that is over is dealt again at once.
    stages: how many of STAGES, to see what each takes. info: [1], scratch that stays in the cache.
    It is one function because a call with arrays would count references, and so would the tuple of
    a call with `*`.
    """
    frame, reburied, messages, match_wins, show_points, recent_tricks = arguments
    random, given, known = seed, len(actions) > 0, info[0]
    for _ in range(rounds):
        for i in range(len(states)):
            state = states[i]
            random = _next_random(random)
            if given:
                step_one(state, actions[i])
            else:
                step_one(state, _random_card(state["hands"][state["current_player"]], random))
            if state["current_player"] < 0:
                deal_one(state, random, -1)
            if stages > 1:
                info[0] = state
                info_state_one(state, np.int64(state["current_player"]), known)
            if stages > 2:
                encode_one(
                    known, frame, reburied, messages, match_wins, show_points, recent_tricks, i, out
                )
        if stages > 3:
            legal_actions(states, masks)


@kernel
def random_columns(mask_words: Any, seed: Any, actions: Any) -> None:
    """A random action a row from masks of 0 and 1 bytes seen as words, int64 [N, columns / 8].

    0 where nothing is legal.
    """
    random = seed
    for i in range(len(mask_words)):
        count = 0
        for k in range(mask_words.shape[1]):
            count += popcount(mask_words[i, k])
        random = _next_random(random)
        left, actions[i] = _index_below(random, count), 0
        for k in range(mask_words.shape[1]):
            word = mask_words[i, k]
            here = popcount(word)
            if left < here:
                for _ in range(left):
                    word &= word - 1
                actions[i] = 8 * k + (lowest(word) >> 3)
                break
            left -= here
