"""The vector environment: game i is the single environment with its seed, whatever the options."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import briscola_env  # noqa: F401 - registers the ids
from briscola_env.envs.vector import BriscolaVectorEnv
from briscola_env.policies import GreedyPolicy
from briscola_env.rules import IllegalActionError

TABLES = {
    "2": {},
    "3-greedy": {"players": 3, "seat": "random", "opponent": "greedy"},
    "4-rich": {
        "players": 4,
        "seat": "random",
        "opponent": ["greedy", "random"],
        "partner": "greedy",
        "exchange_seven": True,
        "signals": "conventional",
        "rebury": "repeat",
    },
    "6-tokens": {
        "players": 6,
        "seat": 3,
        "withdraw": "two_trumps",
        "signals": "free",
        "observation": "tokens",
        "frame": "canonical",
        "reward": "win",
    },
    "2-match": {"match_wins": 2, "max_deals": 3, "seat": 1, "show_points": "all"}
    | {"recent_tricks": 1},
    "2-study": {"cards": tuple(range(0, 40, 4)), "hand_size": 2, "show_points": "own"},
}
MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP}
N = 6


def single(keywords):
    return gym.make("Briscola-v0", **keywords)


def choose(observation, generator):
    mask = observation["action_mask"]
    return (mask * generator.random(mask.shape)).argmax(axis=1)


def assert_same(ours, theirs):
    """Observations, rewards and flags of both; what both say in info."""
    for name in theirs[0]:
        np.testing.assert_array_equal(ours[0][name], theirs[0][name], err_msg=name)
    for mine, other in zip(ours[1:-1], theirs[1:-1], strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-6)
    for name in ("action_mask", "_action_mask", "seat", "_seat"):
        np.testing.assert_array_equal(ours[-1][name], theirs[-1][name], err_msg=name)
    for name in ("winner", "points", "wins"):
        holds = theirs[-1].get(f"_{name}", np.zeros(N, bool))
        np.testing.assert_array_equal(ours[-1].get(f"_{name}", np.zeros(N, bool)), holds)
        for i in np.flatnonzero(holds):
            assert np.array_equal(ours[-1][name][i], theirs[-1][name][i])


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
@pytest.mark.parametrize("table", TABLES)
def test_every_game_is_the_single_environment_with_its_seed(table, mode):
    keywords = TABLES[table]
    ours = gym.make_vec("Briscola-v0", num_envs=N, autoreset_mode=mode, **keywords)
    assert isinstance(ours.unwrapped, BriscolaVectorEnv)
    theirs = SyncVectorEnv([lambda: single(keywords)] * N, autoreset_mode=MODES[mode])
    assert ours.metadata["autoreset_mode"] is theirs.metadata["autoreset_mode"]
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    generator, ends = np.random.default_rng(0), 0
    mine, other = ours.reset(seed=5), theirs.reset(seed=5)
    for _ in range(90):
        assert_same(mine, other)
        assert mine[0] in ours.observation_space
        actions = choose(mine[0], generator)
        mine, other = ours.step(actions), theirs.step(actions)
        ends += int((mine[2] | mine[3]).sum())
        if mode == "same_step" and "_final_obs" in other[-1]:
            np.testing.assert_array_equal(mine[-1]["_final_obs"], other[-1]["_final_obs"])
            for i in np.flatnonzero(other[-1]["_final_obs"]):
                for name, array in other[-1]["final_obs"][i].items():
                    np.testing.assert_array_equal(mine[-1]["final_obs"][i][name], array)
                    assert not mine[-1]["final_obs"][i]["action_mask"].any()
    assert ends >= N


def test_processes_play_the_same_games():
    keywords = TABLES["3-greedy"]
    ours = gym.make_vec("Briscola-v0", num_envs=N, **keywords)
    theirs = AsyncVectorEnv(
        [lambda: gym.make("briscola_env:Briscola-v0", **keywords)] * N, context="spawn"
    )
    generator = np.random.default_rng(1)
    mine, other = ours.reset(seed=2), theirs.reset(seed=2)
    for _ in range(30):
        assert_same(mine, other)
        actions = choose(mine[0], generator)
        mine, other = ours.step(actions), theirs.step(actions)
    theirs.close()


def test_after_an_end_the_next_step_ignores_the_action_and_pays_nothing():
    env = BriscolaVectorEnv(3)
    observation, _ = env.reset(seed=0)
    for _ in range(20):
        assert env.action_masks().any(axis=1).all()
        observation, rewards, terminated, truncated, info = env.step(
            observation["action_mask"].argmax(axis=1)
        )
    assert terminated.all()
    assert not observation["action_mask"].any()
    assert set(info["points"].sum(axis=1)) == {120}
    observation, rewards, terminated, truncated, info = env.step(np.full(3, 39))
    assert not rewards.any()
    assert not (terminated | truncated).any()
    assert (observation["action_mask"].sum(axis=1) == 3).all()


def test_episodes_have_twenty_steps_time_after_time():
    env = BriscolaVectorEnv(4, autoreset_mode="same_step", seat="random", opponent="greedy")
    observation, _ = env.reset(seed=9)
    ends = []
    for t in range(1, 101):
        observation, _, terminated, _, _ = env.step(observation["action_mask"].argmax(axis=1))
        ends += [t] * int(terminated.sum())
    assert ends == [t for t in range(20, 101, 20) for _ in range(4)]


def test_disabled_mode_leaves_the_reset_to_the_caller():
    env = BriscolaVectorEnv(3, autoreset_mode="disabled")
    observation, _ = env.reset(seed=4)
    for _ in range(20):
        observation, *_ = env.step(observation["action_mask"].argmax(axis=1))
    with pytest.raises(ValueError, match=r"games \[0, 1, 2\] are over"):
        env.step(np.zeros(3, np.int64))
    which = np.array([True, False, True])
    observation, info = env.reset(options={"reset_mask": which})
    np.testing.assert_array_equal(info["_action_mask"], which)
    np.testing.assert_array_equal(observation["action_mask"].any(axis=1), which)
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": np.zeros(3, bool)})


def test_an_illegal_action_names_the_game_and_changes_nothing():
    env = BriscolaVectorEnv(4)
    observation, _ = env.reset(seed=1)
    before = env.games.states.tobytes()
    actions = observation["action_mask"].argmax(axis=1)
    actions[2] = observation["action_mask"][2].argmin()
    with pytest.raises(IllegalActionError, match=rf"game 2: player_0 .* action {actions[2]}"):
        env.step(actions)
    assert env.games.states.tobytes() == before
    for wrong in (np.zeros(4), np.zeros(3, np.int64), [[1]] * 4):
        with pytest.raises(IllegalActionError, match="whole numbers"):
            env.step(wrong)


def test_an_illegal_action_may_end_its_own_game_alone():
    env = BriscolaVectorEnv(4, illegal_action="terminate")
    observation, _ = env.reset(seed=1)
    actions = observation["action_mask"].argmax(axis=1)
    actions[2] = observation["action_mask"][2].argmin()
    _, rewards, terminated, _, info = env.step(actions)
    assert terminated.tolist() == [False, False, True, False]
    assert rewards[2] == -1
    assert info["_illegal_action"].tolist() == terminated.tolist()
    assert info["illegal_action"][2] == actions[2]


def test_what_is_returned_is_the_callers_unless_it_asks_for_speed():
    kept, reused = BriscolaVectorEnv(3), BriscolaVectorEnv(3, copy=False)
    for env, same in ((kept, False), (reused, True)):
        first, info = env.reset(seed=1)
        copies = {name: array.copy() for name, array in first.items()}
        mask = info["action_mask"].copy()
        second, *_ = env.step(first["action_mask"].argmax(axis=1))
        assert np.shares_memory(first["observation"], second["observation"]) == same
        changed = any((first[name] != copies[name]).any() for name in first)
        assert changed == same
        np.testing.assert_array_equal(info["action_mask"], mask)


def test_spoiling_what_was_returned_does_not_touch_the_games():
    env, twin = BriscolaVectorEnv(3, seat="random"), BriscolaVectorEnv(3, seat="random")
    mine, info = env.reset(seed=1)
    other, _ = twin.reset(seed=1)
    for _ in range(25):
        actions = other["action_mask"].argmax(axis=1)
        for array in (*mine.values(), info["action_mask"], info["seat"]):
            array[:] = 0
        mine, _, _, _, info = env.step(actions)
        other, *_ = twin.step(actions)
        for name in other:
            np.testing.assert_array_equal(mine[name], other[name])


class Spy(GreedyPolicy):
    """Keeps what it was shown."""

    name = "spy"

    def __init__(self):
        self.shown = []

    def act(self, info_states, legal, seeds):
        self.shown.append((info_states.copy(), legal.copy()))
        return super().act(info_states, legal, seeds)


def test_an_opponent_sees_its_own_hand_and_mask_only():
    spy = Spy()
    env = BriscolaVectorEnv(5, opponent=spy, seat="random")
    observation, _ = env.reset(seed=3)
    for _ in range(19):
        observation, *_ = env.step(observation["action_mask"].argmax(axis=1))
    for infos, legal in spy.shown:
        rows = np.arange(len(infos))
        np.testing.assert_array_equal(infos["observer"], infos["current_player"])
        assert not infos["hands"][rows, 1 - infos["observer"]].any()
        assert (infos["stock"] == -1).all()
        assert not infos["rng"].any()
        own = infos["hands"][rows, infos["observer"]]
        np.testing.assert_array_equal(own[:, None] >> np.arange(40) & 1, legal)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"autoreset_mode": "never"}, "autoreset_mode='never'"),
        ({"seat": 2}, "seat=2"),
        ({"num_envs": 0}, "num_games=0"),
        ({"opponent": "nobody"}, "unknown policy 'nobody'"),
        ({"colour": "red"}, "unknown rule 'colour'"),
        ({"illegal_action": "shrug"}, "illegal_action='shrug'"),
        ({"observation": "pixels"}, "observation='pixels'"),
    ],
)
def test_a_wrong_keyword_is_named(keywords, message):
    with pytest.raises(ValueError, match=message):
        BriscolaVectorEnv(**keywords)
