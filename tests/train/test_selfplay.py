"""The trainer: its update, its files, its resume, and that it learns."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import BEST, LAST, Checkpoint, read_tensors
from briscola_env.policies import RandomPolicy, make_policy
from briscola_env.policies.network import (
    NetworkPolicy,
    entropy,
    kl_from_uniform,
    masked_log_probs,
)
from briscola_env.rules import CheckpointError
from tests.positions import legal_rows, random_positions, views
from training import selfplay
from training.config import ConfigError, load_config
from training.learner import make_learner

ROOT = Path(__file__).parents[2]
TINY = [
    *("network.actor=[16]", "network.critic=[8]", "deals=24", "minibatch=200", "device=cpu"),
    *("iterations=4", "checkpoint_every=2", "evaluation.every=2", "evaluation.decks=4"),
]


def command(*arguments):
    changes = [part for change in TINY for part in ("--set", change)]
    return [sys.executable, "-m", "training.selfplay", *changes, *map(str, arguments)]


def train(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command(*arguments), cwd=ROOT, env=environment, capture_output=True, text=True
    )


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def weights_digest(run):
    weights = Checkpoint.load(run / LAST).weights
    return {name: array.tobytes() for name, array in weights.items()}


def metrics(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def without_clocks(lines):
    clocks = ("per_second", "_share", "seconds")
    return [
        {key: value for key, value in line.items() if not key.endswith(clocks)} for line in lines
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A tiny run from the command line."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    result = train("--run-dir", folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("players", [2, 4])
def test_before_the_first_step_the_new_policy_is_the_old_one(precision, players):
    changes = [*TINY, f"precision={precision}", f"rules.players={players}", "network.actor=[64,64]"]
    learner = selfplay.make_learner(load_config(None, changes))
    batch = selfplay.make_batch(learner, selfplay.collect_deals(learner).rollout)
    with torch.no_grad(), learner.autocast():
        logits = learner.network.logits(batch.observations)
    log_probs = masked_log_probs(logits, batch.legal).gather(1, batch.actions[:, None])[:, 0]
    torch.testing.assert_close(log_probs.exp(), batch.log_probs.exp(), rtol=1e-5, atol=1e-5)
    assert abs(float(batch.advantages.mean())) < 1e-4
    assert abs(float(batch.advantages.std()) - 1) < 1e-3


def test_extreme_logits_with_one_legal_card_stay_finite():
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 0.0]], requires_grad=True)
    legal = torch.tensor([[False, True, False], [True, True, False]])
    log_probs = masked_log_probs(logits, legal)
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(2))
    assert entropy(log_probs).detach()[0] == 0.0
    assert kl_from_uniform(log_probs, legal).detach()[0] == 0.0
    (entropy(log_probs).sum() + log_probs[:, 1].sum()).backward(retain_graph=True)
    kl_from_uniform(log_probs, legal).sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_the_divergence_from_uniform_is_the_one_worked_out_by_hand():
    chances = torch.tensor([[0.5, 0.25, 0.0, 0.25]])
    legal = chances > 0
    divergence = kl_from_uniform(masked_log_probs(chances.log(), legal), legal)
    torch.testing.assert_close(
        divergence, torch.tensor([(np.log(2 / 3) + 2 * np.log(4 / 3)) / 3]).float()
    )


def test_a_card_that_is_never_played_is_pulled_back_by_the_divergence_and_not_by_entropy():
    logits, legal = torch.tensor([[0.0, -30.0, -30.0]]), torch.ones(1, 3, dtype=torch.bool)

    def pull(of):
        leaf = logits.clone().requires_grad_()
        of(masked_log_probs(leaf, legal)).sum().backward()
        return leaf.grad[0, 1]

    assert abs(pull(entropy)) < 1e-10
    assert abs(pull(lambda log_probs: kl_from_uniform(log_probs, legal)) + 1 / 3) < 1e-6


def test_rates_and_coefficients_go_in_a_line_to_their_last_values():
    config = load_config(None, ["iterations=4", "learning_rate=1", "final_learning_rate=0.2"])
    rates = [config.scheduled(iteration)["learning_rate"] for iteration in range(5)]
    np.testing.assert_allclose(rates, [1, 0.8, 0.6, 0.4, 0.2])
    assert set(config.scheduled(0)) == {"learning_rate", "entropy_coef", "uniform_coef"}


def test_the_networks_use_nothing_of_torchs_global_generator():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002 - that it is untouched
    learner = selfplay.make_learner(load_config(None, TINY))
    selfplay.iterate(learner)
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # noqa: NPY002


def test_a_run_leaves_its_config_metrics_events_and_checkpoints(run):
    names = {path.name.split(".")[0] for path in run.iterdir()}
    kept = {"iteration-000002", "iteration-000004"}
    assert names == {"config", "metrics", "events", "best", "last", "resume", *kept}
    assert [line["iteration"] for line in metrics(run)] == [1, 2, 3, 4]
    wanted = {
        *("losses/policy_loss", "losses/value_loss", "losses/entropy", "losses/approx_kl"),
        *("losses/uniform_kl", "charts/uniform_coef"),
        *("losses/clip_fraction", "losses/explained_variance", "charts/samples_per_second"),
        *("charts/deals_per_second", "eval/margin_greedy", "eval/score_greedy"),
        *("eval/win_rate_greedy", "eval/draw_rate_greedy", "rollout/ep_len_mean"),
        *("rollout/ep_rew_mean", "rollout/illegal_actions", "charts/engine_share"),
        *("charts/inference_share", "charts/update_share"),
    }
    last = metrics(run)[-1]
    assert wanted <= set(last)
    assert (last["rollout/ep_len_mean"], last["rollout/illegal_actions"]) == (40, 0)
    events = EventAccumulator(str(run)).Reload()
    assert wanted <= set(events.Tags()["scalars"])
    steps = [event.step for event in events.Scalars("losses/entropy")]
    assert steps == [24 * 40 * iteration for iteration in (1, 2, 3, 4)]
    assert load_config(run / "config.yaml").iterations == 4
    facts = Checkpoint.load(run).training
    assert facts["seed"] == 1
    assert Checkpoint.load(run / LAST).training["decisions"] == 4 * 24 * 40


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(run, tmp_path):
    assert train("--run-dir", tmp_path / "again").returncode == 0
    assert weights_digest(tmp_path / "again") == weights_digest(run)
    assert without_clocks(metrics(tmp_path / "again")) == without_clocks(metrics(run))
    assert train("--run-dir", tmp_path / "other", "--set", "seed=2").returncode == 0
    assert weights_digest(tmp_path / "other") != weights_digest(run)


def test_a_killed_and_resumed_run_is_the_straight_one(run, tmp_path):
    folder = tmp_path / "killed"
    process = subprocess.Popen(command("--run-dir", folder), cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: (folder / "resume.safetensors").exists(), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    result = train("--resume", folder)
    assert result.returncode == 0, result.stderr
    assert weights_digest(folder) == weights_digest(run)
    mine, theirs = (read_tensors(path / "resume.safetensors") for path in (folder, run))
    assert {name: array.tobytes() for name, array in mine[0].items()} == {
        name: array.tobytes() for name, array in theirs[0].items()
    }
    assert without_clocks(metrics(folder)) == without_clocks(metrics(run))
    steps = [
        event.step for event in EventAccumulator(str(folder)).Reload().Scalars("losses/entropy")
    ]
    assert steps == sorted(set(steps))
    assert len(steps) == 4


def wait_for(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "the run came to nothing"
        time.sleep(0.01)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    folder = tmp_path / "stopped"
    process = subprocess.Popen(
        command(
            "--run-dir", folder, "--set", "iterations=100000", "--set", "evaluation.every=99999"
        ),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: (folder / "resume.safetensors").exists(), process)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert f"--resume {folder}" in output
    assert Checkpoint.load(folder / LAST).training["iterations"] >= 2


def test_a_run_is_never_overwritten(run):
    before = {path.name: digest(path) for path in run.iterdir()}
    result = train("--run-dir", run)
    assert result.returncode == 2
    assert "holds a run already" in result.stderr
    assert before == {path.name: digest(path) for path in run.iterdir()}


def test_a_run_begins_with_the_weights_of_another(run, tmp_path):
    changes = [*TINY, f"start={run / LAST}", "seed=9"]
    learner = selfplay.begin(tmp_path / "next", None, changes)
    assert learner.iteration == learner.decisions == 0
    begun = selfplay.to_checkpoint(learner).weights
    for name, array in Checkpoint.load(run / LAST).weights.items():
        np.testing.assert_array_equal(begun[name], array)


@pytest.mark.parametrize("suits", [0, 12])
def test_what_a_start_did_not_see_changes_nothing_at_first(suits, tmp_path):
    sizes = [*TINY, f"network.suits={suits}", "recent_tricks=1"]
    first = selfplay.to_checkpoint(make_learner(load_config(None, sizes)))
    first.save(tmp_path / LAST)
    changes = [*sizes, f"start={tmp_path / LAST}", "recent_tricks=3"]
    wider = selfplay.to_checkpoint(selfplay.begin(tmp_path / "next", None, changes))
    assert wider.recent_tricks == 3
    rules = wider.rules
    states = random_positions(rules, 300, np.random.default_rng(0).integers(0, 40, 300), seed=1)
    infos, legal = views(states), legal_rows(states)
    seats = infos["observer"].astype(np.int64)
    before, after = (NetworkPolicy(each, rules, "net") for each in (first, wider))
    recent = next(f for f in wider.encoder.features if f.name == "recent")
    assert wider.encoder.encode(infos)[:, recent.start + 120 : recent.stop].any()
    np.testing.assert_allclose(
        after.probabilities(infos, legal), before.probabilities(infos, legal), atol=1e-6
    )
    np.testing.assert_allclose(after.values(states, seats), before.values(states, seats), atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("network.actor=[17]", r"another network: actor=\[16\] \(not \[17\]\)$"),
        (
            "frame=trump_first",
            "sees frame=canonical, show_points=all, recent_tricks=0 of 2 players",
        ),
        ("rules.players=4", "of 2 players"),
    ],
)
def test_weights_of_another_network_are_no_start(change, message, run, tmp_path):
    changes = [*TINY, f"start={run / LAST}", change]
    with pytest.raises(ConfigError, match=message):
        selfplay.begin(tmp_path / "next", None, changes)
    assert not (tmp_path / "next").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run-dir", "x", "--set", "start=nowhere"], "nowhere: no such file"),
        (["--run-dir", "x", "--set", "learnin=3"], "unknown key 'learnin'"),
        (["--run-dir", "x", "--set", "evaluation.against=[nobody]"], "unknown policy 'nobody'"),
        (["--resume", "nowhere"], "nowhere"),
    ],
)
def test_a_wrong_start_is_one_line_and_leaves_nothing(arguments, message, tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "training.selfplay", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_what_was_saved(tmp_path, monkeypatch):
    folder = tmp_path / "nan"
    folder.mkdir()
    learner = selfplay.make_learner(load_config(None, TINY))
    selfplay.iterate(learner)
    selfplay.save(learner, folder, best=False)
    saved = digest(folder / LAST)
    with torch.no_grad():
        learner.network.actor_head.bias.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="not finite"):
        selfplay.train(learner, folder)
    assert digest(folder / LAST) == saved


def test_weights_that_the_last_step_has_ruined_are_never_saved():
    changes = ["learning_rate=1e38", "epochs=1", "minibatch=100000"]
    learner = selfplay.make_learner(load_config(None, [*TINY, *changes]))
    with pytest.raises(FloatingPointError, match="weights are not finite in iteration 0"):
        selfplay.iterate(learner)
    assert learner.iteration == 0


def test_a_run_that_ended_before_it_saved_begins_again(run, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("config.yaml", "metrics.jsonl"):
        (folder / name).write_bytes((run / name).read_bytes())
    assert train("--run-dir", folder).returncode == 0
    assert without_clocks(metrics(folder)) == without_clocks(metrics(run))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").touch()
    assert "holds a run already" in train("--run-dir", tmp_path / "other").stderr


def test_a_run_is_not_resumed_with_another_view_of_the_table(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"it sees .*canonical"):
        selfplay.restore(folder, ["frame=trump_first"])
    with pytest.raises(CheckpointError, match="it sees"):
        selfplay.restore(folder, ["show_points=own"])


def test_the_best_margin_is_forgotten_when_it_was_over_another_opponent(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    known = selfplay.restore(folder, []).best_margin
    assert np.isfinite(known)
    assert selfplay.restore(folder, ["evaluation.against=[greedy, random]"]).best_margin == known
    assert selfplay.restore(folder, ["evaluation.against=[random]"]).best_margin == -np.inf


def test_a_full_disk_stops_the_run_in_one_line_and_keeps_what_was_saved(tmp_path):
    folder = tmp_path / "full"
    # A file system is full when its files may grow no further: here, after the first save.
    script = f"""
import resource, signal, sys
from training import selfplay
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
save = selfplay.save
def save_then_fill(*arguments):
    save(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
selfplay.save = save_then_fill
sys.exit(selfplay.main({[*command("--run-dir", folder)[3:], "--set", "iterations=40"]!r}))
"""
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 2
    (said,) = result.stderr.splitlines()
    assert said.startswith("training.selfplay: ")
    assert "File too large; go on with" in said
    assert said.endswith(f"--resume {folder}")
    assert Checkpoint.load(folder / LAST).training["iterations"] == 2
    # The log ends in half a line; the run goes on all the same.
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3, "deci')
    assert train("--resume", folder, "--set", "iterations=4").returncode == 0
    assert [line["iteration"] for line in metrics(folder)] == [1, 2, 3, 4]


def test_the_latest_checkpoints_are_kept(tmp_path):
    changes = ["iterations=5", "checkpoint_every=1", "keep_checkpoints=2"]
    settings = [part for change in changes for part in ("--set", change)]
    assert train("--run-dir", tmp_path / "run", *settings).returncode == 0
    kept = sorted(path.name for path in (tmp_path / "run").glob("iteration-*"))
    assert kept == ["iteration-000004.safetensors", "iteration-000005.safetensors"]


def test_a_few_seconds_of_self_play_beat_random(tmp_path):
    changes = ["deals=512", "iterations=12", "device=cpu", "network.actor=[64,64]"]
    learner = selfplay.make_learner(load_config(None, changes))
    while learner.iteration < 12:
        selfplay.iterate(learner)
    selfplay.to_checkpoint(learner).save(tmp_path / BEST)
    rules = learner.config.table
    match = evaluate(make_policy(str(tmp_path), rules), RandomPolicy(), rules, 500, seed=7)
    assert match.margin.low > 10
