"""Networks in the arena: checkpoints bring their rules, and are refused for others."""

import json

import pytest

from briscola_env import cli
from briscola_env.checkpoint import BEST, LAST
from briscola_env.rules import Rules
from tests.train.test_checkpoint import make_checkpoint


@pytest.fixture
def run_folder(tmp_path):
    """A run for four players with two checkpoints, the best of which is another net."""
    rules = Rules(players=4, exchange_seven=True, match_wins=2)
    make_checkpoint(rules, seed=1).save(tmp_path / LAST)
    make_checkpoint(rules, seed=2).save(tmp_path / BEST)
    return tmp_path


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_rules_are_the_checkpoints_but_for_the_match(capsys, run_folder):
    code, out, _ = run(capsys, "evaluate", run_folder, "--decks", 20, "--json")
    report = json.loads(out)
    assert code == 0
    assert Rules.from_dict(report["rules"]) == Rules(players=4, exchange_seven=True)
    assert [match["opponent"] for match in report["matches"]] == ["random", "greedy"]


def test_a_folder_is_its_best_checkpoint_and_the_hash_says_so(capsys, run_folder):
    policies = (run_folder, run_folder / BEST, run_folder / LAST)
    code, out, _ = run(
        capsys, "evaluate", *policies, "--against", run_folder, "--decks", 50, "--json"
    )
    report = json.loads(out)
    assert code == 0
    folder, best, last = (report["sha256"][str(policy)] for policy in policies)
    assert folder == best != last
    margins = [match["margin"]["value"] for match in report["matches"]]
    assert margins[:2] == [0, 0]
    assert margins[2] != 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--players", 2), "players=4 (not 2)"),
        (("--rule", "exchange_seven=false"), "exchange_seven=True (not False)"),
        (("--rule", "signals=free"), "signals='off' (not 'free')"),
    ],
)
def test_a_contradiction_to_the_checkpoint_is_one_clear_line(capsys, run_folder, options, says):
    code, out, err = run(capsys, "evaluate", run_folder, *options)
    assert (code, out) == (2, "")
    assert err.startswith("briscola: ")
    assert says in err
    assert err.count("\n") == 1


def test_checkpoints_for_different_tables_do_not_meet(capsys, run_folder, tmp_path):
    make_checkpoint(Rules()).save(tmp_path / "two.safetensors")
    code, _, err = run(capsys, "evaluate", run_folder, "--against", tmp_path / "two.safetensors")
    assert code == 2
    assert "players=2 (not 4)" in err


def test_a_broken_file_and_an_empty_folder_are_one_clear_line(capsys, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}      rubbish")
    for path in (tmp_path / "empty", tmp_path / "broken.safetensors"):
        code, out, err = run(capsys, "evaluate", path)
        assert (code, out) == (2, "")
        assert str(path) in err
        assert err.count("\n") == 1


def test_a_tournament_refuses_a_checkpoint_that_was_trained_on(capsys, run_folder, tmp_path):
    line = ("tournament", run_folder, "random", "--decks", 16, "--out", tmp_path / "out")
    assert run(capsys, *line)[0] == 0
    assert run(capsys, *line)[0] == 0
    make_checkpoint(Rules(players=4, exchange_seven=True), seed=3).save(run_folder / BEST)
    code, _, err = run(capsys, *line)
    assert code == 2
    assert "has changed since it played" in err
