"""Environment steps a second: one game an environment against many in step (docs/rllib.md).

    python -m tests.rllib.throughput

Measured over whole iterations, learning included, and for sampling alone.
"""

import argparse
import cProfile
import logging
import pstats
import time

import ray
import torch
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample

from tests.rllib.plain import plain_config
from training.config import load_config
from training.rllib_ppo import make_config


def steps_per_second(run, seconds):
    """Of `run`, which returns how many steps it did, repeated for so long after a first time."""
    run()
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        steps += run()
    return steps / (time.perf_counter() - start)


def sampled(algorithm):
    episodes = synchronous_parallel_sample(
        worker_set=algorithm.env_runner_group,
        max_env_steps=algorithm.config.total_train_batch_size,
        _uses_new_env_runners=True,
    )
    return sum(map(len, episodes))


def trained(algorithm):
    return algorithm.train()["env_runners"]["num_env_steps_sampled"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8, help="for each measurement")
    parser.add_argument("--deals", type=int, default=2048, help="an iteration")
    parser.add_argument("--profile", action="store_true", help="of an iteration's driver process")
    options = parser.parse_args()
    changes = [f"rules.players={options.players}", f"deals={options.deals}", "threads=2"]
    config = load_config(None, changes)
    torch.set_num_threads(config.threads)
    ray.init(num_cpus=4, log_to_driver=False, logging_level=logging.ERROR)
    # The plain form gets a batch that it can fill in a few seconds.
    forms = {
        "plain, 2 runners": lambda: plain_config(config, 2, fragment=2000),
        "whole deals, 1 runner": lambda: make_config(config, 1),
        "whole deals, 2 runners": lambda: make_config(config, 2),
    }
    for name, settings in forms.items():
        algorithm = settings().build_algo()
        sampling = steps_per_second(lambda: sampled(algorithm), options.seconds)  # noqa: B023
        training = steps_per_second(lambda: trained(algorithm), options.seconds)  # noqa: B023
        print(f"{name}: {sampling:,.0f} sampled, {training:,.0f} trained on a second", flush=True)
        if options.profile:
            with cProfile.Profile() as profile:
                trained(algorithm)
            pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
        algorithm.stop()


if __name__ == "__main__":
    main()
