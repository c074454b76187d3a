"""The league: who plays in which deals, what is learned from, who stays in the pool."""

import numpy as np
import pytest
import torch

from briscola_env.encoding import Encoder
from briscola_env.policies import make_policy
from briscola_env.rules import Rules
from tests.train.test_rollout import random_choices, seeds
from training import selfplay
from training.config import ConfigError, load_config
from training.league import League
from training.rollout import Opponents, collect

SMALL = [
    *("network.actor=[16]", "network.critic=[8]", "deals=40", "minibatch=200", "device=cpu"),
    *("iterations=20", "precision=float32", "league.past=0.5", "league.every=1", "league.pool=4"),
]


def make_league(*changes):
    learner = selfplay.make_learner(load_config(None, [*SMALL, *changes]))
    return learner, learner.league


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_an_opponent_plays_the_other_sides_of_its_deals_all_through(players):
    rules = Rules(players=players)
    asked = []

    class Spy:
        name = "spy"

        def act(self, infos, legal, luck):
            asked.append((infos["observer"].copy(), infos["initial_face_up"].copy()))
            return legal.argmax(axis=1)

    n = 30
    which = np.arange(n) % 3 - 1  # nobody, policy 0, policy 1
    side = np.arange(n) % rules.sides
    opponents = Opponents([Spy(), make_policy("greedy", rules)], which, side)
    rollout = collect(Encoder(rules), seeds(n), random_choices(), 40, opponents=opponents)
    for deal in range(n):
        for seat in range(players):
            learns = which[deal] < 0 or seat % rules.sides == side[deal]
            assert rollout.valid[deal, seat].sum() == (rules.num_tricks if learns else 0)
    spied = np.flatnonzero(which == 0)
    theirs = sum(int((np.arange(players) % rules.sides != side[d]).sum()) for d in spied)
    assert sum(len(seats) for seats, _ in asked) == theirs * rules.num_tricks
    # What the learner earns counts the opponent's tricks too.
    np.testing.assert_allclose(rollout.margins.sum(axis=1), 0, atol=1e-3)
    learned = rollout.valid.any(axis=2)
    np.testing.assert_allclose(
        (rollout.rewards.sum(axis=2) * 40)[learned], rollout.margins[learned], atol=1e-3
    )


def test_deals_are_shared_out_as_the_config_says():
    _, league = make_league("league.fixed.expert=0.2", "league.fixed.greedy=0.1")
    learner, _ = make_league()
    weights = selfplay.weights_of(learner.network)
    league.update(torch.zeros(2, 2), 1, weights)
    which = league.opponents(20000, seed=3).which
    names = [member.policy.name for member in league.members]
    assert names == ["past-1", "expert", "greedy"]
    shares = [float((which == k).mean()) for k in (-1, 0, 1, 2)]
    np.testing.assert_allclose(shares, [0.2, 0.5, 0.2, 0.1], atol=0.02)
    assert np.array_equal(which, league.opponents(20000, seed=3).which)


def test_all_deals_can_be_against_past_selves():
    learner, league = make_league("league.past=1", "league.pool=7")
    weights = selfplay.weights_of(learner.network)
    for iteration in range(1, 8):
        league.update(torch.zeros(len(league.members), 2), iteration, weights)
    rng = np.random.default_rng(0)
    for seed in range(200):  # shares whose sum is 1 but for rounding, either way
        for member in league.past:
            member.score = rng.random()
        assert league.opponents(5, seed).which.min() >= 0


def test_those_that_are_hard_to_beat_are_met_more_often_and_stay():
    learner, league = make_league()
    weights = selfplay.weights_of(learner.network)
    for iteration in range(1, 5):
        league.update(torch.zeros(len(league.members), 2), iteration, weights)
    for member, score in zip(league.past, (0.9, 0.2, 0.5, 0.5), strict=True):
        member.score = score
    which = league.opponents(4000, seed=1).which
    assert (which == 1).sum() > 3 * (which == 2).sum() / 2 > (which == 0).sum()
    league.update(torch.zeros(4, 2), 5, weights)
    assert [member.iteration for member in league.past] == [2, 3, 4, 5]


def test_scores_follow_the_deals_and_ratings_the_scores():
    learner, league = make_league("league.fixed.greedy=0.5", "league.past=0")
    weights = selfplay.weights_of(learner.network)
    for _ in range(60):
        ratings = league.update(torch.tensor([[10.0, 9.0]]), 1, weights)
    assert league.members[0].score == pytest.approx(0.9, abs=1e-4)
    # Nine points in ten are 400 * log10(9) = 382 Elo points.
    assert ratings == {"league/rating_greedy": pytest.approx(-381.7, abs=0.5)}


def test_a_snapshot_does_not_change_with_the_learner(tmp_path):
    learner, league = make_league()
    selfplay.iterate(learner)
    before = {name: array.copy() for name, array in league.past[0].weights.items()}
    for _ in range(2):
        selfplay.iterate(learner)
    assert league.past[0].iteration == 1
    for name, array in league.past[0].policy.network.state_dict().items():
        np.testing.assert_array_equal(array.numpy().astype(np.float16), before[name])
    now = selfplay.weights_of(learner.network)
    assert any((now[name].astype(np.float16) != before[name]).any() for name in now)


def test_a_league_goes_on_where_it_was_saved(tmp_path):
    changes = [*SMALL, "league.fixed.greedy=0.2", "evaluation.every=100", "iterations=6"]
    straight = selfplay.begin(tmp_path / "run", None, changes)
    (tmp_path / "run" / "config.yaml").write_text(
        __import__("yaml").safe_dump(straight.config.model_dump())
    )
    for _ in range(3):
        selfplay.iterate(straight)
    selfplay.save(straight, tmp_path / "run", best=False)
    resumed = selfplay.restore(tmp_path / "run", [])
    for learner in (straight, resumed):
        for _ in range(3):
            selfplay.iterate(learner)
    assert resumed.league.scores() == straight.league.scores()
    assert resumed.league.tensors().keys() == straight.league.tensors().keys()
    for mine, theirs in zip(
        resumed.network.state_dict().values(), straight.network.state_dict().values(), strict=True
    ):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["league.past=0.7", "league.fixed.greedy=0.4"], "at most 1"),
        (["league.fixed.greedy=-0.1"], "positive"),
        (["league.fixed.nobody=0.1"], "unknown policy 'nobody'"),
        (["league.fixed.oracle=0.1"], "oracle"),
        (["evaluation.against=[oracle]"], "oracle"),
    ],
)
def test_shares_and_opponents_that_cannot_be_are_refused(changes, message, tmp_path):
    with pytest.raises((ConfigError, ValueError), match=message):
        selfplay.new_run(tmp_path / "run", None, changes)
    assert not (tmp_path / "run").exists()


def test_a_pool_is_no_larger_than_the_config_says():
    learner, league = make_league("league.pool=3")
    assert isinstance(league, League)
    for _ in range(6):
        selfplay.iterate(learner)
    assert len(league.past) == 3
    assert league.past[-1].iteration == 6
