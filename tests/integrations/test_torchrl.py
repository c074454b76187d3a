"""TorchRL: masks and whole deals through its PettingZoo wrapper, and a learner that learns."""

import argparse

import pytest
import torch

from briscola_env.arena.match import evaluate
from briscola_env.policies import RandomPolicy
from briscola_env.policies.network import ActorCritic, policy_of
from tests.integrations.examples import check_command_line, check_own_decisions
from training import torchrl_ppo
from training.torchrl_ppo import ACTION, MASK, OBSERVATION, REWARD_POINTS

pytestmark = [
    # Its own, about its own future.
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchrl|tensordict"),
]


@pytest.mark.parametrize("players", [2, 3, 4])
def test_whole_deals_become_the_seats_own_decisions(players):
    env = torchrl_ppo.make_env(1, players=players)
    size = env.observation_spec[OBSERVATION].shape[-1]
    actor, _ = torchrl_ppo.make_modules(ActorCritic(size, 40, [16], [16]))
    batch = torchrl_ppo.collect(env, actor, 5)
    check_own_decisions(
        env.rules,
        *(batch[key].numpy() for key in (OBSERVATION, MASK, ACTION)),
        batch["next", "reward"][..., 0].numpy(),
        REWARD_POINTS,
    )
    over = batch["next", "done"][..., 0]
    assert over[:, :, -1].all()
    assert not over[:, :, :-1].any()
    assert torch.equal(batch["next"][OBSERVATION][:, :, :-1], batch[OBSERVATION][:, :, 1:])


def test_the_learner_beats_random(capsys):
    args = argparse.Namespace(players=2, seed=1, iterations=6, deals=32, epochs=4)
    args.minibatch, args.learning_rate = 256, 2e-3
    checkpoint = torchrl_ppo.train(args)
    policy = policy_of(checkpoint, checkpoint.rules, "learner")
    assert evaluate(policy, RandomPolicy(), checkpoint.rules, 500, seed=3).margin.low > 0


def test_the_command(capsys, tmp_path):
    check_command_line(torchrl_ppo.main, capsys, tmp_path)


def test_a_table_whose_deals_are_not_in_step_is_refused():
    env = torchrl_ppo.make_env(1, players=4, signals="free")
    size = env.observation_spec[OBSERVATION].shape[-1]
    actor, _ = torchrl_ppo.make_modules(ActorCritic(size, env.rules.num_actions, [16], [16]))
    with pytest.raises(ValueError, match="without swaps and signals"):
        torchrl_ppo.collect(env, actor, 1)
