"""Whole deals of self-play: all seats' decisions as arrays [deal, seat, slot].

A seat makes a bounded number of decisions a deal, so a slot is simply the number of its decision;
`valid` marks those that were made. Advantages run along one seat's own decisions: no bootstrapping,
no change of sign between players who see different things.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briscola_env.dealing import deal
from briscola_env.encoding import Encoder
from briscola_env.engine import legal_actions, step
from briscola_env.information import info_state
from briscola_env.state import States, new_states

Chooser = Callable[
    [NDArray[np.int8], NDArray[np.bool_]], tuple[NDArray[np.int64], NDArray[np.float32]]
]
"""(observations [N, size], legal [N, A]) -> (actions [N], their log-probabilities [N])."""


@dataclass(frozen=True)
class Rollout:
    """Decisions in whole deals; cards, masks and actions in the encoder's frame."""

    observations: NDArray[np.int8]  # [deal, seat, slot, size]
    legal: NDArray[np.bool_]  # [deal, seat, slot, num_actions]
    actions: NDArray[np.int64]  # [deal, seat, slot]
    log_probs: NDArray[np.float32]  # [deal, seat, slot], when they were chosen
    rewards: NDArray[np.float32]  # [deal, seat, slot], until the seat's next decision
    valid: NDArray[np.bool_]  # [deal, seat, slot]
    margins: NDArray[np.float32]  # [deal, seat], card points: own side less the mean of the others


def collect(
    encoder: Encoder, seeds: NDArray[np.uint64], choose: Chooser, reward_points: float
) -> Rollout:
    """Play one deal for each seed, every seat choosing by `choose`.

    reward_points: card points that make a reward of 1. A trick's points, less the mean of what the
    other sides won in it, reward every seat of a side for its last decision.
    """
    rules = encoder.rules
    states = new_states(rules, len(seeds))
    deal(states, seeds)
    shape = (len(seeds), rules.players, slots_per_seat(encoder))
    rollout = Rollout(
        np.zeros((*shape, encoder.size), np.int8),
        np.zeros((*shape, rules.num_actions), np.bool_),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.bool_),
        np.zeros(shape[:2], np.float32),
    )
    counts = np.zeros(shape[:2], np.int64)  # decisions made, [deal, seat]
    infos, legal = states.copy(), np.empty((len(seeds), rules.num_actions), np.bool_)
    actions = np.zeros(len(seeds), np.int64)
    while (live := np.flatnonzero(states["current_player"] >= 0)).size:
        seats = states["current_player"][live].astype(np.int64)
        slots = counts[live, seats]
        acting = states if live.size == len(states) else states[live]
        info_state(acting, seats, infos[: live.size])
        legal_actions(acting, legal[: live.size])
        observations = encoder.encode(infos[: live.size])
        mask = encoder.columns_to_frame(acting, legal[: live.size])
        chosen, log_probs = choose(observations, mask)
        place = (live, seats, slots)
        rollout.observations[place] = observations
        rollout.legal[place] = mask
        rollout.actions[place] = chosen
        rollout.log_probs[place] = log_probs
        rollout.valid[place] = True
        counts[live, seats] += 1
        actions[live] = encoder.to_frame(acting, chosen)
        tricks = states["trick"].copy()
        step(states, actions)
        _reward_tricks(states, states["trick"] > tricks, counts, rollout, reward_points)
    return rollout


def slots_per_seat(encoder: Encoder) -> int:
    """The most decisions that one seat can have in a deal."""
    rules = encoder.rules
    signals = rules.num_tricks - rules.signals_from_trick if rules.messages else 0
    return rules.num_tricks + rules.num_swaps + signals


def _reward_tricks(
    states: States,
    finished: NDArray[np.bool_],
    counts: NDArray[np.int64],
    rollout: Rollout,
    reward_points: float,
) -> None:
    """Book the tricks that have just ended, in place, at every seat's last decision."""
    rows = np.flatnonzero(finished)
    if not rows.size:
        return
    sides = int(states["sides"][0])
    winners = states["last_winner"][rows] % sides
    points = states["last_points"][rows].astype(np.float32)
    for seat in range(counts.shape[1]):
        gains = np.where(winners == seat % sides, points, -points / (sides - 1))
        rollout.margins[rows, seat] += gains
        rollout.rewards[rows, seat, counts[rows, seat] - 1] += gains / reward_points


def advantages(
    rewards: NDArray[np.float32],
    values: NDArray[np.float32],
    valid: NDArray[np.bool_],
    gae_lambda: float,
) -> NDArray[np.float32]:
    """Generalised advantage estimates [deal, seat, slot] with gamma 1; 0 where not valid.

    Schulman et al., "High-dimensional continuous control using generalized advantage estimation",
    2016, equation 16; after a seat's last decision the value is 0, as the deal is over.
    """
    result = np.zeros_like(rewards)
    following = np.zeros_like(rewards[..., 0])
    next_value = np.zeros_like(following)
    for slot in range(rewards.shape[-1] - 1, -1, -1):
        delta = rewards[..., slot] + next_value - values[..., slot]
        estimate = delta + gae_lambda * following
        following = np.where(valid[..., slot], estimate, following)
        next_value = np.where(valid[..., slot], values[..., slot], next_value)
        result[..., slot] = np.where(valid[..., slot], estimate, 0)
    return result
