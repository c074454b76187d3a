"""Environment steps a second: one game an environment against many in step (docs/rllib.md).

    python -m tests.rllib.throughput

By the clock, and by processor time: that of the learner's process and of the slowest runner, which
are what one waits for, as runners play at the same time and the learner waits for them. Other
programs on the machine change the second number little.
"""

import argparse
import logging
import time

import ray
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample

from tests.rllib.plain import plain_config
from training.config import load_config
from training.rllib_ppo import DEFAULTS, make_config


def sampled(algorithm):
    episodes = synchronous_parallel_sample(
        worker_set=algorithm.env_runner_group,
        max_env_steps=algorithm.config.total_train_batch_size,
        _uses_new_env_runners=True,
    )
    return sum(map(len, episodes))


def trained(algorithm):
    return algorithm.train()["env_runners"]["num_env_steps_sampled"]


def clocks(algorithm):
    """Seconds: of the clock, of this process, of each runner."""
    runners = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: time.process_time(), local_env_runner=False
    )
    return [time.perf_counter(), time.process_time(), *runners]


def measure(name, algorithm, run, seconds):
    run(algorithm)  # compiles, fills caches
    start, steps = clocks(algorithm), 0
    while time.perf_counter() - start[0] < seconds:
        steps += run(algorithm)
    spent = [after - before for before, after in zip(start, clocks(algorithm), strict=True)]
    clock, learner, runner = spent[0], spent[1], max(spent[2:])
    print(
        f"{name}, {run.__name__}: {steps / clock:,.0f} a second by the clock, "
        f"{steps / (learner + runner):,.0f} of processor time "
        f"(learner's process {learner / (learner + runner):.0%})",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.rllib.throughput")
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--deals", type=int, default=2048, help="an iteration")
    parser.add_argument("--seconds", type=float, default=6, help="for each measurement")
    options = parser.parse_args()
    config = load_config(
        None,
        [
            *DEFAULTS,
            "network.suits=0",
            f"rules.players={options.players}",
            f"deals={options.deals}",
        ],
    )
    ray.init(num_cpus=4, log_to_driver=False, logging_level=logging.ERROR)
    forms = {
        # Batches that it can fill in seconds.
        "plain, 2 runners": lambda: plain_config(config, 2, fragment=500),
        "whole deals, 1 runner": lambda: make_config(config, 1),
        "whole deals, 2 runners": lambda: make_config(config, 2),
    }
    for name, settings in forms.items():
        algorithm = settings().build_algo()
        for run in (sampled, trained):
            measure(name, algorithm, run, options.seconds)
        algorithm.stop()


if __name__ == "__main__":
    main()
