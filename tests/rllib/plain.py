"""RLlib's own runner with one game an environment, for comparison; see docs/rllib.md."""

from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.wrappers.pettingzoo_env import PettingZooEnv
from ray.tune.registry import register_env

from briscola_env import briscola_v0
from training.config import TrainingConfig
from training.rllib_ppo import make_config


def make_env(settings):
    return PettingZooEnv(briscola_v0.raw_env(**settings["games"]))


def plain_config(config: TrainingConfig, env_runners: int, fragment: int) -> PPOConfig:
    """The same run as `make_config`'s, all of it by RLlib: `fragment` plays a runner and sample."""
    settings = make_config(config, env_runners)
    register_env("briscola_plain", make_env)
    steps = fragment * max(env_runners, 1)
    return (
        settings.environment("briscola_plain", disable_env_checking=True)
        .env_runners(
            num_envs_per_env_runner=1,
            rollout_fragment_length=fragment,
            batch_mode="truncate_episodes",
        )
        .learners(add_default_connectors_to_learner_pipeline=True)
        .training(train_batch_size_per_learner=steps, minibatch_size=min(steps, config.minibatch))
        .update_from_dict(
            # What RLlib finds out by itself, or has a default for.
            dict.fromkeys(
                ("env_runner_cls", "_learner_connector", "observation_space", "action_space")
            )
        )
    )
