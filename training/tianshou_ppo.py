"""PPO with Tianshou 2 through its PettingZoo wrapper: masks, whole deals, one network for all.

    python -m training.tianshou_ppo --players 2 --iterations 20 --out runs/tianshou
    briscola evaluate runs/tianshou --against random greedy

An example of the way in for those who have Tianshou. Its multi-agent manager is not used: it gives
an agent only the rewards of its own steps, and of two players whoever leads a trick is paid when
the other has played. So whole deals are collected, and taken apart into the seats' own episodes.
`training.selfplay` is the trainer for strength.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Batch, Collector, ReplayBuffer, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, PettingZooEnv
from tianshou.utils.torch_utils import policy_within_training_step
from torch import nn

from briscola_env import briscola_v0
from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.encoding import Encoder
from briscola_env.policies import RandomPolicy
from briscola_env.policies.network import (
    ActorCritic,
    make_checkpoint,
    masked_log_probs,
    policy_of,
)
from briscola_env.rules import Rules

REWARD_POINTS = 40.0  # card points that make a reward of 1


class Actor(nn.Module):
    """The network as Tianshou asks for it: masked logits of observations, and no hidden state."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.network = network

    def forward(self, seen: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, Any]:
        """seen: `obs` int8 [N, size] and `mask` bool [N, num_actions]."""
        logits = self.network.logits(torch.as_tensor(seen.obs))
        return masked_log_probs(logits, torch.as_tensor(seen.mask)), state


class Critic(nn.Module):
    """The same for its values."""

    def __init__(self, network: ActorCritic) -> None:
        super().__init__()
        self.network = network

    def forward(self, seen: Any) -> torch.Tensor:
        """Float32 [N, 1]."""
        return self.network.values(torch.as_tensor(seen.obs))[:, None]


class Env(PettingZooEnv):
    """Tianshou's wrapper without infos: they are kept in arrays, where the None for the winner of
    a drawn deal has no place.
    """

    def step(self, action: Any) -> tuple[dict, list[int], bool, bool, dict]:
        """See PettingZooEnv."""
        *shown, _ = super().step(action)
        return (*shown, {})  # type: ignore[return-value]

    def reset(self, *args: Any, **kwargs: Any) -> tuple[dict, dict]:
        """See PettingZooEnv."""
        observation, _ = super().reset(*args, **kwargs)
        return observation, {}


def make_env(**table: Any) -> Env:
    """One table; its observations are of the seat to act, and say which that is."""
    return Env(briscola_v0.raw_env(frame="trump_first", show_points="all", **table))


def make_algorithm(network: ActorCritic, learning_rate: float) -> PPO:
    """PPO over the decisions of all seats."""
    policy = DiscreteActorPolicy(
        actor=Actor(network), action_space=Discrete(network.sizes["num_actions"])
    )
    return PPO(
        policy=policy,
        critic=Critic(network),
        optim=AdamOptimizerFactory(lr=learning_rate),
        gamma=1.0,
        gae_lambda=0.9,
        ent_coef=0.01,
        max_grad_norm=0.5,
        max_batchsize=4096,
    )


def own_episodes(steps: Batch, rules: Rules) -> ReplayBuffer:
    """The seats' own decisions of whole deals, each deal of a seat an episode.

    steps: what the collector wrote, card by card, deal after deal. Without swaps and signals a seat
    decides once a trick; its reward is the trick's, what it sees next is at its next decision.
    """
    tricks, players = rules.num_tricks, rules.players
    length = tricks * players
    over = np.arange(len(steps)) % length == length - 1
    if len(steps) % length or (steps.terminated != over).any():
        raise ValueError("a deal is longer than its cards: play without swaps and signals")
    rewards = steps.rew.reshape(-1, tricks, players, players).sum(axis=2)
    parts = []
    for seat in range(players):
        rows = np.flatnonzero(steps.obs.agent_id == f"player_{seat}")
        seen = Batch(obs=steps.obs.obs[rows], mask=steps.obs.mask[rows])
        following = np.roll(np.arange(len(rows)), -1)
        last = np.arange(len(rows)) % tricks == tricks - 1
        points = rewards[:, :, seat].ravel() * (rules.deck_points / REWARD_POINTS)
        parts.append(
            Batch(
                obs=seen,
                act=steps.act[rows],
                rew=points,
                terminated=last,
                truncated=np.zeros_like(last),
                done=last,
                obs_next=seen[following],
            )
        )
    return ReplayBuffer.from_data(**Batch.cat(parts))


def train(args: argparse.Namespace) -> Checkpoint:
    """Learn from scratch."""
    # Tianshou draws actions and minibatches from the global generators.
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)  # noqa: NPY002
    rules = Rules(players=args.players)
    encoder = Encoder(rules, "trump_first", "all")
    network = ActorCritic(encoder.size, rules.num_actions, [128, 128], [64, 64], args.seed)
    algorithm = make_algorithm(network, args.learning_rate)
    envs = DummyVectorEnv([lambda: make_env(players=args.players)] * args.games)
    size = args.deals * len(rules.deck)
    collector = Collector(algorithm, envs, VectorReplayBuffer(args.games * size, args.games))
    envs.seed([args.seed * args.games + game for game in range(args.games)])
    collector.reset()
    decisions = 0
    for iteration in range(args.iterations):
        with policy_within_training_step(algorithm.policy):
            collector.reset_buffer()
            collector.collect(n_episode=args.deals)
            steps = collector.buffer[collector.buffer.sample_indices(0)]
            episodes = own_episodes(steps, rules)
            stats = algorithm.update(episodes, args.minibatch, args.epochs)
        decisions += len(episodes)
        print(f"{iteration + 1}/{args.iterations}  entropy {stats.ent_loss.mean:.3f}")
    facts = {"algorithm": "Tianshou PPO", "seed": args.seed, "decisions": decisions}
    return make_checkpoint(network, encoder, REWARD_POINTS, facts)


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.tianshou_ppo")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the checkpoint")
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--games", type=int, default=16, help="stepped in turn")
    parser.add_argument("--deals", type=int, default=64, help="an iteration")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatch", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args(arguments)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        checkpoint = train(args)
    except (ValueError, OSError) as error:
        print(f"training.tianshou_ppo: {error}", file=sys.stderr)
        return 2
    checkpoint.save(args.out / LAST)
    policy = policy_of(checkpoint, checkpoint.rules, "learner")
    match = evaluate(policy, RandomPolicy(), checkpoint.rules, 500, args.seed)
    print(f"against random: margin {match.margin.value:+.1f}, score {match.score.value:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
