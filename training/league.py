"""Who else plays in training: past selves of the learner, and fixed policies.

A league gives some deals an opponent: one side is the learner's, the others are the opponent's for
the whole deal, and only the learner's decisions are learned from. In all other deals the latest
network plays every seat. Past selves form a bounded pool, half of it the latest, half of it those
that are hardest to beat; the harder, the more often they are met (prioritised fictitious self-play:
Vinyals et al., "Grandmaster level in StarCraft II", 2019, with weight (1 - score)²).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from briscola_env.arena.entrants import load_policy
from briscola_env.encoding import Encoder
from briscola_env.policies import Policy
from briscola_env.policies.network import ActorCritic, sample_actions
from briscola_env.state import States
from training.config import LeagueConfig
from training.rollout import Opponents, Rollout

_SMOOTHING = 0.2  # weight of an iteration's deals in a score


class PastSelf:
    """A snapshot's policy as it was when it learned: a sample from its probabilities."""

    def __init__(self, name: str, network: ActorCritic, encoder: Encoder) -> None:
        self.name = name
        self.network = network
        self.encoder = encoder

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        device = self.network.actor_head.weight.device
        observations = torch.from_numpy(self.encoder.encode(info_states)).to(device)
        with torch.inference_mode():
            logits = self.network.logits(observations).cpu().numpy()
        actions, log_probs = np.empty(len(legal), np.int64), np.empty(len(legal), np.float32)
        mask = self.encoder.columns_to_frame(info_states, legal)
        sample_actions(logits, mask, seeds, actions, log_probs)
        return self.encoder.to_table(info_states, actions)


@dataclass
class Member:
    """An opponent. score: share of late deals in which the learner came out ahead, ties half."""

    policy: Policy
    iteration: int = 0  # when the snapshot was taken
    weights: Mapping[str, NDArray[np.float16]] = field(default_factory=dict)
    score: float = 0.5

    @property
    def rating(self) -> float:
        """Elo points above the learner, which stands at 0 (logistic, 400 a factor of ten)."""
        score = min(max(self.score, 0.001), 0.999)
        return float(400 * np.log10((1 - score) / score))


class League:
    """The pool, the fixed policies, and how they fare.

    make_network: a network of the learner's sizes, to be given a snapshot's weights.
    """

    def __init__(
        self, config: LeagueConfig, encoder: Encoder, make_network: Callable[[], ActorCritic]
    ) -> None:
        self.config = config
        self.encoder = encoder
        self._make_network = make_network
        self.past: list[Member] = []
        self.fixed = [Member(load_policy(name, encoder.rules)) for name in config.fixed]

    @property
    def members(self) -> list[Member]:
        """All opponents; `Opponents.which` counts along this list."""
        return [*self.past, *self.fixed]

    def opponents(self, deals: int, seed: int) -> Opponents:
        """An opponent, or none, for each of an iteration's deals."""
        rng = np.random.default_rng(seed)
        hardness = np.array([(1 - member.score) ** 2 for member in self.past])
        shares = [
            *(self.config.past * hardness / hardness.sum() if self.past else ()),
            *self.config.fixed.values(),
        ]
        odds = np.array([*shares, max(1 - sum(shares), 0)])  # sums are exact but for rounding
        which = rng.choice(len(odds), deals, p=odds / odds.sum())
        which[which == len(shares)] = -1
        sides = rng.integers(0, self.encoder.rules.sides, deals)
        return Opponents([member.policy for member in self.members], which, sides)

    def results(self, opponents: Opponents, rollout: Rollout) -> torch.Tensor:
        """Deals against each member and those in which the learner was ahead: [members, 2]."""
        own = rollout.margins[np.arange(len(opponents.side)), opponents.side]
        won = (own > 0) + 0.5 * (own == 0)
        results = torch.zeros(len(self.members), 2, dtype=torch.float64)
        for k in range(len(results)):
            met = opponents.which == k
            results[k, 0], results[k, 1] = int(met.sum()), float(won[met].sum())
        return results

    def update(
        self, results: torch.Tensor, iteration: int, weights: Mapping[str, NDArray[np.float32]]
    ) -> dict[str, float]:
        """Take an iteration's results and, when it is time, a snapshot; the ratings, to be logged.

        iteration: the number of iterations done. weights: the learner's, as they are now.
        """
        for member, (met, won) in zip(self.members, results.tolist(), strict=True):
            if met:
                member.score += _SMOOTHING * (won / met - member.score)
        ratings = {f"league/rating_{member.policy.name}": member.rating for member in self.members}
        if self.config.past and iteration % self.config.every == 0:
            self._add(
                iteration, {name: array.astype(np.float16) for name, array in weights.items()}
            )
            while len(self.past) > self.config.pool:
                old = self.past[: -max(self.config.pool // 2, 1)]
                self.past.remove(max(old, key=lambda member: member.score))
        return ratings

    def _add(
        self, iteration: int, weights: Mapping[str, NDArray[np.float16]], score: float = 0.5
    ) -> None:
        network = self._make_network()
        network.load_state_dict(
            {name: torch.from_numpy(array.astype(np.float32)) for name, array in weights.items()}
        )
        policy = PastSelf(f"past-{iteration}", network, self.encoder)
        self.past.append(Member(policy, iteration, weights, score))

    # ------------------------------------------------------------------------------ save, restore

    def tensors(self) -> dict[str, NDArray[np.float16]]:
        """The pool's weights by name, float16 as they are played."""
        return {
            f"{member.iteration}/{name}": array
            for member in self.past
            for name, array in member.weights.items()
        }

    def scores(self) -> dict[str, Any]:
        """What else is to be kept, for JSON."""
        return {
            "past": [[member.iteration, member.score] for member in self.past],
            "fixed": {member.policy.name: member.score for member in self.fixed},
        }

    def restore(
        self, tensors: Mapping[str, NDArray[np.float16]], scores: Mapping[str, Any]
    ) -> None:
        """The league as `tensors` and `scores` kept it; KeyError if something is missing."""
        for iteration, score in scores["past"]:
            prefix = f"{iteration}/"
            weights = {
                name.removeprefix(prefix): array
                for name, array in tensors.items()
                if name.startswith(prefix)
            }
            self._add(iteration, weights, score)
        for member in self.fixed:
            member.score = scores["fixed"].get(member.policy.name, member.score)
