"""Checkpoints: safe to read from strangers, whole or not there, refused for another game."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from briscola_env.checkpoint import BEST, LAST, Checkpoint, read_tensors, write_tensors
from briscola_env.dealing import deal
from briscola_env.encoding import FRAMES
from briscola_env.engine import legal_actions, step
from briscola_env.information import info_state, resample
from briscola_env.policies import make_policy
from briscola_env.policies.network import ActorCritic, NetworkPolicy, weights_of
from briscola_env.rules import CheckpointError, Rules
from briscola_env.state import new_states

ROOT = Path(__file__).parents[2]


def make_checkpoint(rules=None, frame="trump_first", seed=0):
    rules = rules or Rules()
    blank = Checkpoint(rules, frame, "all", False, 40.0, {}, {"seed": seed}, {})
    network = ActorCritic(blank.encoder.size, rules.num_actions, [32], [8], seed)
    # The head starts near zero: spread it, so that choices differ.
    network.actor_head.weight.data.mul_(300)
    weights = weights_of(network)
    return Checkpoint(rules, frame, "all", False, 40.0, network.sizes, {"seed": seed}, weights)


def positions(rules, n=100, plies=9):
    """Info states and masks of the seats to act, some plies into random deals."""
    states, legal = new_states(rules, n), np.empty((n, rules.num_actions), bool)
    deal(states, np.arange(n, dtype=np.uint64))
    generator = np.random.default_rng(0)
    for _ in range(plies):
        legal_actions(states, legal)
        step(states, (legal * generator.random(legal.shape)).argmax(axis=1))
    infos = states.copy()
    info_state(states, states["current_player"].astype(np.int64), infos)
    legal_actions(states, legal)
    return infos, legal, np.arange(n, dtype=np.uint64)


def test_what_is_loaded_plays_as_what_was_saved(tmp_path):
    checkpoint = make_checkpoint()
    checkpoint.save(tmp_path / LAST)
    infos, legal, _ = positions(Rules())
    before = NetworkPolicy(checkpoint, Rules(), "memory").probabilities(infos, legal)
    after = NetworkPolicy(Checkpoint.load(tmp_path), Rules(), "file").probabilities(infos, legal)
    np.testing.assert_array_equal(before, after)
    np.testing.assert_allclose(before.sum(axis=1), 1, atol=1e-6)
    assert not before[~legal].any()
    assert [path.name for path in tmp_path.iterdir()] == [LAST]


def test_a_folder_means_its_best_checkpoint(tmp_path):
    make_checkpoint(seed=1).save(tmp_path / LAST)
    make_checkpoint(seed=2).save(tmp_path / BEST)
    assert Checkpoint.load(tmp_path).training["seed"] == 2


@pytest.mark.parametrize("frame", FRAMES)
def test_a_network_plays_legal_cards_and_nothing_hidden_moves_it(frame):
    rules = Rules(players=4, exchange_seven=True, signals="conventional")
    policy = NetworkPolicy(make_checkpoint(rules, frame), rules, "net")
    infos, legal, seeds = positions(rules)
    actions = policy.act(infos, legal, seeds)
    assert legal[np.arange(len(actions)), actions].all()
    worlds, again = infos.copy(), infos.copy()
    resample(infos, seeds, worlds)
    info_state(worlds, infos["observer"].astype(np.int64), again)
    np.testing.assert_array_equal(policy.act(again, legal, seeds + np.uint64(1)), actions)


def test_names_of_suits_do_not_matter_in_the_trump_first_frame():
    rules = Rules()
    policy = NetworkPolicy(make_checkpoint(rules), rules, "net")
    infos, legal, seeds = positions(rules)
    actions = policy.act(infos, legal, seeds)
    # The same deals with the trump suit and suit 0 renamed into each other.
    renamed, deck = new_states(rules, len(infos)), np.arange(40)
    table = positions_of_swapped_suits(infos, renamed)
    swapped = np.take_along_axis(legal, table, axis=1)
    expected = np.take_along_axis(table, actions[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(policy.act(renamed, swapped, seeds), expected)
    assert (expected != actions).any()
    assert (np.sort(table, axis=1) == deck).all()


def positions_of_swapped_suits(infos, renamed):
    """Rename suits in info states; card ids [N, 40] after the change, which is its own inverse."""
    trump = infos["trump"].astype(int)
    table = np.tile(np.arange(40), (len(infos), 1))
    for row, suit in zip(table, trump, strict=True):
        row[10 * suit : 10 * suit + 10], row[:10] = np.arange(10), np.arange(10) + 10 * suit
    renamed[:] = infos
    for i, row in enumerate(table):
        for field in ("hands", "played", "known", "team_known"):
            for seat in range(2):
                cards = [card for card in range(40) if int(infos[field][i, seat]) >> card & 1]
                renamed[field][i, seat] = sum(1 << int(row[card]) for card in cards)
        for field in ("face_up", "initial_face_up"):
            card = infos[field][i]
            renamed[field][i] = row[card] if card >= 0 else -1
        for place, card in enumerate(infos["table"][i]):
            renamed["table"][i, place] = row[card] if card >= 0 else -1
        renamed["trump"][i] = 0
    return table


def test_a_row_without_a_legal_action_is_an_error():
    infos, legal, seeds = positions(Rules(), 3)
    legal[1] = False
    with pytest.raises(ValueError, match="no legal action"):
        NetworkPolicy(make_checkpoint(), Rules(), "net").act(infos, legal, seeds)


def test_another_game_is_refused_and_match_length_is_not(tmp_path):
    path = str(tmp_path / "net.safetensors")
    make_checkpoint().save(Path(path))
    make_policy(path, Rules(match_wins=2))
    with pytest.raises(CheckpointError, match=r"players=2 \(not 4\)"):
        make_policy(path, Rules(players=4))
    with pytest.raises(CheckpointError, match="exchange_seven=False"):
        make_policy(path, Rules(exchange_seven=True))


def test_a_file_from_before_the_latest_tricks_were_shown_is_read(tmp_path):
    path = spoil(tmp_path, lambda header: header.pop("recent_tricks"))
    assert Checkpoint.load(path).recent_tricks == 0


def spoil(tmp_path, change):
    """A checkpoint whose header was changed."""
    path = tmp_path / "net.safetensors"
    make_checkpoint().save(path)
    tensors, header = read_tensors(path)
    change(header)
    write_tensors(path, tensors, header)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(layout_version=99), "observation layout 99"),
        (lambda header: header.update(layout_digest="feed"), "layout feed"),
        (lambda header: header.update(frame="sideways"), "frame='sideways'"),
        (lambda header: header.update(recent_tricks=20), "recent_tricks=20: a whole number, 0..19"),
        (lambda header: header.update(recent_tricks=2), "observation layout"),
        (lambda header: header["rules"].update(players=5), "players=5"),
        (lambda header: header.pop("network"), "network"),
        (lambda header: header["network"].update(actor=[7]), "weights do not fit"),
        (lambda header: header["network"].update(observation_size=3), "weights do not fit"),
        (lambda header: header.update(format_version=7), "format version 7"),
    ],
)
def test_a_mismatch_is_one_line_that_names_it(tmp_path, change, message):
    path = spoil(tmp_path, change)
    with pytest.raises(CheckpointError) as error:
        make_policy(str(path), Rules())
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("length", [0, 5, 100, 2000])
def test_a_truncated_file_is_refused(tmp_path, length):
    path = tmp_path / "net.safetensors"
    make_checkpoint().save(path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        Checkpoint.load(path)


class Payload:
    """What a malicious pickle does: here it only makes a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def test_a_pickle_is_refused_and_not_run(tmp_path):
    path, target = tmp_path / "net.safetensors", tmp_path / "was_run"
    path.write_bytes(pickle.dumps(Payload(target)))
    with pytest.raises(CheckpointError):
        make_policy(str(path), Rules())
    assert not target.exists()


def test_a_safetensors_file_of_others_is_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(3)}, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="not of briscola_env"):
        Checkpoint.load(tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match="no such file"):
        Checkpoint.load(tmp_path / "y.safetensors")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match=r"no best\.safetensors or last\.safetensors"):
        Checkpoint.load(tmp_path / "empty")


def test_the_metadata_is_json_that_any_reader_sees(tmp_path):
    from safetensors import safe_open

    make_checkpoint().save(tmp_path / LAST)
    with safe_open(tmp_path / LAST, "numpy") as file:
        header = json.loads(file.metadata()["briscola-checkpoint"])
    assert header["rules"]["players"] == 2
    assert header["frame"] == "trump_first"


SAVE_FOREVER = """
from pathlib import Path
from tests.train.test_checkpoint import make_checkpoint
import sys
seed = 0
while True:
    make_checkpoint(seed=seed % 7).save(Path(sys.argv[1]))
    seed += 1
"""


@pytest.mark.slow
def test_a_kill_while_saving_leaves_a_whole_checkpoint(tmp_path):
    path, generator = tmp_path / LAST, np.random.default_rng(0)
    make_checkpoint().save(path)
    for _ in range(20):
        stamp = path.stat().st_mtime_ns
        process = subprocess.Popen(
            [sys.executable, "-c", SAVE_FOREVER, str(path)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        while path.stat().st_mtime_ns == stamp and process.poll() is None:
            time.sleep(0.01)
        time.sleep(generator.random() / 10)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert Checkpoint.load(path).training["seed"] in range(7)
