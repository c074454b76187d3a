"""MaskablePPO of sb3-contrib on our batched games, saved as what `briscola evaluate` reads.

    python -m training.sb3_maskable_ppo --opponent greedy --timesteps 500000 --out runs/sb3
    briscola evaluate runs/sb3                                  # the checkpoint, of the last model
    briscola evaluate runs/sb3/best_model.zip --trust-pickle    # SB3's own file, of the best one

A learner from outside, as a baseline and as an example: it learns one seat against a fixed
opponent. `training.selfplay` is the trainer for strength.
"""

import argparse
import sys
from pathlib import Path

import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback

from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST
from briscola_env.envs.sb3 import BriscolaVecEnv
from briscola_env.policies import make_policy
from briscola_env.policies.network import policy_of
from briscola_env.policies.sb3 import PlanesExtractor, to_checkpoint

ACTOR, CRITIC = [256, 256], [128, 128]


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
            "features_extractor_class": PlanesExtractor,
            "activation_fn": torch.nn.ReLU,
            "net_arch": {"pi": ACTOR, "vf": CRITIC},
        },
    )


def make_callback(env: BriscolaVecEnv, folder: Path, every: int = 200) -> MaskableEvalCallback:
    """Measures the mean reward of an episode every so many steps of the batch; keeps the best model
    in the folder. SB3's plain EvalCallback asks for no masks.
    """
    return MaskableEvalCallback(
        env,
        n_eval_episodes=env.num_envs,
        eval_freq=every,
        best_model_save_path=str(folder),
        verbose=0,
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
        env, evaluation = (
            BriscolaVecEnv(
                options.games,
                players=options.players,
                opponent=options.opponent,
                seat="random",
                frame="trump_first",
                show_points="all",
            )
            for _ in range(2)
        )
        env.seed(options.seed)
        evaluation.seed(options.seed + options.games)  # other decks
        options.out.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        print(f"training.sb3_maskable_ppo: {error}", file=sys.stderr)
        return 2
    model = make_model(env, options.seed)
    callback = make_callback(evaluation, options.out)
    model.learn(options.timesteps, callback, progress_bar=sys.stderr.isatty())
    checkpoint = to_checkpoint(model, "the model")
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
