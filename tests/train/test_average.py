"""The mean of checkpoints."""

from dataclasses import replace

import numpy as np
import pytest

from briscola_env.checkpoint import Checkpoint
from training.average import main
from training.config import load_config
from training.learner import make_learner
from training.selfplay import to_checkpoint

SMALL = ["network.actor=[8]", "network.critic=[8]", "device=cpu"]


@pytest.fixture
def pair(tmp_path):
    paths = [tmp_path / f"{seed}.safetensors" for seed in (1, 2)]
    for seed, path in enumerate(paths, start=1):
        to_checkpoint(make_learner(load_config(None, [*SMALL, f"seed={seed}"]))).save(path)
    return paths


def test_every_weight_is_the_mean_and_the_sources_are_told(pair, tmp_path):
    out = tmp_path / "mean.safetensors"
    assert main([*map(str, pair), "--out", str(out)]) == 0
    one, two, mean = map(Checkpoint.load, (*pair, out))
    for name, array in mean.weights.items():
        assert array.dtype == np.float32
        np.testing.assert_allclose(array, (one.weights[name] + two.weights[name]) / 2, atol=1e-7)
    assert [facts["seed"] for facts in mean.training["of"]] == [1, 2]
    assert mean.rules == one.rules


def test_the_mean_of_one_checkpoint_twice_is_itself(pair, tmp_path):
    out = tmp_path / "same.safetensors"
    assert main([str(pair[0]), str(pair[0]), "--out", str(out)]) == 0
    one, same = map(Checkpoint.load, (pair[0], out))
    assert all((same.weights[name] == array).all() for name, array in one.weights.items())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["network.actor=[9]"], "not of one network: network"),
        (["frame=trump_first"], "not of one network: frame trump_first and canonical"),
        (["exact_endgame=true"], "not of one network: exact_endgame True and False"),
        (["rules.exchange_seven=true"], "not of one network: rules"),
    ],
)
def test_another_network_or_game_is_refused_and_nothing_written(
    changes, message, pair, tmp_path, capsys
):
    other, out = tmp_path / "other.safetensors", tmp_path / "mean.safetensors"
    to_checkpoint(make_learner(load_config(None, [*SMALL, *changes]))).save(other)
    assert main([str(pair[0]), str(other), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_broken_weights_are_refused(pair, tmp_path, capsys):
    broken = Checkpoint.load(pair[0])
    weights = {name: array[:-1] for name, array in broken.weights.items()}
    replace(broken, weights=weights).save(pair[0])
    assert main([*map(str, pair), "--out", str(tmp_path / "mean.safetensors")]) == 2
    assert "do not fit" in capsys.readouterr().err
