"""The PPO in one file: whole deals, advantages, and a learner that learns."""

from pathlib import Path

import numpy as np
import pytest
import torch

from briscola_env import cli
from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST
from briscola_env.envs.batch import Games
from briscola_env.policies import RandomPolicy
from briscola_env.policies.network import ActorCritic, policy_of
from training import cleanrl_ppo, rollout
from training.cleanrl_ppo import REWARD_POINTS, Args


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_a_rollout_is_every_decision_of_every_seat(players):
    games = Games(20, players=players, frame="trump_first", show_points="all")
    games.reset(seed=1)
    network = ActorCritic(games.encoder.size, 40, [16], [8], seed=1)
    deals = cleanrl_ppo.collect(games, network, torch.Generator().manual_seed(1))
    assert deals.actions.shape == (games.rules.num_tricks, 20, players)
    played = deals.actions.transpose(0, 1).reshape(20, -1).sort().values
    assert played.shape[1] == len(games.rules.deck)
    assert (played.diff() > 0).all()
    assert deals.legal.gather(-1, deals.actions[..., None]).all()
    # Decision number k of a seat is in trick k.
    trick = next(f for f in games.encoder.features if f.name == "trick")
    shown = deals.observations[..., trick.start : trick.stop].argmax(-1)
    assert (shown == torch.arange(len(shown))[:, None, None]).all()
    points = games.returns.astype(float)
    others = points.sum(axis=1, keepdims=True) / (players // games.rules.sides) - points
    margins = points - others / (games.rules.sides - 1)
    np.testing.assert_allclose(deals.rewards.sum(0) * REWARD_POINTS, margins, atol=1e-3)


def test_advantages_are_those_of_the_trainer():
    generator = torch.Generator().manual_seed(0)
    rewards, values = (torch.randn(7, 5, 2, generator=generator) for _ in range(2))
    deals = cleanrl_ppo.Rollout(*(torch.zeros(0) for _ in range(4)), values, rewards)
    by_slot = [array.permute(1, 2, 0).numpy() for array in (rewards, values)]
    expected = rollout.advantages(*by_slot, np.ones((5, 2, 7), bool), 0.8)
    found = cleanrl_ppo.advantages(deals, 0.8).permute(1, 2, 0)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_learner_beats_random(capsys):
    args = Args(num_games=256, iterations=15, minibatch_size=1024)
    checkpoint = cleanrl_ppo.train(args)
    policy = policy_of(checkpoint, checkpoint.rules, "learner")
    assert evaluate(policy, RandomPolicy(), checkpoint.rules, 500, seed=3).margin.low > 15


def test_the_command_writes_what_briscola_reads_and_a_seed_is_a_result(capsys, tmp_path):
    line = ["--iterations", "1", "--num-games", "8", "--players", "3", "--out"]
    data = []
    for name in ("a", "b"):
        assert cleanrl_ppo.main([*line, str(tmp_path / name)]) == 0
        data.append((tmp_path / name / LAST).read_bytes())
    assert data[0] == data[1]
    assert "against greedy: margin" in capsys.readouterr().out
    assert cli.main(["evaluate", str(tmp_path / "a"), "--decks", "3", "--json"]) == 0


def test_mistakes_are_one_line(capsys, tmp_path):
    assert cleanrl_ppo.main(["--players", "5", "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "players=5" in error
    assert error.count("\n") == 1


def test_the_file_is_as_short_as_it_says():
    lines = Path(cleanrl_ppo.__file__).read_text().splitlines()
    assert len(lines) <= 210
