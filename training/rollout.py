"""Whole deals of self-play: all seats' decisions as arrays [deal, seat, slot].

A seat makes a bounded number of decisions a deal, so a slot is simply the number of its decision;
`valid` marks those that were made. Advantages run along one seat's own decisions: no bootstrapping,
no change of sign between players who see different things.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from briscola_env.dealing import deal
from briscola_env.encoding import Encoder
from briscola_env.engine import legal_actions, step, trick_margins
from briscola_env.information import info_state
from briscola_env.policies.base import Policy
from briscola_env.policies.endgame import exact_cards
from briscola_env.policies.exact import open_margins
from briscola_env.rng import deal_seeds, decision_seeds
from briscola_env.state import new_states

Chooser = Callable[
    [NDArray[np.int8], NDArray[np.bool_], NDArray[np.uint64]],
    tuple[NDArray[np.int64], NDArray[np.float32]],
]
"""(observations [N, size], legal [N, A], seeds [N]) -> (actions [N], their log-probabilities)."""


@dataclass(frozen=True)
class Opponents:
    """Who else plays in which deals, the whole deal through."""

    policies: Sequence[Policy]
    which: NDArray[np.int64]  # [deal]: index of the policy; -1: `choose` plays every seat
    side: NDArray[np.int64]  # [deal]: the side that `choose` plays against a policy

    def part(self, select: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> "Opponents":
        """The same for some of the deals."""
        return Opponents(self.policies, select(self.which), select(self.side))

    def asked(self, deals: NDArray[np.int64], sides: NDArray[np.int64]) -> NDArray[np.int64]:
        """Index of the policy that moves for these sides in these deals, -1: `choose` does."""
        return np.where(sides != self.side[deals], self.which[deals], -1)


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
    encoder: Encoder,
    seeds: NDArray[np.uint64],
    choose: Chooser,
    reward_points: float,
    exact_endgame: bool = False,
    opponents: Opponents | None = None,
) -> Rollout:
    """Play one deal for each episode seed, every seat choosing by `choose` or by its opponent.

    Only decisions of `choose` are kept: the slots of an opponent's seats are not valid.

    reward_points: card points that make a reward of 1. A trick's points, less the mean of what the
    other sides won in it, reward every seat of a side for its last decision. exact_endgame: the end
    is not played by `choose`; what it is worth with all hands open (`open_margins`) is the reward
    for the decisions before.
    """
    rules, n = encoder.rules, len(seeds)
    states = new_states(rules, n)
    cards = np.empty_like(seeds)
    deal_seeds(seeds, cards)
    deal(states, cards)
    rollout = _blank_rollout(encoder, n)
    counts = np.zeros((n, rules.players), np.int64)  # decisions made, [deal, seat]
    live, playing = np.arange(n), states  # the deals that go on, and their records
    decisions = 0
    while live.size:
        seats = playing["current_player"].astype(np.int64)
        infos, legal = np.empty_like(playing), np.empty((live.size, rules.num_actions), np.bool_)
        info_state(playing, seats, infos)
        legal_actions(playing, legal)
        luck = np.empty(live.size, np.uint64)
        decision_seeds(seeds[live], seats, np.full(live.size, decisions), luck)
        actions = np.empty(live.size, np.int64)
        own, solved = np.arange(live.size), np.zeros(live.size, np.bool_)
        if opponents is not None:
            asked = opponents.asked(live, seats % rules.sides)
            own = np.flatnonzero(asked < 0)
            for k, policy in enumerate(opponents.policies):
                rows = np.flatnonzero(asked == k)
                if rows.size:
                    actions[rows] = policy.act(infos[rows], legal[rows], luck[rows])
        if exact_endgame:
            actions[own] = exact_cards(infos[own])
            solved[own] = actions[own] >= 0
            own = own[~solved[own]]
        if own.size:
            mask = encoder.columns_to_frame(infos[own], legal[own])
            observations = encoder.encode(infos[own])
            chosen, log_probs = choose(observations, mask, luck[own])
            place = (live[own], seats[own], counts[live[own], seats[own]])
            rollout.observations[place] = observations
            rollout.legal[place] = mask
            rollout.actions[place] = chosen
            rollout.log_probs[place] = log_probs
            rollout.valid[place] = True
            actions[own] = encoder.to_table(infos[own], chosen)
        counts[live, seats] += ~solved
        decisions += 1
        tricks = playing["trick"].copy()
        step(playing, actions)
        finished = playing["trick"] > tricks
        gains = trick_margins(playing) * finished[:, None]
        over = playing["current_player"] < 0
        if exact_endgame:
            open_hands = finished & (playing["trick"] == playing["draws"])
            if open_hands.any():
                gains[open_hands] += open_margins(playing[open_hands])
            over |= open_hands
        rollout.margins[live] += gains
        rollout.rewards[live[:, None], np.arange(rules.players), counts[live] - 1] += (
            gains / reward_points
        )
        if over.any():
            live, playing = live[~over], playing[~over]
    return rollout


def _blank_rollout(encoder: Encoder, deals: int) -> Rollout:
    shape = (deals, encoder.rules.players, slots_per_seat(encoder))
    return Rollout(
        np.zeros((*shape, encoder.size), np.int8),
        np.zeros((*shape, encoder.rules.num_actions), np.bool_),
        np.zeros(shape, np.int64),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.bool_),
        np.zeros(shape[:2], np.float32),
    )


def slots_per_seat(encoder: Encoder) -> int:
    """The most decisions that one seat can have in a deal."""
    rules = encoder.rules
    signals = rules.num_tricks - rules.signals_from_trick if rules.messages else 0
    return rules.num_tricks + rules.num_swaps + signals


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
