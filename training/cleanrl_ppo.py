"""PPO in one file, in the manner of CleanRL, on our batched games: one network learns all seats.

    python -m training.cleanrl_ppo --players 2 --iterations 60 --out runs/cleanrl
    briscola evaluate runs/cleanrl --against random greedy

Nothing here is hidden in a library of ours but the games, the network and its file: copy it and
change it. `training.selfplay` is the trainer for strength.
"""

import argparse
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import nn

from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.envs.batch import Games
from briscola_env.policies import make_policy
from briscola_env.policies.network import (
    ActorCritic,
    entropy,
    make_checkpoint,
    masked_log_probs,
    policy_of,
)

REWARD_POINTS = 40.0  # card points that make a reward of 1


@dataclass
class Args:
    """Each is an option of the command line."""

    out: Path = Path("runs/cleanrl")
    players: int = 2
    seed: int = 1
    iterations: int = 60
    num_games: int = 1024  # whole deals an iteration
    update_epochs: int = 4
    minibatch_size: int = 4096
    learning_rate: float = 1e-3
    gae_lambda: float = 0.9
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5


@dataclass
class Rollout:
    """One deal of every game. Without swaps and signals each seat plays one card a trick, so all
    deals are in step: [tricks, games, seats].
    """

    observations: torch.Tensor  # int8 [.., size]
    legal: torch.Tensor  # bool [.., num_actions]
    actions: torch.Tensor
    log_probs: torch.Tensor
    values: torch.Tensor
    rewards: torch.Tensor


def collect(games: Games, network: ActorCritic, generator: torch.Generator) -> Rollout:
    """Deal in every game and play it to the end, every seat by a sample from the policy."""
    n, players, tricks = games.num_games, games.rules.players, games.rules.num_tricks
    shape, rows = (tricks, n, players), torch.arange(n)
    rollout = Rollout(
        torch.zeros(*shape, games.encoder.size, dtype=torch.int8),
        torch.zeros(*shape, games.rules.num_actions, dtype=torch.bool),
        torch.zeros(shape, dtype=torch.int64),
        *(torch.zeros(shape) for _ in range(3)),
    )
    games.reset()
    for turn in range(tricks * players):
        trick, seats = turn // players, torch.from_numpy(games.seats)
        observations, legal = map(torch.from_numpy, games.observe())
        with torch.inference_mode():
            log_probs = masked_log_probs(network.logits(observations), legal)
            actions = torch.multinomial(log_probs.exp(), 1, generator=generator)
            values = network.values(observations)
        rollout.observations[trick, rows, seats] = observations
        rollout.legal[trick, rows, seats] = legal
        rollout.actions[trick, rows, seats] = actions[:, 0]
        rollout.log_probs[trick, rows, seats] = log_probs.gather(1, actions)[:, 0]
        rollout.values[trick, rows, seats] = values
        # What the last card of a trick wins is a reward for all who played to it.
        rewards, _ = games.step(actions[:, 0].numpy())
        rollout.rewards[trick] += torch.from_numpy(rewards)
    rollout.rewards *= games.rules.deck_points / REWARD_POINTS
    return rollout


def advantages(rollout: Rollout, gae_lambda: float) -> torch.Tensor:
    """Generalised advantage estimation along each seat's own tricks; a deal is short: gamma is 1,
    and nothing follows its last trick.
    """
    result, following = torch.zeros_like(rollout.values), torch.zeros_like(rollout.values[0])
    next_values = torch.zeros_like(following)
    for trick in reversed(range(len(rollout.values))):
        delta = rollout.rewards[trick] + next_values - rollout.values[trick]
        result[trick] = following = delta + gae_lambda * following
        next_values = rollout.values[trick]
    return result


def update(
    args: Args,
    rollout: Rollout,
    network: ActorCritic,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> dict[str, float]:
    """Some epochs of PPO over all decisions of all seats; metrics of the last minibatch."""
    gains = advantages(rollout, args.gae_lambda).flatten()
    returns = gains + rollout.values.flatten()
    gains = (gains - gains.mean()) / (gains.std() + 1e-8)
    observations, legal = rollout.observations.flatten(0, 2), rollout.legal.flatten(0, 2)
    actions, old_log_probs = rollout.actions.flatten(), rollout.log_probs.flatten()
    for _ in range(args.update_epochs):
        for rows in torch.randperm(len(actions), generator=generator).split(args.minibatch_size):
            log_probs = masked_log_probs(network.logits(observations[rows]), legal[rows])
            log_ratio = log_probs.gather(1, actions[rows, None])[:, 0] - old_log_probs[rows]
            ratio = log_ratio.exp()
            clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = -torch.min(ratio * gains[rows], clipped * gains[rows]).mean()
            v_loss = 0.5 * (network.values(observations[rows]) - returns[rows]).square().mean()
            entropy_loss = entropy(log_probs).mean()
            loss = pg_loss + args.vf_coef * v_loss - args.ent_coef * entropy_loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), args.max_grad_norm)
            optimizer.step()
    return {
        "policy_loss": pg_loss.item(),
        "value_loss": v_loss.item(),
        "entropy": entropy_loss.item(),
        "approx_kl": ((ratio - 1) - log_ratio).mean().item(),
    }


def train(args: Args) -> Checkpoint:
    """Learn from scratch."""
    games = Games(args.num_games, players=args.players, frame="trump_first", show_points="all")
    games.reset(seed=args.seed * args.num_games)
    rules, encoder = games.rules, games.encoder
    generator = torch.Generator().manual_seed(args.seed)
    network = ActorCritic(encoder.size, rules.num_actions, [256, 256], [128, 128], args.seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=args.learning_rate, eps=1e-5)
    decisions, start = 0, time.perf_counter()
    for iteration in range(args.iterations):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - iteration / args.iterations)
        rollout = collect(games, network, generator)
        metrics = update(args, rollout, network, optimizer, generator)
        decisions += rollout.actions.numel()
        speed = decisions / (time.perf_counter() - start)
        shown = "  ".join(f"{name} {value:+.4f}" for name, value in metrics.items())
        print(f"{iteration + 1}/{args.iterations}  {shown}  decisions/s {speed:,.0f}")
    facts = {"algorithm": "CleanRL-style PPO", "seed": args.seed, "decisions": decisions}
    return make_checkpoint(network, encoder, REWARD_POINTS, facts)


def parse(arguments: list[str] | None = None) -> Args:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training.cleanrl_ppo",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for field in fields(Args):
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, type=type(field.default), default=field.default, help=" ")
    return Args(**vars(parser.parse_args(arguments)))


def main(arguments: list[str] | None = None) -> int:
    """The command line; the exit code."""
    args = parse(arguments)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        checkpoint = train(args)
    except (ValueError, OSError) as error:
        print(f"training.cleanrl_ppo: {error}", file=sys.stderr)
        return 2
    checkpoint.save(args.out / LAST)
    policy = policy_of(checkpoint, checkpoint.rules, "learner")
    for name in ("random", "greedy"):
        opponent = make_policy(name, checkpoint.rules)
        match = evaluate(policy, opponent, checkpoint.rules, 500, args.seed)
        print(f"against {name}: margin {match.margin.value:+.1f}, score {match.score.value:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
