"""Self-play PPO by RLlib, for those whose cluster runs on Ray (docs/rllib.md).

    python -m training.rllib_ppo --players 2 --env-runners 2 --iterations 50 --run-dir runs/rllib

RLlib's PPO, fed with whole deals by `training.rllib_runner`. One network plays and learns; in some
deals one side is played by a snapshot of it from before.
"""

import argparse
import json
import logging
import shutil
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
import yaml
from gymnasium.spaces import Discrete
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.utils.metrics import (
    ENV_RUNNER_RESULTS,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
)

from briscola_env.checkpoint import LAST, Checkpoint, replace_file
from briscola_env.envs.table import observation_space
from briscola_env.rng import SEAT_STREAM, child_seed, number_below
from training.config import ConfigError, TrainingConfig
from training.learner import precision_of
from training.log import Log
from training.rllib_runner import LEARNER, MARGIN, DealRunner, DealsToBatch, MaskedActorCritic
from training.selfplay import CONFIG, checked_config, new_run

# Before what the command line sets: `league` of configs/default.yaml has no snapshots play.
DEFAULTS = ("league.past=0.25", "league.every=10", "league.pool=3")
STATE = "rllib-"  # and the iteration: RLlib's own checkpoint, in the folder of a run
LOSSES = (
    "policy_loss",
    "vf_loss",
    "entropy",
    "vf_explained_var",
    "gradients_default_optimizer_global_norm",
)
PLAYED = (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME)


def snapshot(number: int) -> str:
    """The name of a snapshot's module."""
    return f"snapshot_{number}"


def module_of(
    agent: str, episode: MultiAgentEpisode, sides: int, share: float, pool: int, **_: Any
) -> str:
    """The module that plays an agent's seat; it follows from the episode's id, the deal's seed.

    In a `share` of the deals one side is played by one snapshot of the `pool`, as likely as others.
    """
    luck = np.uint64(child_seed(np.uint64(int(episode.id_[:16], 16)), SEAT_STREAM))
    chance, side, number = (
        number_below(np.uint64(child_seed(luck, i)), below)
        for i, below in enumerate((1 << 30, sides, pool))
    )
    seat = int(agent.removeprefix("player_"))
    return snapshot(number) if chance < share * (1 << 30) and seat % sides == side else LEARNER


def take_snapshot(algorithm: Algorithm, every: int, pool: int, **_: Any) -> None:
    """Every so many iterations the learner's weights replace the oldest snapshot's.

    With the learner, who saves it, and at once with all runners.
    """
    number, rest = divmod(algorithm.iteration, every)
    if rest == 0:
        group = algorithm.learner_group
        weights = {snapshot((number - 1) % pool): group.get_weights([LEARNER])[LEARNER]}
        group.set_weights(weights)
        algorithm.env_runner_group.foreach_env_runner(
            lambda runner: runner.set_state({COMPONENT_RL_MODULE: weights})
        )


def make_config(config: TrainingConfig, env_runners: int) -> PPOConfig:
    """RLlib's settings from ours; ConfigError for one that it cannot follow.

    env_runners: processes that play, 0 for the learner's own. They share an iteration's deals.
    """
    if config.exact_endgame:
        raise ConfigError("exact_endgame=True: training.rllib_ppo plays every deal to its end")
    league = config.league
    if league.fixed:
        raise ConfigError(f"league.fixed={league.fixed}: training.rllib_ppo has snapshots only")
    if env_runners < 0:
        raise ConfigError(f"--env-runners {env_runners}: 0 or more")
    rules, cuda = config.table, config.device != "cpu" and torch.cuda.is_available()
    spec = _module_spec(config, torch.device("cuda" if cuda else "cpu"))
    modules = (LEARNER, *map(snapshot, range(league.pool)))
    deals = -(-config.deals // max(env_runners, 1))
    plays = rules.players * rules.num_tricks  # a deal has at least these
    total = config.iterations * config.deals * plays
    return (
        PPOConfig()
        .environment(
            observation_space=spec.observation_space,
            action_space=spec.action_space,
            env_config={
                "games": {
                    **rules.to_dict(),
                    "frame": config.frame,
                    "show_points": config.show_points,
                    "recent_tricks": config.recent_tricks,
                },
                "reward_points": config.reward_points,
            },
        )
        .env_runners(
            env_runner_cls=DealRunner,
            num_env_runners=env_runners,
            num_envs_per_env_runner=deals,
            batch_mode="complete_episodes",
        )
        .multi_agent(
            policies=set(modules),
            policy_mapping_fn=partial(
                module_of, sides=rules.sides, share=league.past, pool=league.pool
            ),
            policies_to_train=[LEARNER],
        )
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=dict.fromkeys(modules, spec)))
        .learners(
            num_learners=0,
            num_gpus_per_learner=int(cuda),
            learner_connector=partial(_connector, config.gae_lambda),
            add_default_connectors_to_learner_pipeline=False,
        )
        .training(
            train_batch_size_per_learner=config.deals * plays,
            minibatch_size=min(config.minibatch, config.deals * plays),
            num_epochs=config.epochs,
            lr=[[0, config.learning_rate], [total, config.final_learning_rate]],
            entropy_coeff=[[0, config.entropy_coef], [total, config.final_entropy_coef]],
            clip_param=config.clip_coef,
            vf_loss_coeff=config.value_coef,
            vf_clip_param=float("inf"),
            use_kl_loss=False,
            grad_clip=config.max_grad_norm,
            grad_clip_by="global_norm",
            gamma=1.0,
            lambda_=config.gae_lambda,
        )
        .callbacks(on_train_result=partial(take_snapshot, every=league.every, pool=league.pool))
        .debugging(seed=config.seed, log_level="ERROR")
    )


def _module_spec(config: TrainingConfig, device: torch.device) -> RLModuleSpec:
    """The network, for every module alike."""
    precision = str(precision_of(config, device)).removeprefix("torch.")
    return RLModuleSpec(
        module_class=MaskedActorCritic,
        observation_space=observation_space(config.encoder, "planes"),
        action_space=Discrete(config.table.num_actions),
        model_config={
            "network": {**config.network_sizes, "seed": config.seed},
            "precision": precision,
        },
    )


def _connector(gae_lambda: float, *_spaces: Any) -> DealsToBatch:
    return DealsToBatch(gae_lambda)


# ------------------------------------------------------------------------------------------- files


def to_checkpoint(algorithm: Algorithm, config: TrainingConfig) -> Checkpoint:
    """The learner as what our commands read."""
    weights = algorithm.learner_group.get_weights([LEARNER])[LEARNER]
    facts = {
        "algorithm": f"RLlib {ray.__version__} PPO",
        "seed": config.seed,
        "iterations": algorithm.iteration,
    }
    return Checkpoint(
        rules=config.table,
        frame=config.frame,
        show_points=config.show_points,
        recent_tricks=config.recent_tricks,
        exact_endgame=False,
        reward_points=config.reward_points,
        network=config.network_sizes,
        training=facts,
        weights={name.removeprefix("network."): array for name, array in weights.items()},
    )


def save(algorithm: Algorithm, config: TrainingConfig, run_dir: Path) -> None:
    """Our checkpoint, and RLlib's, a folder, for `--resume`; a whole one is always there."""
    to_checkpoint(algorithm, config).save(run_dir / LAST)
    saved, unfinished = (
        run_dir / f"{STATE}{algorithm.iteration:06}",
        run_dir / f".{STATE}unfinished",
    )
    shutil.rmtree(unfinished, ignore_errors=True)
    algorithm.save_to_path(unfinished.resolve())
    unfinished.rename(saved)
    for other in run_dir.glob(f"{STATE}*"):
        if other != saved:
            shutil.rmtree(other)


def newest_state(run_dir: Path) -> Path:
    """RLlib's checkpoint in the folder of a run; ConfigError if there is none."""
    states = sorted(run_dir.glob(f"{STATE}*"))
    if not states:
        raise ConfigError(f"{run_dir}: no {STATE}* in this folder, so nothing to resume")
    return states[-1]


# --------------------------------------------------------------------------------------------- run


def train(algorithm: Algorithm, config: TrainingConfig, run_dir: Path) -> None:
    """Iterate to the end of the run, with a line of metrics each and a checkpoint now and then."""
    log = Log(run_dir, config, algorithm.iteration, decisions(algorithm))
    try:
        while algorithm.iteration < config.iterations:
            metrics = summary(algorithm.train())
            log.write(algorithm.iteration, decisions(algorithm), metrics)
            print(f"{algorithm.iteration}: {json.dumps(metrics)}", flush=True)
            last = algorithm.iteration == config.iterations
            if last or algorithm.iteration % config.checkpoint_every == 0:
                save(algorithm, config, run_dir)
    finally:
        log.close()


def decisions(algorithm: Algorithm) -> int:
    """How many have been played, all seats together."""
    return int(algorithm.metrics.peek(PLAYED, default=0))


def summary(result: dict[str, Any]) -> dict[str, float]:
    """The numbers of an iteration that matter, from RLlib's several hundred."""
    # An iteration in which all runners died has neither.
    played = result.get(ENV_RUNNER_RESULTS, {})
    learned = result.get("learners", {}).get(LEARNER, {})
    runners, seconds = result["fault_tolerance"], result["time_this_iter_s"]
    numbers = {
        "samples_per_second": played.get(NUM_ENV_STEPS_SAMPLED, 0) / seconds,
        "runners": runners["num_healthy_workers"],
        "restarts": runners["num_remote_worker_restarts"],
        **{name: learned[name] for name in LOSSES if name in learned},
        **{name: played[name] for name in (MARGIN,) if name in played},
    }
    return {name: round(float(value), 5) for name, value in numbers.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m training.rllib_ppo")
    parser.add_argument("--players", type=int, help="2, 3, 4 or 6")
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--env-runners", type=int, default=2, help="processes that play")
    parser.add_argument("--address", help="of a Ray cluster (`auto`: the one of this machine)")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--run-dir", type=Path, help="a new folder for logs and checkpoints")
    where.add_argument("--resume", type=Path, metavar="RUN_DIR", help="go on with a run")
    parser.add_argument(
        "--trust-pickle",
        action="store_true",
        help="RLlib's checkpoints can run code: --resume needs this, for folders that you trust",
    )
    options = parser.parse_args(arguments)
    changes = [*(() if options.resume else DEFAULTS), *options.changes]
    for key, value in (("rules.players", options.players), ("iterations", options.iterations)):
        changes += [] if value is None else [f"{key}={value}"]
    run_dir, algorithm = options.resume or options.run_dir, None
    try:
        if options.resume and not options.trust_pickle:
            raise ConfigError(
                f"--resume {run_dir}: add --trust-pickle, as RLlib's checkpoints can run code"
            )
        config = checked_config(run_dir / CONFIG if options.resume else None, changes)
        settings = make_config(config, options.env_runners)
        state = newest_state(run_dir) if options.resume else None
        if state is None:
            new_run(run_dir, None, changes)
        start_ray(options.address)
        text = yaml.safe_dump(config.model_dump(), sort_keys=False)
        replace_file(run_dir / CONFIG, text.encode())
        torch.set_num_threads(config.threads)
        algorithm = settings.build_algo()
        if state is not None:
            algorithm.restore_from_path(state.resolve())
        train(algorithm, config, run_dir)
    except (ValueError, OSError) as error:
        print(f"training.rllib_ppo: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"stopped; go on with: --resume {run_dir} --trust-pickle", file=sys.stderr)
        return 130
    finally:
        if algorithm is not None:
            algorithm.stop()
    return 0


def start_ray(address: str | None) -> None:
    """Ray of this machine alone, or the cluster at that address; ConnectionError if it isn't there.

    A cluster's nodes get this checkout with the run: they need its packages only.
    """
    ray.init(
        address,
        runtime_env={"working_dir": str(Path(__file__).parents[1])} if address else None,
        ignore_reinit_error=True,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


if __name__ == "__main__":
    sys.exit(main())
