"""MaskablePPO of sb3-contrib on our batched games, saved as what `briscola evaluate` reads.

    python -m training.sb3_maskable_ppo --opponent greedy --timesteps 500000 --out runs/sb3

A learner from outside, as a baseline and as an example: it learns one seat against a fixed
opponent. `training.selfplay` is the trainer for strength.
"""

import argparse
import sys
from pathlib import Path

import torch
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.envs.sb3 import BriscolaVecEnv
from briscola_env.policies import make_policy
from briscola_env.policies.network import policy_of

ACTOR, CRITIC = [256, 256], [128, 128]


class Features(BaseFeaturesExtractor):
    """The observation alone: the mask, beside it in the Dict, is not for the network to read."""

    def __init__(self, space: spaces.Dict) -> None:
        super().__init__(space, features_dim=space["observation"].shape[0])

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Float [N, size]."""
        return observations["observation"].float()


def make_model(env: BriscolaVecEnv, seed: int, rollout: int = 20) -> MaskablePPO:
    """MaskablePPO with the network that our checkpoints hold; rollout: steps a game and update."""
    return MaskablePPO(
        "MultiInputPolicy",
        env,
        n_steps=rollout,
        batch_size=min(2048, rollout * env.num_envs),
        n_epochs=4,
        learning_rate=1e-3,
        gamma=1.0,
        gae_lambda=0.9,
        ent_coef=0.01,
        seed=seed,
        device="cpu",
        policy_kwargs={
            "features_extractor_class": Features,
            "activation_fn": torch.nn.ReLU,
            "net_arch": {"pi": ACTOR, "vf": CRITIC},
        },
    )


def to_checkpoint(model: MaskablePPO, env: BriscolaVecEnv) -> Checkpoint:
    """The model's weights under the names of our network."""
    encoder, parts = env.games.games.encoder, model.policy.mlp_extractor
    weights = {}
    for name, module in (
        ("actor_body", parts.policy_net),
        ("actor_head", model.policy.action_net),
        ("critic_body", parts.value_net),
        ("critic_head", model.policy.value_net),
    ):
        for key, tensor in module.state_dict().items():
            weights[f"{name}.{key}"] = tensor.cpu().numpy()
    sizes = {"observation_size": encoder.size, "num_actions": encoder.rules.num_actions}
    facts = {"algorithm": "sb3-contrib MaskablePPO", "decisions": int(model.num_timesteps)}
    return Checkpoint(
        *(encoder.rules.single_deal(), encoder.frame, encoder.show_points, False),
        *(float(encoder.rules.deck_points),),
        *(sizes | {"actor": ACTOR, "critic": CRITIC}, facts, weights),
    )


def main() -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.sb3_maskable_ppo")
    parser.add_argument("--opponent", default="greedy", help="a policy's name or a checkpoint")
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--games", type=int, default=1024, help="stepped together")
    parser.add_argument("--timesteps", type=int, default=500_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the checkpoint")
    options = parser.parse_args()
    try:
        env = BriscolaVecEnv(
            options.games,
            players=options.players,
            opponent=options.opponent,
            seat="random",
            frame="trump_first",
            show_points="all",
        )
        env.seed(options.seed)
        options.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        print(f"training.sb3_maskable_ppo: {error}", file=sys.stderr)
        return 2
    model = make_model(env, options.seed)
    model.learn(options.timesteps, progress_bar=sys.stderr.isatty())
    checkpoint = to_checkpoint(model, env)
    checkpoint.save(options.out / LAST)
    rules = checkpoint.rules
    opponent = make_policy(options.opponent, rules)
    match = evaluate(policy_of(checkpoint, rules, "learner"), opponent, rules, 500, options.seed)
    print(
        f"{options.out / LAST}: score {match.score.value:.3f}, margin {match.margin.value:+.1f} "
        f"({match.margin.low:+.1f} .. {match.margin.high:+.1f}) against {options.opponent}, "
        f"{match.decks} mirrored decks"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
