"""Many deals at once between policies: the same cards for every way of seating them.

All games stand in one array of records. At every step the games are sorted by whose turn it is, so
that each policy is asked once, for consecutive rows, and sees nothing but what its seats know.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.dealing import deal
from briscola_env.engine import step_one
from briscola_env.jit import kernel
from briscola_env.policies.base import Policy, cheats, show_turns
from briscola_env.rng import child_seeds, deal_seeds, decision_seeds
from briscola_env.rules import IllegalActionError, Rules
from briscola_env.state import GAME_STATE, States, format_state, new_states

CHUNK_GAMES = 2048
"""Games in one array: these records and what is made of them stay in the processor's cache."""


@dataclass(frozen=True)
class Deals:
    """What came of D decks, each played in every one of R seatings.

    seating: int64 [R, sides], which policy (its index) played each side.
    seeds: uint64 [D], the episode seed of each deck.
    scores: int16 [R, D, sides], card points.
    seconds: wall time that they took.
    history: int8 [R, D, longest], the actions in order, -1 behind the last; None if not kept.
    """

    seating: NDArray[np.int64]
    seeds: NDArray[np.uint64]
    scores: NDArray[np.int16]
    seconds: float
    history: NDArray[np.int8] | None = None

    @property
    def decks(self) -> int:
        """Number of decks."""
        return len(self.seeds)

    def first(self, decks: int) -> "Deals":
        """The results of the first decks alone."""
        history = None if self.history is None else self.history[:, :decks]
        return Deals(
            self.seating, self.seeds[:decks], self.scores[:, :decks], self.seconds, history
        )


def join_deals(parts: Sequence[Deals]) -> Deals:
    """The decks of several results, one at least, with the same seating, one behind the other."""
    histories = [part.history for part in parts if part.history is not None]
    return Deals(
        parts[0].seating,
        np.concatenate([part.seeds for part in parts]),
        np.concatenate([part.scores for part in parts], axis=1),
        sum(part.seconds for part in parts),
        np.concatenate(histories, axis=1) if len(histories) == len(parts) else None,
    )


def match_seating(sides: int) -> NDArray[np.int64]:
    """Policy 0 on each side in turn, policy 1 on all the others: int64 [sides, sides].

    Row r has policy 0 on side r.
    """
    return 1 - np.eye(sides, dtype=np.int64)


def episode_seeds(seed: int, first: int, decks: int) -> NDArray[np.uint64]:
    """Episode seeds, uint64 [decks], of the decks `first`, `first` + 1, ... of an arena seed."""
    seeds = np.empty(decks, np.uint64)
    child_seeds(np.uint64(seed), first, seeds)
    return seeds


def deal_episodes(rules: Rules, seeds: NDArray[np.uint64]) -> States:
    """The single deals, records [N], of these episode seeds, before the first action."""
    cards = np.empty_like(seeds)
    deal_seeds(seeds, cards)
    states = new_states(rules.single_deal(), len(seeds))
    deal(states, cards)
    return states


@kernel
def _sort_by_policy(states: Any, rows: Any, seating: Any, order: Any, ends: Any) -> None:
    """Put the places of unfinished games into `order`, those of policy 0 first.

    rows: which row of `seating` each game follows. ends: int64 [policies], the end in `order` of
    each policy's games.
    """
    ends[:] = 0
    for i in range(len(states)):
        seat = states[i]["current_player"]
        if seat >= 0:
            ends[seating[rows[i], seat % states[i]["sides"]]] += 1
    start = 0
    for policy in range(len(ends)):
        count = ends[policy]
        ends[policy] = start
        start += count
    for i in range(len(states)):
        seat = states[i]["current_player"]
        if seat >= 0:
            policy = seating[rows[i], seat % states[i]["sides"]]
            order[ends[policy]] = i
            ends[policy] += 1


@kernel
def _first_illegal(legal: Any, actions: Any) -> Any:
    """The first row whose action is not legal, -1 if all are."""
    for k in range(len(actions)):
        if actions[k] < 0 or actions[k] >= legal.shape[1] or not legal[k, actions[k]]:
            return k
    return -1


@kernel
def _step_games(states: Any, order: Any, actions: Any) -> None:
    for k in range(len(order)):
        step_one(states[order[k]], actions[k])


def _ask(
    policy: Policy,
    infos: States,
    legal: NDArray[np.bool_],
    seeds: NDArray[np.uint64],
    rules: Rules,
) -> NDArray[np.int64]:
    """The policy's actions, int64 [N], checked."""
    actions = np.asarray(policy.act(infos, legal, seeds))
    if actions.shape != (len(infos),) or not np.issubdtype(actions.dtype, np.integer):
        raise ValueError(
            f"policy {policy.name!r} returned {actions.dtype} {list(actions.shape)} "
            f"for {len(infos)} seats: int64 [{len(infos)}] is asked for"
        )
    actions = actions.astype(np.int64, copy=False)
    k = _first_illegal(legal, actions)
    if k >= 0:
        allowed = ", ".join(rules.action_name(int(a)) for a in np.flatnonzero(legal[k]))
        raise IllegalActionError(
            f"policy {policy.name!r} chose action {actions[k]}: allowed are {allowed}\n"
            + format_state(infos[k])
        )
    return actions


def _play_chunk(
    policies: Sequence[Policy],
    rules: Rules,
    seeds: NDArray[np.uint64],
    rows: NDArray[np.int64],
    seating: NDArray[np.int64],
) -> States:
    """Play one game for each seed, uint64 [N], seated by that row of `seating`; the last states."""
    n = len(seeds)
    states, infos = deal_episodes(rules, seeds), np.empty(n, GAME_STATE)
    legal, luck = np.empty((n, rules.num_actions), np.bool_), np.empty(n, np.uint64)
    order, ends = np.empty(n, np.int64), np.empty(len(policies), np.int64)
    actions, seats, steps = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.int64)
    while True:
        _sort_by_policy(states, rows, seating, order, ends)
        if ends[-1] == 0:
            return states
        playing = order[: ends[-1]]
        show_turns(states, playing, infos, legal, seats)
        decision_seeds(seeds[playing], seats, steps, luck)
        start = 0
        for policy, end in zip(policies, ends.tolist(), strict=True):
            if end > start:
                mine = slice(start, end)
                shown = states[playing[mine]] if cheats(policy) else infos[mine]
                actions[mine] = _ask(policy, shown, legal[mine], luck[mine], rules)
            start = end
        _step_games(states, playing, actions)
        steps += 1


def play_deals(
    policies: Sequence[Policy],
    rules: Rules,
    seeds: NDArray[np.uint64],
    seating: NDArray[np.int64] | None = None,
    history: bool = False,
) -> Deals:
    """Play one deal from every seed, uint64 [D], in every seating.

    seating: [R, sides], indices into `policies`; a policy plays all seats of a side. Default:
    `match_seating` for two policies. rules: of the table; only single deals are played, whatever
    its match. history: keep the actions.

    The cards and every decision's seed depend on the deck's seed alone, not on the seating or on
    what else is played: a policy against itself plays the same game in every row. ValueError if
    the seating does not fit; IllegalActionError names a policy that breaks the rules.
    """
    rules = rules.single_deal()
    seating = match_seating(rules.sides) if seating is None else np.asarray(seating, np.int64)
    if seating.ndim != 2 or seating.shape[1] != rules.sides:
        raise ValueError(f"seating {list(seating.shape)}: [R, {rules.sides}] is asked for")
    if seating.min(initial=0) < 0 or seating.max(initial=0) >= len(policies):
        raise ValueError(f"seating names policies beyond 0..{len(policies) - 1}")
    start, rotations = time.perf_counter(), len(seating)
    scores = np.empty((rotations, len(seeds), rules.sides), np.int16)
    kept = np.full((rotations, len(seeds), rules.max_history), -1, np.int8) if history else None
    decks = max(1, CHUNK_GAMES // rotations)
    for first in range(0, len(seeds), decks):
        part = seeds[first : first + decks]
        rows = np.repeat(np.arange(rotations), len(part))
        states = _play_chunk(policies, rules, np.tile(part, rotations), rows, seating)
        states = states.reshape(rotations, len(part))
        scores[:, first : first + decks] = states["scores"][..., : rules.sides]
        if kept is not None:
            kept[:, first : first + decks] = states["history"][..., : rules.max_history]
    return Deals(seating, seeds, scores, time.perf_counter() - start, kept)


def play_parts(
    policies: Sequence[Policy],
    rules: Rules,
    seed: int,
    decks: int,
    seating: NDArray[np.int64] | None = None,
    history: bool = False,
    size: int | None = None,
) -> Iterator[Deals]:
    """`play_deals` on the decks 0 .. decks-1 of an arena seed, in parts.

    Whoever asks for them can show how far it is, and stop. size: decks in a part, by default a
    sixteenth of all, within reason. One deck is played beforehand, for
    nothing, so that no clock measures the compiler.
    """
    play_deals(policies, rules, episode_seeds(seed, 0, 1), seating)
    size = size or min(max(decks // 16, 32), 2048)
    for first in range(0, decks, size):
        seeds = episode_seeds(seed, first, min(size, decks - first))
        yield play_deals(policies, rules, seeds, seating, history)
