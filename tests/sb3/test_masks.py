"""Masks reach MaskablePPO through everything that SB3 puts between."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.envs.sb3 import BriscolaVecEnv
from briscola_env.policies import RandomPolicy, make_policy
from briscola_env.policies.sb3 import to_checkpoint
from training.sb3_maskable_ppo import make_callback, make_model

KEYWORDS = {"players": 4, "opponent": "greedy", "seat": "random"}


def make_env():
    return Monitor(TimeLimit(gym.make("briscola_env:Briscola-v0", **KEYWORDS), 500))


def dummy(n):
    return DummyVecEnv([make_env] * n)


def subprocess(n):
    return SubprocVecEnv([make_env] * n, start_method="spawn")


def batched(n):
    return BriscolaVecEnv(n, **KEYWORDS)


@pytest.mark.parametrize("make", [dummy, subprocess, batched])
def test_a_mask_row_is_the_legal_set_of_its_environment(make):
    n = 4
    env = make(n)
    env.seed(3)
    observation = env.reset()
    assert is_masking_supported(env)
    generator, dones = np.random.default_rng(0), 0
    for _ in range(500):
        masks = get_action_masks(env)
        assert masks.shape == (n, 40)
        np.testing.assert_array_equal(masks, observation["action_mask"].astype(bool))
        np.testing.assert_array_equal(masks, observation["observation"][:, :40].astype(bool))
        actions = (masks * generator.random(masks.shape)).argmax(axis=1)
        observation, _, done, infos = env.step(actions)
        dones += done.sum()
        for i in np.flatnonzero(done):
            assert infos[i]["episode"]["l"] == 10
            assert not infos[i]["terminal_observation"]["action_mask"].any()
            assert not infos[i]["TimeLimit.truncated"]
    assert dones > 0
    env.close()


def test_both_in_process_play_the_same_games_from_the_same_seed():
    envs = [dummy(3), batched(3)]
    shown = []
    for env in envs:
        env.seed(8)
        observation, trace = env.reset(), []
        for _ in range(25):
            masks = get_action_masks(env)
            observation, rewards, done, _ = env.step(masks.argmax(axis=1))
            # After a reset DummyVecEnv goes on with the environment's own next episode too.
            trace.append((observation["observation"].tobytes(), rewards.tolist(), done.tolist()))
        shown.append(trace)
    assert shown[0] == shown[1]


def test_without_masks_the_plain_environment_raises_rather_than_plays_on():
    env = gym.make("briscola_env:Briscola-v0", **KEYWORDS)
    observation, _ = env.reset(seed=0)
    with pytest.raises(ValueError, match="may not take action"):
        env.step(int(observation["action_mask"].argmin()))


def test_a_trained_model_is_saved_as_what_our_commands_read(tmp_path):
    env = BriscolaVecEnv(64, opponent="random", frame="trump_first", show_points="all")
    model = make_model(env, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(64 * 20 * 8)
    checkpoint = to_checkpoint(model, "model")
    checkpoint.save(tmp_path / LAST)
    rules = checkpoint.rules
    policy = make_policy(str(tmp_path), rules)
    # The same choices as the model's own, card for card.
    observation = env.reset()
    actions, _ = model.predict(observation, action_masks=get_action_masks(env), deterministic=True)
    infos, legal = env.games.games.info_states(), env.games.games.masks()
    table = env.games.games.encoder.columns_to_table(infos, legal)
    ours = policy.act(infos, table, np.zeros(64, np.uint64))
    mine = env.games.games.encoder.to_frame(infos, ours)
    np.testing.assert_array_equal(mine, actions)
    assert Checkpoint.load(tmp_path).training["algorithm"] == "sb3-contrib MaskablePPO"
    assert evaluate(policy, RandomPolicy(), rules, 300, seed=3).margin.low > 0


def test_the_evaluation_callback_plays_with_masks_and_keeps_the_best_model(tmp_path):
    env, evaluation = (BriscolaVecEnv(32, opponent="random") for _ in range(2))
    model = make_model(env, seed=1)
    callback = make_callback(evaluation, tmp_path, every=20)
    with warnings.catch_warnings():
        # A card that is not in the hand would raise.
        warnings.simplefilter("error")
        model.learn(32 * 20 * 3, callback)
    assert -1 < callback.best_mean_reward < 1
    assert callback.n_calls == 60
    best = MaskablePPO.load(tmp_path / "best_model", device="cpu")
    assert best.num_timesteps in (32 * 20, 32 * 40, 32 * 60)
