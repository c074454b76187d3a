"""Released networks: each by name, with its card, from a checkout and from a wheel."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import Checkpoint, released_models
from briscola_env.cli import main
from briscola_env.policies import make_policy
from briscola_env.rules import Rules

ROOT = Path(__file__).parents[2]
PLAYERS = {"champion-2p": 2, "champion-3p": 3, "champion-4p": 4, "champion-6p": 6, "small-2p": 2}


def test_there_is_a_model_for_each_number_of_players_and_a_small_one():
    assert set(released_models()) == set(PLAYERS)
    for name, path in released_models().items():
        assert Checkpoint.load(name).rules == Rules(players=PLAYERS[name])
        assert path.with_suffix(".md").is_file()
    assert released_models()["small-2p"].stat().st_size < 200_000


@pytest.mark.parametrize("name", PLAYERS)
def test_a_card_names_the_command_that_trains_the_model_and_the_one_that_measures_it(name):
    card = released_models()[name].with_suffix(".md").read_text()
    assert re.search(r"^(python -m training\.selfplay|make) ", card, re.MULTILINE)
    assert f"briscola evaluate {name} --against" in card
    assert "±" in card
    assert "seed" in card


@pytest.mark.parametrize("name", PLAYERS)
def test_a_model_beats_greedy_by_far(name):
    rules = Rules(players=PLAYERS[name])
    match = evaluate(make_policy(name, rules), make_policy("greedy", rules), rules, 200, seed=11)
    assert match.margin.low > 8


def test_the_command_line_knows_a_model_by_its_name_in_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "small-2p", "--against", "random", "--decks", "20"]) == 0
    assert re.search(r"^small-2p +random +20 ", capsys.readouterr().out, re.MULTILINE)
    assert main(["evaluate", "champion-9p", "--decks", "20"]) == 2
    assert "champion-2p" in capsys.readouterr().err


@pytest.mark.slow
def test_a_wheel_brings_the_models_with_it(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True)
    code = """
import briscola_env
from briscola_env.checkpoint import released_models
print(briscola_env.__file__)
print(*released_models())
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    where, names = result.stdout.splitlines()
    assert where.startswith(str(site))
    assert names.split() == sorted(PLAYERS)
    assert not list(site.glob("briscola_env/models/*/"))
