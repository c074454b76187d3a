"""Environment steps a second of processor time, stage by stage, in one process (docs/rllib.md).

    python -m tests.rllib.stages

Needs no Ray cluster, and other programs on the machine change the numbers little.
"""

import pickle
import time

import torch
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

from tests.rllib.plain import plain_config
from training.config import load_config
from training.rllib_ppo import DEFAULTS, make_config
from training.rllib_runner import DealRunner


def report(name, steps, run):
    """The fastest of some runs, as memory and neighbours slow down the others; what it returns."""
    best, result = 0.0, None
    for _ in range(6):
        start = time.process_time()
        result = run()
        best = max(best, steps(result) / (time.process_time() - start))
    print(f"{name}: {best:,.0f}", flush=True)
    return result


def count(episodes):
    return sum(map(len, episodes))


def main():
    torch.set_num_threads(1)
    config = load_config(None, [*DEFAULTS, "network.suits=0", "deals=2048"])
    plain = MultiAgentEnvRunner(config=plain_config(config, 0, 500), worker_index=1)
    report("plain: a runner plays", count, plain.sample)
    settings = make_config(config, 2)
    runner = DealRunner(config=settings, worker_index=1)
    runner.set_state({"rl_module": runner.module.get_state()})
    episodes = report("whole deals: a runner plays", count, runner.sample)
    data = pickle.dumps(episodes, 5)
    steps = count(episodes)
    report("whole deals: a runner packs", lambda _: steps, lambda: pickle.dumps(episodes, 5))
    report("whole deals: the learner unpacks", count, lambda: pickle.loads(data))
    learner = settings.build_learner(spaces=runner.get_spaces())
    report(
        "whole deals: the learner learns",
        lambda _: steps,
        lambda: learner.update(
            episodes=episodes,
            timesteps={"num_env_steps_sampled_lifetime": 0},
            num_epochs=settings.num_epochs,
            minibatch_size=settings.minibatch_size,
            shuffle_batch_per_epoch=True,
        ),
    )


if __name__ == "__main__":
    main()
