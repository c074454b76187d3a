"""Tianshou: masks and whole deals through its PettingZoo wrapper, and a learner that learns."""

import argparse

import numpy as np
import pytest
import torch
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv

from briscola_env.arena.match import evaluate
from briscola_env.encoding import Encoder
from briscola_env.policies import RandomPolicy
from briscola_env.policies.network import ActorCritic, policy_of
from briscola_env.rules import Rules
from tests.integrations.examples import check_command_line, check_own_decisions
from training import tianshou_ppo
from training.tianshou_ppo import REWARD_POINTS


def collected(rules, deals, games=3, **table):
    """What Tianshou's collector writes."""
    size = Encoder(rules).size
    algorithm = tianshou_ppo.make_algorithm(ActorCritic(size, rules.num_actions, [16], [16]), 1e-3)
    envs = DummyVectorEnv([lambda: tianshou_ppo.make_env(**table)] * games)
    envs.seed(list(range(games)))
    collector = Collector(algorithm, envs, VectorReplayBuffer(1000 * games, games))
    collector.reset()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        collector.collect(n_episode=deals)
    return collector.buffer[collector.buffer.sample_indices(0)]


@pytest.mark.parametrize("players", [2, 3, 4])
def test_whole_deals_become_the_seats_own_decisions(players):
    rules = Rules(players=players)
    episodes = tianshou_ppo.own_episodes(collected(rules, 5, players=players), rules)
    batch = episodes[:]
    shape = (players, 5, rules.num_tricks)
    arrays = (batch.obs.obs, batch.obs.mask, batch.act, batch.rew)
    observations, legal, actions, rewards = (
        array.reshape(*shape, *array.shape[1:]).swapaxes(0, 1) for array in arrays
    )
    check_own_decisions(rules, observations, legal, actions, rewards, REWARD_POINTS)
    over = batch.terminated.reshape(shape)
    assert over[:, :, -1].all()
    assert not over[:, :, :-1].any()
    following = batch.obs_next.obs.reshape(*shape, -1).swapaxes(0, 1)
    np.testing.assert_array_equal(following[:, :, :-1], observations[:, :, 1:])


def test_drawn_deals_are_collected_too():
    # Two jacks are all the points there are: many a deal is drawn, and many a one is not.
    table = {"cards": [0, 1, 2, 5, 10, 11, 12, 15, 20, 21], "hand_size": 2}
    rules = Rules(**table)
    margins = collected(rules, 24, games=1, **table).rew[:, 0].reshape(24, -1).sum(axis=1)
    assert margins[0] != 0
    assert (margins == 0).any()


def test_the_learner_beats_random(capsys):
    args = argparse.Namespace(players=2, seed=1, iterations=6, games=8, deals=32, epochs=4)
    args.minibatch, args.learning_rate = 256, 2e-3
    checkpoint = tianshou_ppo.train(args)
    policy = policy_of(checkpoint, checkpoint.rules, "learner")
    assert evaluate(policy, RandomPolicy(), checkpoint.rules, 500, seed=3).margin.low > 0


def test_the_command(capsys, tmp_path):
    check_command_line(tianshou_ppo.main, capsys, tmp_path, "--games", "2")


def test_a_table_whose_deals_are_not_in_step_is_refused():
    table = {"players": 4, "signals": "free"}
    rules = Rules(**table)
    with pytest.raises(ValueError, match="without swaps and signals"):
        tianshou_ppo.own_episodes(collected(rules, 3, **table), rules)
