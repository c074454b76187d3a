"""`Games`: the batched interface for learners of one's own."""

from pathlib import Path

import numpy as np
import pytest

from briscola_env.briscola_v0 import raw_env
from briscola_env.envs.batch import Games
from briscola_env.rules import IllegalActionError
from tests.readme import python_blocks

TABLES = [
    {},
    {"players": 3, "reward": "win"},
    {"players": 4, "exchange_seven": True, "signals": "conventional", "frame": "canonical"},
    {"players": 6, "rebury": "once", "show_points": "all", "match_wins": 1} | {"recent_tricks": 3},
]


@pytest.mark.parametrize("keywords", TABLES, ids=lambda keywords: str(keywords.get("players", 2)))
def test_games_are_those_of_the_pettingzoo_environment(keywords):
    """Cards, views, masks and rewards, over several episodes that are dealt again at once."""
    games = Games(3, auto_reset=True, **keywords)
    games.reset(seed=11)
    envs = [raw_env(**keywords) for _ in range(3)]
    for i, env in enumerate(envs):
        env.reset(seed=11 + i)
    generator = np.random.default_rng(0)
    for _ in range(150):
        features, masks = games.observe()
        actions = (masks * generator.random(masks.shape)).argmax(axis=1)
        rewards, over = games.step(actions)
        for i, env in enumerate(envs):
            seen = env.observe(env.agent_selection)
            np.testing.assert_array_equal(features[i], seen["observation"])
            np.testing.assert_array_equal(masks[i], seen["action_mask"])
            env.step(actions[i])
            np.testing.assert_allclose(rewards[i], list(env.rewards.values()), atol=1e-6)
            assert over[i] == all(
                env.terminations[agent] or env.truncations[agent] for agent in env.agents
            )
            if over[i]:
                env.reset()
    assert (games.decisions < 150).all()


def test_finished_games_wait_for_a_reset_and_others_go_on():
    games = Games(4, cards=tuple(range(6)), hand_size=1)
    games.reset(seed=0)
    for _ in range(6):
        games.step(games.observe()[1].argmax(axis=1))
    assert (games.seats == -1).all()
    assert not games.observe()[1].any()
    assert not games.observe()[0].any()
    before = games.states.copy()
    rewards, over = games.step(np.zeros(4, np.int64))
    assert not rewards.any()
    assert not over.any()
    np.testing.assert_array_equal(games.states, before)
    games.reset(which=np.array([False, True, False, False]))
    assert (games.seats >= 0).tolist() == [False, True, False, False]


def test_returns_are_the_points_of_each_seats_side():
    games = Games(5, players=4)
    games.reset(seed=2)
    while (games.seats >= 0).all():
        games.step(games.observe()[1].argmax(axis=1))
    assert (games.returns[:, :2].sum(axis=1) == 120).all()
    np.testing.assert_array_equal(games.returns[:, :2], games.returns[:, 2:])


def test_an_illegal_action_names_the_game_and_changes_nothing():
    games = Games(3)
    games.reset(seed=5)
    masks = games.observe()[1]
    before = games.states.copy()
    actions = masks.argmax(axis=1)
    actions[1] = masks[1].argmin()
    with pytest.raises(IllegalActionError, match="game 1: player_"):
        games.step(actions)
    np.testing.assert_array_equal(games.states, before)


def test_seeds_and_options_are_checked():
    games = Games(2)
    with pytest.raises(ValueError, match="1 seeds for 2 games"):
        games.reset(seed=[3])
    with pytest.raises(ValueError, match="seed=-1"):
        games.reset(seed=-1)
    games.reset(seed=1, options={"dealer": 1, "deck": list(range(40))})
    assert games.states["dealer"].tolist() == [1, 1]
    assert games.states["face_up"].tolist() == [6, 6]


def test_the_example_of_the_docs_runs_as_printed(capsys):
    page = Path(__file__).parent.parent / "docs" / "selfplay.md"
    (example,) = python_blocks(page)
    exec(example, {"__name__": "__main__"})
    assert "points a deal" in capsys.readouterr().out
