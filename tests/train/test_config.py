"""Settings of a run: complete, layered, and checked before any work."""

from pathlib import Path

import pytest

from training.config import ConfigError, load_config

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("preset", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_every_preset_loads(preset):
    assert load_config(preset).iterations > 0


def test_a_preset_lies_over_the_default_and_changes_lie_over_both(tmp_path):
    preset = tmp_path / "preset.yaml"
    preset.write_text("iterations: 7\nnetwork: {critic: [5]}\nrules: {players: 3}\n")
    config = load_config(preset, ["network.actor=[9, 8]", "seed=4"])
    assert (config.iterations, config.seed) == (7, 4)
    assert (config.network.actor, config.network.critic) == ([9, 8], [5])
    assert config.table.players == 3
    assert config.clip_coef == load_config().clip_coef


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["learning_rte=1"], "unknown key 'learning_rte'"),
        (["network.aktor=[3]"], "unknown key 'network.aktor'"),
        (["iterations=0"], "iterations=0"),
        (["frame=sideways"], "frame='sideways'"),
        (["rules.players=5"], "players=5: allowed are 2, 3, 4, 6"),
        (["rules.match_wins=2"], "single deals"),
        (["rules.colour=red"], "unknown rule 'colour'"),
        (["network.actor=[0]"], "at least 1"),
        (["frame=table", "network.suits=8"], "frame=canonical, not frame=table"),
        (["recent_tricks=20"], "recent_tricks=20: a whole number, 0..19, is allowed"),
        (["exact_endgame=true", "rules.players=3"], "exact_endgame needs players=2, 4 or 6"),
        (["exact_endgame=true", "rules.hand_size=5"], "not players=2 with hand_size=5"),
        (
            ["exact_endgame=true", "rules.players=4", "rules.signals=free"],
            "exact_endgame needs players=2, 4 or 6 with hand_size up to 3 and no signals",
        ),
        (["seed"], "key=value"),
        ([f"seed={2**63}"], "seed=9223372036854775808"),
        (["network.actor=[1"], "not YAML"),
        (["evaluation.against=[]"], "evaluation.against=[]"),
    ],
)
def test_a_wrong_setting_is_named(changes, message):
    with pytest.raises(ConfigError) as error:
        load_config(None, changes)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_an_empty_section_empties_it(tmp_path):
    preset = tmp_path / "preset.yaml"
    preset.write_text("league: {fixed: {expert: 0.5}}\n")
    assert load_config(preset, ["league.fixed.greedy=0.1"]).league.fixed == {
        "expert": 0.5,
        "greedy": 0.1,
    }
    assert load_config(preset, ["league.fixed={}"]).league.fixed == {}


def test_shares_that_are_1_but_for_rounding_are_1():
    shares = ["league.past=0.4", *(f"league.fixed.{k}" for k in ("a=0.2", "b=0.3", "c=0.1"))]
    assert load_config(None, shares).league.past == 0.4


def test_a_missing_or_broken_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1")
    with pytest.raises(ConfigError, match="not YAML"):
        load_config(tmp_path / "bad.yaml")
    (tmp_path / "number.yaml").write_text("1: 2")
    with pytest.raises(ConfigError, match="keys and values are expected"):
        load_config(tmp_path / "number.yaml")
