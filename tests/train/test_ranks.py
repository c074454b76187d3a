"""Data-parallel training: torchrun's processes take the steps that one process takes."""

import os
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from briscola_env.checkpoint import LAST, Checkpoint
from tests.train.test_selfplay import ROOT, metrics, wait_for, without_clocks
from training.ranks import Ranks

# A perceptron of few units: among the millions of activations of a SuitBody there is one in most
# runs that is 0 but for rounding, which turns a ReLU on here and off there.
SMALL = [
    *("network.suits=0", "network.actor=[32]", "network.critic=[16]", "device=cpu"),
    *("deals=50", "minibatch=300"),
    *("precision=float32", "iterations=6", "checkpoint_every=2", "evaluation.every=3"),
    *("evaluation.decks=4", "league.past=0.3", "league.every=2", "league.fixed.greedy=0.2"),
]
RUN = ["-m", "training.selfplay", *(part for change in SMALL for part in ("--set", change))]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def start(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*map(str, arguments)],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def finish(process):
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors


def weights(run):
    return Checkpoint.load(run / LAST).weights


def assert_close(one, two):
    for name, array in weights(one).items():
        np.testing.assert_allclose(weights(two)[name], array, rtol=1e-4, atol=2e-6)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    """The run of one process."""
    folder = tmp_path_factory.mktemp("ranks") / "single"
    finish(start(sys.executable, *RUN, "--run-dir", folder))
    return folder


def test_three_ranks_take_the_steps_of_one(single, tmp_path):
    finish(start(*TORCHRUN, "--nproc-per-node", 3, *RUN, "--run-dir", tmp_path / "three"))
    assert_close(single, tmp_path / "three")
    alone, together = without_clocks(metrics(single)), without_clocks(metrics(tmp_path / "three"))
    assert [line["decisions"] for line in together] == [line["decisions"] for line in alone]
    for mine, theirs in zip(together, alone, strict=True):
        assert mine.keys() == theirs.keys()
        for name in mine:
            # Deviations within a rank are averaged, which is not the deviation over all.
            tolerance = 0.2 if name == "rollout/margin_deviation" else 1e-3
            assert mine[name] == pytest.approx(theirs[name], rel=tolerance, abs=1e-3), name


def test_two_nodes_on_loopback_take_the_steps_of_one(single, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nodes = [
        start(
            *(*TORCHRUN, "--nnodes", 2, "--node-rank", node, "--nproc-per-node", 1),
            *("--master-addr", "127.0.0.1", "--master-port", port),
            # Each node has a folder of its own; the second one's stays empty.
            *(*RUN, "--run-dir", tmp_path / f"node{node}"),
        )
        for node in (0, 1)
    ]
    for node in nodes:
        finish(node)
    assert_close(single, tmp_path / "node0")
    assert not (tmp_path / "node1").exists()


def test_when_a_rank_dies_the_run_stops_and_goes_on_with_another_number_of_ranks(single, tmp_path):
    folder = tmp_path / "killed"
    process = start(
        *(*TORCHRUN, "--nproc-per-node", 2, *RUN, "--run-dir", folder),
        *("--set", "iterations=100000", "--set", "evaluation.every=100000"),
    )
    wait_for(lambda: (folder / "resume.safetensors").exists(), process)
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", "training.selfplay"],
        capture_output=True,
        text=True,
        check=True,
    )
    os.kill(int(children.stdout.split()[-1]), signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "SIGKILL" in errors
    done = Checkpoint.load(folder / LAST).training["iterations"]
    assert done >= 2
    changes = ["--set", f"iterations={done + 1}"]
    finish(start(*TORCHRUN, "--nproc-per-node", 3, *RUN[:2], "--resume", folder, *changes))
    assert Checkpoint.load(folder / LAST).training["iterations"] == done + 1
    lines = [line["iteration"] for line in metrics(folder)]
    assert lines == list(range(1, done + 2))


def test_a_wrong_setting_is_said_once_by_the_leading_rank(tmp_path):
    process = start(
        *(*TORCHRUN, "--nproc-per-node", 2, *RUN, "--run-dir", tmp_path / "x"),
        *("--set", "learnin=3"),
    )
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0
    said = [line for line in errors.splitlines() if line.startswith("training.selfplay:")]
    assert said == ["training.selfplay: unknown key 'learnin'; configs/default.yaml lists all keys"]
    assert not (tmp_path / "x").exists()


def test_a_rank_that_lacks_a_file_ends_the_run_and_says_so(single, tmp_path):
    # Two nodes with folders of their own: the opponent lies on the first one alone.
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    shutil.copy(single / LAST, here / "friend.safetensors")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nodes = [
        subprocess.Popen(
            [
                *(*TORCHRUN, "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1"),
                *("--master-addr", "127.0.0.1", "--master-port", str(port), *RUN),
                *("--set", "league.fixed={friend.safetensors: 0.2}", "--run-dir", "run"),
            ],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for node, folder in enumerate((here, there))
    ]
    errors = [node.communicate(timeout=300)[1] for node in nodes]
    assert all(node.returncode for node in nodes)
    assert "training.selfplay: friend.safetensors: no such file" in errors[1]


def test_parts_are_in_order_and_all_of_the_deals():
    deals = np.arange(11)
    parts = [Ranks(rank, 3).part(deals) for rank in range(3)]
    assert np.concatenate(parts).tolist() == deals.tolist()
    assert {len(part) for part in parts} == {3, 4}
