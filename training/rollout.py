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
from briscola_env.policies.endgame import endgame_margins, exact_cards
from briscola_env.rng import deal_seeds, decision_seeds
from briscola_env.state import States, new_states

Chooser = Callable[
    [NDArray[np.int8], NDArray[np.bool_], NDArray[np.uint64]],
    tuple[NDArray[np.int64], NDArray[np.float32]],
]
"""(observations [N, size], legal [N, A], seeds [N]) -> (actions [N], the logits [N, A] they are
drawn by)."""


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
    logits: NDArray[np.float32]  # [deal, seat, slot, num_actions], by which they were chosen
    rewards: NDArray[np.float32]  # [deal, seat, slot], until the seat's next decision
    valid: NDArray[np.bool_]  # [deal, seat, slot]
    tried: NDArray[np.bool_]  # [deal, seat, slot]: whether each legal action was played out
    returns: NDArray[np.float32]  # [deal, seat, slot, num_actions]: rewards to come then; else 0
    margins: NDArray[np.float32]  # [deal, seat], card points: own side less the mean of the others


@dataclass(frozen=True)
class _Decided:
    """What the seats to move do in some deals, and what `choose` was asked for it."""

    infos: States  # [N]
    legal: NDArray[np.bool_]  # [N, num_actions], at the table
    actions: NDArray[np.int64]  # [N], at the table
    solved: NDArray[np.bool_]  # [N]: played exactly
    own: NDArray[np.int64]  # rows that `choose` decided; what follows is of those, in its frame
    observations: NDArray[np.int8]
    mask: NDArray[np.bool_]
    chosen: NDArray[np.int64]
    logits: NDArray[np.float32]


@dataclass(frozen=True)
class _Table:
    """Who sits there, and how deals end."""

    encoder: Encoder
    choose: Chooser
    exact_endgame: bool
    opponents: Opponents | None

    def decide(
        self, states: States, deals: NDArray[np.int64], luck: NDArray[np.uint64]
    ) -> _Decided:
        """What is done in full states [N]; deals: which of the opponents' they are."""
        seats = states["current_player"].astype(np.int64)
        infos = np.empty_like(states)
        legal = np.empty((len(states), self.encoder.rules.num_actions), np.bool_)
        info_state(states, seats, infos)
        legal_actions(states, legal)
        actions = np.full(len(states), -1)
        solved = np.zeros(len(states), np.bool_)
        own = np.arange(len(states))
        if self.opponents is not None:
            asked = self.opponents.asked(deals, seats % self.encoder.rules.sides)
            own = np.flatnonzero(asked < 0)
            for k, policy in enumerate(self.opponents.policies):
                rows = np.flatnonzero(asked == k)
                if rows.size:
                    actions[rows] = policy.act(infos[rows], legal[rows], luck[rows])
        if self.exact_endgame:
            actions[own] = exact_cards(infos[own])
            solved[own] = actions[own] >= 0
            own = own[~solved[own]]
        mask = self.encoder.columns_to_frame(infos[own], legal[own])
        observations = self.encoder.encode(infos[own])
        chosen, logits = self.choose(observations, mask, luck[own])
        actions[own] = self.encoder.to_table(infos[own], chosen)
        return _Decided(infos, legal, actions, solved, own, observations, mask, chosen, logits)

    def advance(
        self, states: States, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Take actions [N], in place: what each seat wins by them [N, players], and what is over.

        An exact end game is won as soon as all hands are open.
        """
        tricks = states["trick"].copy()
        step(states, actions)
        finished = states["trick"] > tricks
        gains = trick_margins(states) * finished[:, None]
        over = states["current_player"] < 0
        if self.exact_endgame:
            open_hands = finished & (states["trick"] == states["draws"])
            gains[open_hands] += endgame_margins(states[open_hands])
            over |= open_hands
        return gains, over

    def play_out(
        self,
        states: States,
        actions: NDArray[np.int64],
        deals: NDArray[np.int64],
        seeds: NDArray[np.uint64],
    ) -> NDArray[np.float32]:
        """What each seat wins from actions on, to the end of the deal: [N, players]."""
        gains, over = self.advance(states, actions)
        margins, live, decisions = gains, np.arange(len(states)), 0
        while not over.all():
            live, states = live[~over], states[~over]
            luck = np.empty(live.size, np.uint64)
            seats = states["current_player"].astype(np.int64)
            decision_seeds(seeds[live], seats, np.full(live.size, decisions), luck)
            gains, over = self.advance(states, self.decide(states, deals[live], luck).actions)
            margins[live] += gains
            decisions += 1
        return margins

    def try_all(
        self,
        states: States,
        legal: NDArray[np.bool_],
        deals: NDArray[np.int64],
        seeds: NDArray[np.uint64],
    ) -> NDArray[np.float32]:
        """What the seats to move win after each legal action, [N, num_actions]; 0 for others.

        All actions of a decision are played out in the same deal with the same luck.
        """
        rows, moves = np.nonzero(legal)
        seats = states["current_player"][rows]
        margins = self.play_out(states[rows], moves, deals[rows], seeds[rows])
        table = np.zeros(legal.shape, np.float32)
        table[rows, moves] = margins[np.arange(len(rows)), seats]
        return table


def collect(
    encoder: Encoder,
    seeds: NDArray[np.uint64],
    choose: Chooser,
    reward_points: float,
    exact_endgame: bool = False,
    counterfactual_tricks: int = 0,
    opponents: Opponents | None = None,
) -> Rollout:
    """Play one deal for each episode seed, every seat choosing by `choose` or by its opponent.

    Only decisions of `choose` are kept: the slots of an opponent's seats are not valid.

    reward_points: card points that make a reward of 1. A trick's points, less the mean of what the
    other sides won in it, reward every seat of a side for its last decision. exact_endgame (two
    players): the end game is played exactly, and what it is worth is the reward for the decisions
    before. counterfactual_tricks: so many of the last tricks (before an exact end game) are ones in
    which every legal action of a decision is played out, with the cards as they lie.
    """
    rules, n = encoder.rules, len(seeds)
    table = _Table(encoder, choose, exact_endgame, opponents)
    states = new_states(rules, n)
    cards = np.empty_like(seeds)
    deal_seeds(seeds, cards)
    deal(states, cards)
    ending = rules.num_tricks - (rules.hand_size if exact_endgame else 0) - counterfactual_tricks
    rollout = _blank_rollout(encoder, n)
    counts = np.zeros((n, rules.players), np.int64)  # decisions made, [deal, seat]
    live, playing = np.arange(n), states  # the deals that go on, and their records
    decisions = 0
    while live.size:
        seats = playing["current_player"].astype(np.int64)
        luck = np.empty(live.size, np.uint64)
        decision_seeds(seeds[live], seats, np.full(live.size, decisions), luck)
        made = table.decide(playing, live, luck)
        own = made.own
        place = (live[own], seats[own], counts[live[own], seats[own]])
        rollout.observations[place] = made.observations
        rollout.legal[place] = made.mask
        rollout.actions[place] = made.chosen
        rollout.logits[place] = made.logits
        rollout.valid[place] = True
        late = playing["trick"][own] >= ending
        late &= made.mask.sum(axis=1) > 1
        if late.any():
            rows = own[late]
            worth = table.try_all(playing[rows], made.legal[rows], live[rows], luck[rows])
            place = tuple(index[late] for index in place)
            rollout.tried[place] = True
            rollout.returns[place] = encoder.columns_to_frame(made.infos[rows], worth)
        counts[live, seats] += ~made.solved
        decisions += 1
        gains, over = table.advance(playing, made.actions)
        rollout.margins[live] += gains
        rollout.rewards[live[:, None], np.arange(rules.players), counts[live] - 1] += gains
        if over.any():
            live, playing = live[~over], playing[~over]
    rollout.rewards[:] /= reward_points
    rollout.returns[:] /= reward_points
    return rollout


def _blank_rollout(encoder: Encoder, deals: int) -> Rollout:
    shape = (deals, encoder.rules.players, slots_per_seat(encoder))
    actions = encoder.rules.num_actions
    return Rollout(
        np.zeros((*shape, encoder.size), np.int8),
        np.zeros((*shape, actions), np.bool_),
        np.zeros(shape, np.int64),
        np.zeros((*shape, actions), np.float32),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.bool_),
        np.zeros(shape, np.bool_),
        np.zeros((*shape, actions), np.float32),
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
