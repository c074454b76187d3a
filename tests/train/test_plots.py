"""Learning curves and tables of ablations, from the command line."""

import json
from pathlib import Path

import pytest
import yaml

from training import ablate, plots
from training.config import load_config

CONFIGS = Path(__file__).parents[2] / "configs"


def write_log(run, margins):
    run.mkdir()
    lines = [
        {
            "iteration": i + 1,
            "decisions": 600 * (i + 1),
            "charts/samples_per_second": 10.0,
            **{f"eval/margin{end}_greedy": margin for end in ("", "_low", "_high")},
        }
        for i, margin in enumerate(margins)
    ]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_time_is_that_of_training_alone(tmp_path):
    write_log(tmp_path / "a", [1.0, 2.0, 4.0])
    assert [line["minutes"] for line in plots.read_log(tmp_path / "a")] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", ["curve.svg", "curve.png"])
def test_runs_are_drawn_into_one_picture_the_same_each_time(tmp_path, name):
    write_log(tmp_path / "a", [1.0, 2.0, 4.0])
    write_log(tmp_path / "b", [0.0, 3.0])
    arguments = [str(tmp_path / "a"), str(tmp_path / "b"), "--metric", "eval/margin_greedy"]
    for out in (tmp_path / name, tmp_path / f"again-{name}"):
        assert plots.main([*arguments, "--out", str(out)]) == 0
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again-{name}").read_bytes()


def test_without_a_file_the_numbers_are_printed(tmp_path, capsys):
    write_log(tmp_path / "a", [1.0, 2.5])
    assert plots.main([str(tmp_path / "a"), "--metric", "eval/margin_greedy"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("minutes, eval/margin_greedy, low, high")
    assert [line.split() for line in lines[1:]] == [["1.00"] * 4, ["2.00", *["2.50"] * 3]]


@pytest.mark.parametrize(
    ("metric", "run", "message"),
    [("eval/margin_greedy", "nowhere", "not the log of a run"), ("loss", "a", "no 'loss'")],
)
def test_what_cannot_be_drawn_is_one_line(tmp_path, capsys, metric, run, message):
    write_log(tmp_path / "a", [1.0])
    out = tmp_path / "x.svg"
    assert plots.main([str(tmp_path / run), "--metric", metric, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_variants_that_differ_in_one_setting_become_a_table(tmp_path, capsys):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "base: [iterations=1, deals=16, minibatch=100, 'network.actor=[8]', device=cpu]\n"
        "variants: {base: [], slow: [learning_rate=1.0e-9, final_learning_rate=0.0]}\n"
    )
    arguments = [str(plan), "--seeds", "1", "2", "--against", "greedy", "--decks", "10"]
    out = tmp_path / "runs"
    assert ablate.main([*arguments, "--out", str(out)]) == 0
    table = capsys.readouterr().out
    assert [line.split(" | ")[0] for line in table.splitlines() if "±" in line] == [
        "| base",
        "| slow",
    ]
    files = {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    assert len(files) == 4
    # What is there is not trained again.
    assert ablate.main([*arguments, "--out", str(out)]) == 0
    assert files == {path: path.stat().st_mtime_ns for path in out.rglob("*.safetensors")}
    assert table.splitlines()[-2:] == capsys.readouterr().out.splitlines()[-2:]


def test_a_run_with_other_settings_is_not_taken_for_a_variant(tmp_path, capsys):
    plan, out = tmp_path / "plan.yaml", tmp_path / "runs"
    small = "iterations=1, deals=16, minibatch=100, 'network.actor=[8]', device=cpu"
    arguments = [str(plan), "--seeds", "1", "--against", "greedy", "--decks", "10"]
    arguments += ["--out", str(out)]
    plan.write_text(f"base: [{small}]\nvariants: {{base: []}}\n")
    assert ablate.main(arguments) == 0
    capsys.readouterr()
    plan.write_text(f"base: [{small}]\nvariants: {{new: [], base: [gae_lambda=0.5]}}\n")
    assert ablate.main(arguments) == 2
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"training.ablate: {out / 'base-1'} has a run with other settings: name another --out"
    ]
    assert not (out / "new-1").exists()


def test_every_planned_ablation_is_a_setting_that_exists():
    plan = yaml.safe_load((CONFIGS / "ablations" / "settings.yaml").read_text())
    for variant in plan["variants"].values():
        assert load_config(None, [*plan["base"], *variant]).iterations > 0
