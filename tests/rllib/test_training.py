"""Whole runs on a local Ray: train, be killed, save, resume, convert, evaluate."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ray
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.execution.rollout_ops import synchronous_parallel_sample

import training.rllib_ppo as script
from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.cli import main as briscola
from briscola_env.policies.network import NetworkPolicy
from tests.rllib.runs import SMALL, small_config
from training.rllib_runner import LEARNER

ROOT = Path(__file__).parents[2]
SET = [part for change in (*SMALL, "deals=32", "seed=3") for part in ("--set", change)]


def weights_of(algorithm):
    return algorithm.learner_group.get_weights()


def assert_same(one, other):
    assert one.keys() == other.keys()
    for key, value in one.items():
        if isinstance(value, dict):
            assert_same(value, other[key])
        else:
            np.testing.assert_array_equal(value, other[key], err_msg=str(key))


def flat(weights):
    return np.concatenate([array.ravel() for array in weights.values()])


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_run_of_two_runners_ends_in_what_evaluate_reads(players, tmp_path, capsys):
    run = tmp_path / "run"
    asked = ["--players", str(players), "--env-runners", "2", "--iterations", "2", *SET]
    assert script.main([*asked, "--run-dir", str(run)]) == 0
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    plays = 32 * players * small_config(players).table.num_tricks
    assert [line["decisions"] for line in lines] == [plays, 2 * plays]
    assert all(np.isfinite(list(line.values())).all() for line in lines)
    assert lines[-1]["runners"] == 2
    capsys.readouterr()
    evaluate = ["evaluate", str(run), "--against", "random", "--decks", "10", "--json"]
    assert briscola(evaluate) == 0
    assert json.loads(capsys.readouterr().out)["rules"]["players"] == players


def test_the_command_runs_on_a_cluster_that_is_there(tmp_path):
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "training.rllib_ppo", "--address", address, *SET]
    command += ["--env-runners", "1", "--iterations", "1", "--run-dir", str(tmp_path / "run")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=240)
    assert Checkpoint.load(tmp_path / "run").training["iterations"] == 1


def test_a_run_is_resumed_only_by_who_trusts_it_and_goes_on_where_it_was(tmp_path, capsys):
    run = tmp_path / "run"
    asked = ["--env-runners", "0", *SET, "--set", "checkpoint_every=1"]
    assert script.main([*asked, "--iterations", "1", "--run-dir", str(run)]) == 0
    before = Checkpoint.load(run / LAST)
    assert script.main([*asked, "--run-dir", str(run)]) == 2
    assert script.main(["--resume", str(run), "--iterations", "3"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "rllib_ppo: " in line]
    assert "holds a run already" in errors[0]
    assert "--trust-pickle" in errors[1]
    resume = ["--resume", str(run), "--trust-pickle", "--iterations", "3", "--env-runners", "0"]
    assert script.main(resume) == 0
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [1, 2, 3]
    assert [line["decisions"] for line in lines] == [1280, 2560, 3840]
    after = Checkpoint.load(run / LAST)
    assert after.training["iterations"] == 3
    assert (flat(before.weights) != flat(after.weights)).any()
    assert [path.name for path in run.glob("rllib-*")] == ["rllib-000003"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--players", "5"], "players=5"),
        (["--env-runners", "-1"], "--env-runners -1: 0 or more"),
        (["--set", "exact_endgame=true"], "exact_endgame=True"),
        (["--set", "league.fixed={greedy: 0.1}"], "league.fixed"),
        (["--set", "no_such_key=1"], "no_such_key"),
    ],
)
def test_a_bad_setting_is_one_line_and_no_folder(arguments, message, tmp_path, capsys):
    assert script.main([*arguments, "--run-dir", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "run").exists()


def test_a_restored_run_has_all_weights_the_optimizer_and_new_deals(tmp_path):
    config = small_config(2, 24, "league.every=1")
    settings = script.make_config(config, 0)
    first = settings.build_algo()
    snapshots = []
    for _ in range(3):
        snapshots.append(weights_of(first)[LEARNER])
        first.train()
    weights = weights_of(first)
    # The last three states of the learner, oldest first.
    learner = weights[LEARNER]
    assert_same(weights["snapshot_2"], learner)
    assert_same(weights["snapshot_0"], snapshots[1])
    assert_same(weights["snapshot_1"], snapshots[2])
    assert_same(first.env_runner.module.get_state(), weights)
    script.save(first, config, tmp_path)
    second = settings.copy(copy_frozen=False).build_algo()
    second.restore_from_path(script.newest_state(tmp_path))
    assert second.iteration == 3
    assert_same(weights_of(second), weights)
    assert_same(second.env_runner.module.get_state(), weights)
    optimizers = [a.learner_group.get_state()["learner"]["optimizer"] for a in (first, second)]
    assert_same(*(state[f"{LEARNER}_default_optimizer"]["state"] for state in optimizers))
    used = {f"{seed:016x}" for a in (first,) for seed in a.env_runner.games.episode_seeds.tolist()}
    assert not used & {episode.id_ for episode in second.env_runner.sample()}
    first.stop()
    second.stop()


def test_the_converted_learner_has_the_modules_chances():
    config = small_config(2, 24)
    algorithm = script.make_config(config, 0).build_algo()
    algorithm.train()
    policy = NetworkPolicy(script.to_checkpoint(algorithm, config), config.table, "it")
    algorithm.stop()
    games = algorithm.env_runner.games
    games.reset(5)
    features, masks = games.observe()
    batch = {"observation": torch.from_numpy(features), "action_mask": torch.from_numpy(masks)}
    with torch.no_grad():
        out = algorithm.env_runner.module[LEARNER].forward_inference({Columns.OBS: batch})
    infos = games.info_states()
    chances = policy.probabilities(infos, games.encoder.columns_to_table(infos, masks))
    expected = out[Columns.ACTION_DIST_INPUTS].exp().numpy()
    framed = games.encoder.columns_to_frame(infos, chances)
    np.testing.assert_allclose(framed, expected, atol=1e-5)


def test_it_learns():
    config = small_config(2, 128, "network.actor=[64]", "iterations=12", "minibatch=1024")
    algorithm = script.make_config(config, 0).build_algo()
    before = script.to_checkpoint(algorithm, config)
    for _ in range(12):
        algorithm.train()
    after = script.to_checkpoint(algorithm, config)
    algorithm.stop()
    rules = config.table
    match = evaluate(*(NetworkPolicy(c, rules, "it") for c in (after, before)), rules, 300, seed=1)
    assert match.margin.low > 0


def test_killed_runners_cost_deals_but_not_the_run():
    config = small_config(2, 24, "league.every=1")
    algorithm = script.make_config(config, 2).build_algo()
    ids, seen = [], []
    record = synchronous_parallel_sample

    def recorded(**keywords):
        episodes, metrics = record(**keywords)
        ids.extend(episode.id_ for episode in episodes)
        return episodes, metrics

    algorithm.train()
    manager = algorithm.env_runner_group._worker_manager
    first, second = manager.actors()[1], manager.actors()[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ray.rllib.algorithms.ppo.ppo.synchronous_parallel_sample", recorded)
        for victims in ([first], [second], [first, second]):
            timers = [
                threading.Timer(0.02, ray.kill, (victim,), {"no_restart": False})
                for victim in victims
            ]
            for timer in timers:
                timer.start()
            for _ in range(3):
                seen.append(algorithm.train())
            for timer in timers:
                timer.join()
        patience = time.monotonic() + 300  # a busy machine starts processes slowly
        while algorithm.env_runner_group.num_healthy_remote_workers() < 2:
            assert time.monotonic() < patience
            seen.append(algorithm.train())
    assert algorithm.env_runner_group.num_remote_worker_restarts() >= 1
    lines = [script.summary(result) for result in seen]
    assert sum("policy_loss" in line for line in lines) >= 6
    assert len(ids) == len(set(ids))
    runners = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: runner.module.get_state(), local_env_runner=False
    )
    assert len(runners) == 2
    for state in runners:
        assert_same(state, weights_of(algorithm))
    algorithm.stop()
