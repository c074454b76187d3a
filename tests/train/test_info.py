"""`briscola info` and `briscola export` on our own checkpoints."""

import pytest

from briscola_env import cli, export
from briscola_env.checkpoint import BEST, LAST, Checkpoint
from briscola_env.rules import CheckpointError, Rules
from tests.train.test_checkpoint import make_checkpoint, spoil


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_info_says_what_a_checkpoint_is(capsys, tmp_path):
    rules = Rules(players=4, exchange_seven=True)
    make_checkpoint(rules).save(tmp_path / LAST)
    code, out, err = run(capsys, "info", tmp_path)
    assert (code, err) == (0, "")
    size = make_checkpoint(rules).encoder.size
    weights = (size + 1) * 32 + 33 * 43 + (size + 1) * 8 + 9
    for said in (
        str(tmp_path / LAST),
        "4 players, exchange_seven=True",
        f"{size} features, layout 1 ({make_checkpoint(rules).encoder.digest})",
        "frame=trump_first, show_points=all, recent_tricks=0",
        f"actor {size} x 32 x 43, critic {size} x 8 x 1; relu",
        f"{weights:,} weights; a value of 1 is 40 card points",
        "training  seed: 0",
        "measured  nothing in the file: briscola evaluate",
    ):
        assert said in out, said


def test_info_on_the_best_of_a_run_says_how_strong_it_was_measured(capsys, tmp_path):
    checkpoint = make_checkpoint()
    against = {"margin": 25.25, "interval": [24.0, 26.5], "score": 0.81}
    facts = {"decisions": 1_000_000, "measured": {"decks": 500, "against greedy": against}}
    checkpoint = Checkpoint(
        rules=checkpoint.rules,
        frame="trump_first",
        show_points="all",
        exact_endgame=True,
        reward_points=40.0,
        network=checkpoint.network,
        training=facts,
        weights=checkpoint.weights,
    )
    checkpoint.save(tmp_path / BEST)
    _, out, _ = run(capsys, "info", tmp_path)
    assert "plays     its most probable action; from the reply before the last draw on" in out
    assert "training  decisions: 1,000,000\n" in out
    assert "measured  decks: 500\n" in out
    assert "against greedy: margin 25.25, interval [24 .. 26.5], score 0.81" in out


def test_a_released_model_has_a_card(capsys, tmp_path, monkeypatch):
    make_checkpoint().save(tmp_path / "small.safetensors")
    monkeypatch.setattr(export, "released_models", lambda: {"s": tmp_path / "small.safetensors"})
    _, out, _ = run(capsys, "info", tmp_path / "small.safetensors")
    assert out.endswith(f"card      {tmp_path / 'small.md'}\n")


def test_export_copies_the_best_of_a_run(capsys, tmp_path):
    make_checkpoint(seed=1).save(tmp_path / LAST)
    make_checkpoint(seed=2).save(tmp_path / BEST)
    out = tmp_path / "ours.safetensors"
    assert run(capsys, "export", tmp_path, "-o", out) == (0, f"written: {out}\n", "")
    assert out.read_bytes() == (tmp_path / BEST).read_bytes()


def test_a_broken_checkpoint_is_one_line(capsys, tmp_path):
    path = spoil(tmp_path, lambda header: header["network"].update(activation="gelu"))
    code, out, err = run(capsys, "info", path)
    assert (code, out) == (2, "")
    assert "activation='gelu': allowed are 'relu', 'tanh'" in err
    assert err.count("\n") == 1


def test_checkpoints_from_before_there_was_a_choice_of_activation_are_read(tmp_path):
    path = spoil(tmp_path, lambda header: header["network"].pop("activation"))
    from briscola_env.policies.network import from_checkpoint

    assert from_checkpoint(Checkpoint.load(path), "old").sizes["activation"] == "relu"
    with pytest.raises(CheckpointError):
        Checkpoint.load(tmp_path / "none.safetensors")
