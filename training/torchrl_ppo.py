"""PPO with TorchRL through its PettingZoo wrapper: masks, whole deals, one network for all seats.

    python -m training.torchrl_ppo --players 2 --iterations 20 --out runs/torchrl
    briscola evaluate runs/torchrl --against random greedy

An example of the way in for those who have TorchRL: it steps one game at a time.
`training.selfplay` is the trainer for strength.
"""

import argparse
import sys
import warnings
from pathlib import Path

import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.envs.libs.pettingzoo import PettingZooWrapper
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MaskedCategorical, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from briscola_env import briscola_v0
from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.encoding import Encoder
from briscola_env.policies import RandomPolicy
from briscola_env.policies.network import ActorCritic, make_checkpoint, policy_of

OBSERVATION = ("seats", "observation", "observation")
ACTION, MASK = ("seats", "action"), ("seats", "action_mask")
LOG_PROB, VALUE = "log_prob", "state_value"
REWARD_POINTS = 40.0  # card points that make a reward of 1


def make_env(seed: int, **table: object) -> PettingZooWrapper:
    """All seats in one group, the same network's; `("seats", "mask")` says which one is to act."""
    env = briscola_v0.raw_env(frame="trump_first", show_points="all", **table)
    with warnings.catch_warnings():
        # It was last tried with PettingZoo 1.24.3.
        warnings.filterwarnings("ignore", "PettingZoo in TorchRL is tested")
        return PettingZooWrapper(
            env, use_mask=True, group_map={"seats": env.possible_agents}, seed=seed
        )


class Floats(nn.Module):
    """Observations are int8."""

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """The same as float32."""
        return observations.float()


def make_modules(network: ActorCritic) -> tuple[ProbabilisticActor, TensorDictModule]:
    """The network as TorchRL's actor, whose distribution knows the mask, and its critic."""
    actor = nn.Sequential(Floats(), network.actor_body, network.actor_head)
    critic = nn.Sequential(Floats(), network.critic_body, network.critic_head)
    return ProbabilisticActor(
        TensorDictModule(actor, [OBSERVATION], ["logits"]),
        in_keys={"logits": "logits", "mask": MASK},
        out_keys=[ACTION],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
        log_prob_key=LOG_PROB,
    ), TensorDictModule(critic, [OBSERVATION], [VALUE])


def collect(env: PettingZooWrapper, actor: ProbabilisticActor, deals: int) -> TensorDict:
    """Whole deals, every seat playing a sample from the policy: decisions [deals, seats, tricks].

    Without swaps and signals a seat decides once a trick. The wrapper gives rewards and next
    observations card by card; a seat's are those of the trick, and of its next decision.
    """
    collected = []
    for _ in range(deals):
        with torch.no_grad(), set_exploration_type(ExplorationType.RANDOM):
            steps = env.rollout(env.rules.num_tricks * env.rules.players, actor)
        acting = steps["seats", "mask"]
        if not steps["next", "done"][-1]:
            raise ValueError("a deal is longer than its cards: play without swaps and signals")
        seats = torch.arange(env.rules.players)[:, None]
        when = acting.T.nonzero()[:, 1].view(env.rules.players, -1)
        rewards = steps["next", "seats", "reward"].unflatten(0, (-1, env.rules.players)).sum(1)
        own = {key: steps[key][when, seats] for key in (OBSERVATION, ACTION, MASK, LOG_PROB)}
        over = torch.zeros(*when.shape, 1, dtype=torch.bool)
        over[:, -1] = True
        following = {
            OBSERVATION: own[OBSERVATION].roll(-1, 1),
            "reward": rewards.transpose(0, 1) * env.rules.deck_points / REWARD_POINTS,
            "done": over,
            "terminated": over,
        }
        collected.append(TensorDict({**own, "next": TensorDict(following, when.shape)}, when.shape))
    return torch.stack(collected)


def train(args: argparse.Namespace) -> Checkpoint:
    """Learn from scratch."""
    torch.manual_seed(args.seed)  # TorchRL draws actions from the global generator
    env = make_env(args.seed, players=args.players)
    rules, encoder = env.rules, Encoder(env.rules, "trump_first", "all")
    network = ActorCritic(encoder.size, rules.num_actions, [128, 128], [64, 64], args.seed)
    actor, critic = make_modules(network)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01, normalize_advantage=True)
    loss.set_keys(action=ACTION, sample_log_prob=LOG_PROB, value=VALUE)
    gae = GAE(gamma=1.0, lmbda=0.9, value_network=critic, deactivate_vmap=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=args.learning_rate)
    decisions = 0
    for iteration in range(args.iterations):
        batch = gae(collect(env, actor, args.deals)).flatten()
        decisions += len(batch)
        for _ in range(args.epochs):
            for rows in torch.randperm(len(batch)).split(args.minibatch):
                losses = loss(batch[rows])
                optimizer.zero_grad()
                sum(
                    losses[f"loss_{part}"] for part in ("objective", "critic", "entropy")
                ).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        print(f"{iteration + 1}/{args.iterations}  entropy {losses['entropy'].item():.3f}")
    facts = {"algorithm": "TorchRL ClipPPOLoss", "seed": args.seed, "decisions": decisions}
    return make_checkpoint(network, encoder, REWARD_POINTS, facts)


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.torchrl_ppo")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the checkpoint")
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--deals", type=int, default=64, help="an iteration")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatch", type=int, default=512)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    args = parser.parse_args(arguments)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        checkpoint = train(args)
    except (ValueError, OSError) as error:
        print(f"training.torchrl_ppo: {error}", file=sys.stderr)
        return 2
    checkpoint.save(args.out / LAST)
    policy = policy_of(checkpoint, checkpoint.rules, "learner")
    match = evaluate(policy, RandomPolicy(), checkpoint.rules, 500, args.seed)
    print(f"against random: margin {match.margin.value:+.1f}, score {match.score.value:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
