"""Saved models of MaskablePPO: refused unless trusted, then played and turned into checkpoints."""

import json
import random
import warnings
import zipfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FlattenObservation
from sb3_contrib import MaskablePPO
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from briscola_env import cli
from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import Checkpoint
from briscola_env.envs.sb3 import BriscolaVecEnv
from briscola_env.policies import GreedyPolicy, make_policy
from briscola_env.policies.sb3 import ModelPolicy, PlanesExtractor, read_model, to_checkpoint
from briscola_env.rules import CheckpointError, Rules
from tests.positions import legal_rows, random_positions, views

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "seed": 3, "device": "cpu"}
NETWORK = {"net_arch": {"pi": [32, 16], "vf": [24]}}


def trained(folder, env, **policy):
    """A model of a few steps of training, saved; its head is spread, so that choices differ."""
    model = MaskablePPO("MultiInputPolicy", env, **SMALL, policy_kwargs={**NETWORK, **policy})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(64)
    model.policy.action_net.weight.data.mul_(100)
    model.save(folder / "model")
    return folder / "model.zip"


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    """SB3's defaults but for the widths, on the plain environment with its defaults."""
    return trained(tmp_path_factory.mktemp("sb3"), gym.make("briscola_env:Briscola-v0"))


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def turns(rules, n):
    """Info states and masks of seats to act, all over the deal."""
    plays = np.random.default_rng(1).integers(0, len(rules.deck), n)
    states = random_positions(rules, n, plays, seed=2)
    return views(states), legal_rows(states), np.zeros(n, np.uint64)


@pytest.mark.parametrize(
    ("table", "policy"),
    [
        ({}, {}),
        ({"frame": "trump_first", "show_points": "all"}, {"activation_fn": torch.nn.ReLU}),
        (
            {"players": 4, "frame": "canonical", "recent_tricks": 2},
            {"share_features_extractor": False},
        ),
        ({"players": 3, "match_wins": 1}, {"features_extractor_class": PlanesExtractor}),
        (
            {"players": 4, "signals": "free", "exchange_seven": True},
            {"features_extractor_class": PlanesExtractor},
        ),
    ],
)
def test_the_checkpoint_plays_the_moves_of_the_model(tmp_path, table, policy):
    file = trained(tmp_path, BriscolaVecEnv(2, **table), **policy)
    model = MaskablePPO.load(file, device="cpu")
    rules = Rules.from_dict(
        {k: table[k] for k in table if k not in ("frame", "show_points", "recent_tricks")}
    )
    checkpoint = to_checkpoint(read_model(file), "model")
    checkpoint.save(tmp_path / "ours.safetensors")
    ours = make_policy(str(tmp_path / "ours.safetensors"), rules)
    infos, legal, seeds = turns(rules, 2000)
    moves = ours.act(infos, legal, seeds)
    # What the model itself says to the environment's observations.
    encoder = checkpoint.encoder
    mask = encoder.columns_to_frame(infos, legal)
    shown = {"observation": encoder.encode(infos), "action_mask": mask.astype(np.int8)}
    actions, _ = model.predict(shown, action_masks=mask, deterministic=True)
    np.testing.assert_array_equal(moves, encoder.to_table(infos, actions))
    np.testing.assert_array_equal(
        moves, ModelPolicy(model, rules, "model").act(infos, legal, seeds)
    )
    assert len(set(moves.tolist())) > 30
    values = model.policy.predict_values(model.policy.obs_to_tensor(shown)[0])[:, 0]
    with torch.inference_mode():
        critic = ours.network.values(torch.from_numpy(shown["observation"]))
    np.testing.assert_allclose(critic, values.detach(), atol=1e-5)


def test_the_environment_shows_the_model_what_the_policy_shows_it(model_file):
    env = BriscolaVecEnv(50, opponent="greedy", seat="random")
    env.seed(0)
    observation, games = env.reset(), env.games.games
    policy = ModelPolicy(read_model(model_file), Rules(), "model")
    for _ in range(15):
        actions, _ = policy.model.predict(
            observation, action_masks=env.games.action_masks(), deterministic=True
        )
        infos = games.info_states()
        mine = policy.act(infos, games.masks(), np.zeros(50, np.uint64))
        np.testing.assert_array_equal(mine, actions)
        observation, *_ = env.step(actions)


# ------------------------------------------------------------------------------ on the command line


def test_without_the_flag_a_model_is_refused_in_one_line_and_not_read(capsys, tmp_path):
    target, file = tmp_path / "was_run", tmp_path / "model.zip"

    class Payload:
        def __reduce__(self):
            return Path.touch, (target,)

    trained(tmp_path, gym.make("briscola_env:Briscola-v0"))
    spoilt = MaskablePPO.load(file, device="cpu")
    spoilt.payload = Payload()
    spoilt.save(file)
    for command in (
        ["evaluate", file],
        ["evaluate", "greedy", "--against", file],
        ["tournament", file, "greedy", "--out", tmp_path / "out"],
        ["export", file, "-o", tmp_path / "ours.safetensors"],
        ["info", file],
        ["evaluate", f"search:5:{file}"],
    ):
        code, out, err = run(capsys, *command)
        assert (code, out) == (2, ""), command
        assert "can run any code" in err
        assert "--trust-pickle" in err
        assert err.count("\n") == 1
    with pytest.raises(CheckpointError, match="can run any code"):
        gym.make("Briscola-v0", opponent=str(file))
    assert not target.exists()
    assert not (tmp_path / "ours.safetensors").exists()
    # This is what the flag allows.
    assert run(capsys, "evaluate", file, "--decks", 2, "--json", "--trust-pickle")[0] == 0
    assert target.exists()


def test_evaluate_plays_a_trusted_model_and_its_checkpoint_plays_the_same(
    capsys, model_file, tmp_path
):
    ours = tmp_path / "ours.safetensors"
    code, out, err = run(capsys, "export", model_file, "--trust-pickle", "-o", ours)
    assert (code, out, err) == (0, f"written: {ours}\n", "")
    line = ("evaluate", model_file, ours, "--against", "greedy", "--decks", 50, "--json")
    code, out, _ = run(capsys, *line, "--trust-pickle")
    report = json.loads(out)
    assert code == 0
    first, second = ({**match, "games_per_second": 0} for match in report["matches"])
    assert first.pop("policy") == str(model_file)
    assert second.pop("policy") == str(ours)
    assert first == second
    assert len(report["sha256"][str(model_file)]) == 64
    rules = Checkpoint.load(ours).rules
    match = evaluate(make_policy(str(ours), rules), GreedyPolicy(), rules, 50)
    assert match.margin.value == first["margin"]["value"]
    code, out, _ = run(capsys, "info", ours)
    assert code == 0
    assert "sb3-contrib MaskablePPO" in out
    assert "tanh" in out


def test_a_model_brings_its_rules(capsys, tmp_path):
    file = trained(tmp_path, BriscolaVecEnv(2, players=4, rebury="once"))
    code, out, _ = run(capsys, "evaluate", file, "--trust-pickle", "--decks", 5, "--json")
    assert code == 0
    rules = Rules(players=4, rebury="once")
    assert Rules.from_dict(json.loads(out)["rules"]) == rules
    code, _, err = run(capsys, "evaluate", file, "--trust-pickle", "--players", 2)
    assert code == 2
    assert "players=4 (not 2)" in err


def test_reading_a_model_leaves_the_global_generators_alone(model_file):
    def drawn():
        numpy = np.random.get_state()  # noqa: NPY002 - this is what must not move
        return random.getstate(), numpy[1].tobytes(), torch.get_rng_state().numpy().tobytes()

    before = drawn()
    read_model(model_file)
    assert drawn() == before


# ---------------------------------------------------------------------------------- what is refused


class OwnExtractor(PlanesExtractor):
    """Not ours: it may do anything."""

    def forward(self, observations):
        return super().forward(observations) * 2


@pytest.mark.parametrize(
    ("table", "policy", "says"),
    [
        ({}, {"activation_fn": torch.nn.ELU}, "ELU"),
        ({}, {"net_arch": {"pi": [], "vf": [8]}}, "its actor is without hidden layers"),
        ({}, {"features_extractor_class": OwnExtractor}, "OwnExtractor"),
        ({"observation": "tokens"}, {}, "tokens"),
        ({"exchange_seven": True}, {}, "reads the mask"),
    ],
)
def test_another_network_plays_but_is_not_converted(capsys, tmp_path, table, policy, says):
    file, out = trained(tmp_path, BriscolaVecEnv(2, **table), **policy), tmp_path / "o.safetensors"
    line = ("evaluate", file, "--trust-pickle", "--decks", 2, "--json")
    assert run(capsys, *line)[0] == 0
    code, _, err = run(capsys, "export", file, "--trust-pickle", "-o", out)
    assert code == 2
    assert says in err
    assert str(file) in err
    assert err.count("\n") == 1
    assert not out.exists()


def masked(env):
    return ActionMasker(env, lambda env: env.get_wrapper_attr("action_masks")())


def test_what_was_not_trained_on_our_observations_is_refused(capsys, tmp_path):
    flat = masked(FlattenObservation(gym.make("briscola_env:Briscola-v0")))
    MaskablePPO("MlpPolicy", flat, **SMALL).save(tmp_path / "flat.zip")
    raw = DummyVecEnv([lambda: gym.make("briscola_env:Briscola-v0")])
    normal = VecNormalize(raw, norm_obs_keys=["observation"])
    MaskablePPO("MultiInputPolicy", normal, **SMALL).learn(32).save(tmp_path / "normal.zip")
    PPO("MultiInputPolicy", raw, **SMALL).save(tmp_path / "plain.zip")
    MaskablePPO("MlpPolicy", masked(gym.make("CartPole-v1")), **SMALL).save(tmp_path / "pole.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("hello.txt", "hello")
    (tmp_path / "rubbish.zip").write_bytes(b"rubbish")
    for name, says in {
        "flat": "its observations are not those of Briscola-v0",
        "normal": "VecNormalize",
        "plain": "not a model of MaskablePPO",
        "pole": "its observations are not those of Briscola-v0",
        "other": "not a model of MaskablePPO",
        "rubbish": "not a model of MaskablePPO",
        "lost": "no such file",
    }.items():
        code, out, err = run(capsys, "evaluate", tmp_path / f"{name}.zip", "--trust-pickle")
        assert (code, out) == (2, ""), name
        assert says in err, name
        assert err.count("\n") == 1
