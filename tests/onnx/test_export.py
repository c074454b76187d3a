"""ONNX files: the moves of onnxruntime are ours, and the file alone says how to ask for them."""

import json

import numpy as np
import onnxruntime
import pytest
import torch

from briscola_env import briscola_v0, cli
from briscola_env.cards import cards_of
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.encoding import Encoder, features
from briscola_env.policies import make_policy
from briscola_env.policies.network import ActorCritic, weights_of
from briscola_env.rules import Rules
from tests.positions import legal_rows, random_positions, views
from tests.readme import README, python_blocks

SIGNALS = {"players": 4, "signals": "conventional", "exchange_two": True}


def make_checkpoint(
    rules,
    frame="trump_first",
    activation="relu",
    exact_endgame=False,
    suits=0,
    recent_tricks=0,
):
    encoder = Encoder(rules, frame, "all", recent_tricks)
    sizes = (encoder.size, rules.num_actions, [48, 32], [24])
    network = ActorCritic(*sizes, 7, activation, suits, encoder.card_planes)
    # The head starts near zero: spread it, so that choices differ.
    network.actor_head.weight.data.mul_(300)
    return Checkpoint(
        rules=rules,
        frame=frame,
        show_points="all",
        exact_endgame=exact_endgame,
        reward_points=40.0,
        network=network.sizes,
        training={"seed": 7},
        weights=weights_of(network),
        recent_tricks=recent_tricks,
    )


def run(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def exported(capsys, folder, checkpoint):
    """The file that the command writes, opened by onnxruntime."""
    checkpoint.save(folder / LAST)
    code, out, err = run(capsys, "export", folder, "--onnx", folder / "net.onnx")
    assert (code, out, err) == (0, f"written: {folder / 'net.onnx'}\n", "")
    return onnxruntime.InferenceSession(folder / "net.onnx", providers=["CPUExecutionProvider"])


def facts_of(session):
    return json.loads(session.get_modelmeta().custom_metadata_map["briscola_env"])


@pytest.mark.parametrize(
    ("table", "frame", "activation", "suits", "n"),
    [
        ({}, "trump_first", "relu", 0, 10_000),
        ({}, "canonical", "relu", 16, 10_000),
        ({}, "table", "tanh", 0, 2_000),
        ({"players": 3}, "canonical", "relu", 0, 2_000),
        (SIGNALS, "trump_first", "tanh", 0, 2_000),
        (SIGNALS, "trump_first", "tanh", 8, 2_000),
    ],
)
def test_the_moves_of_onnxruntime_are_ours(capsys, tmp_path, table, frame, activation, suits, n):
    rules = Rules(**table)
    checkpoint = make_checkpoint(rules, frame, activation, suits=suits)
    session = exported(capsys, tmp_path, checkpoint)
    policy = make_policy(str(tmp_path), rules)
    plays = np.random.default_rng(0).integers(0, len(rules.deck), n)
    states = random_positions(rules, n, plays, seed=1, signals=True)
    infos, legal = views(states), legal_rows(states)
    observation = policy.encoder.encode(infos)
    mask = policy.encoder.columns_to_frame(infos, legal).astype(np.int8)
    inputs = {"observation": observation, "action_mask": mask}
    actions, logits, values = session.run(["action", "logits", "value"], inputs)
    moves = policy.act(infos, legal, np.zeros(n, np.uint64))
    np.testing.assert_array_equal(policy.encoder.to_table(infos, actions), moves)
    assert len(set(moves.tolist())) > 35
    expected, _ = policy.logits(infos, legal)
    np.testing.assert_allclose(logits, expected, atol=1e-3)
    with torch.inference_mode():
        critic = policy.network.values(torch.from_numpy(observation))
    np.testing.assert_allclose(values, critic, atol=1e-4)


def test_the_example_on_the_page_runs_as_printed(capsys, tmp_path, monkeypatch):
    exported(capsys, tmp_path, make_checkpoint(Rules()))
    (tmp_path / "net.onnx").rename(tmp_path / "mine.onnx")
    monkeypatch.chdir(tmp_path)
    (example,) = python_blocks(README.parent / "docs" / "export.md")
    scope = {}
    exec(example, scope)
    assert scope["env"].agents == []
    assert scope["facts"]["rules"] == Rules().to_dict()


def test_the_file_plays_the_environment_as_it_says_and_what_the_environment_shows(capsys, tmp_path):
    """A stranger's loop: nothing but the file and the environment that its metadata describe."""
    session = exported(capsys, tmp_path, make_checkpoint(Rules(players=4), recent_tricks=2))
    facts = facts_of(session)
    env = briscola_v0.env(
        **facts["rules"],
        frame=facts["frame"],
        show_points=facts["show_points"],
        recent_tricks=facts["recent_tricks"],
    )
    env.reset(seed=1)
    decisions = 0
    for _ in env.agent_iter():
        observation, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            env.step(None)
            continue
        batch = {name: array[None] for name, array in observation.items()}
        (action,) = session.run(["action"], batch)[0]
        assert observation["action_mask"][action] == 1
        env.step(int(action))
        decisions += 1
    assert decisions == 40


def test_the_metadata_has_the_whole_encoding(capsys, tmp_path):
    rules = Rules(players=4, signals="free")
    checkpoint = make_checkpoint(rules)
    facts = facts_of(exported(capsys, tmp_path, checkpoint))
    assert Rules.from_dict(facts["rules"]) == rules
    assert facts["layout_digest"] == checkpoint.encoder.digest
    assert [tuple(feature.values()) for feature in facts["features"]] == [
        (feature.name, feature.start, feature.stop, feature.meaning) for feature in features(rules)
    ]
    names = ["2d", "4d", "EXCHANGE_SEVEN", "SYMBOL_7"]
    assert [facts["actions"][action] for action in (0, 1, 40, -1)] == names
    assert len(facts["actions"]) == rules.num_actions
    assert facts["frame"] == "trump_first"
    assert facts["training"] == {"seed": 7}
    assert (facts["reward_points"], facts["exact_endgame"]) == (40.0, False)


def places_as_described(frame, info):
    """The place of each suit, by the sentences in the metadata and nothing else."""
    trump, seat = int(info["trump"]), int(info["observer"])
    if frame == "table":
        return [0, 1, 2, 3]
    if frame == "trump_first":
        return [{0: trump, trump: 0}.get(suit, suit) for suit in range(4)]

    def key(suit):
        held, played = set(cards_of(info["hands"][seat])), set(cards_of(info["played"][0]))
        for other in info["played"][1:]:
            played |= set(cards_of(other))
        return [
            sum(1 << card % 10 for card in cards if card // 10 == suit) for cards in (held, played)
        ]

    others = sorted({0, 1, 2, 3} - {trump})  # by id, and sorting keeps that order among equals
    order = [trump, *sorted(others, key=key, reverse=True)]
    return [order.index(suit) for suit in range(4)]


@pytest.mark.parametrize("frame", ["table", "trump_first", "canonical"])
def test_the_frame_s_description_is_what_the_encoder_does(capsys, tmp_path, frame):
    checkpoint = make_checkpoint(Rules(), frame)
    meaning = facts_of(exported(capsys, tmp_path, checkpoint))["frame_meaning"]
    assert meaning.endswith("card c stands at 10 * place of its suit + c % 10")
    infos = views(random_positions(Rules(), 200, np.arange(200) % 30, seed=0))
    expected = [places_as_described(frame, info) for info in infos]
    for card in range(40):
        framed = checkpoint.encoder.to_frame(infos, np.full(200, card))
        assert framed.tolist() == [10 * places[card // 10] + card % 10 for places in expected]


def test_the_same_checkpoint_is_the_same_file(capsys, tmp_path):
    data = []
    for _ in range(2):
        exported(capsys, tmp_path, make_checkpoint(Rules()))
        data.append((tmp_path / "net.onnx").read_bytes())
    assert data[0] == data[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [LAST, "net.onnx"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "nothing to write"),
        (("-o", "net.onnx"), "a name that ends in .safetensors"),
        (("--onnx", "no/such/folder/net.onnx"), "no/such/folder"),
    ],
)
def test_what_cannot_be_written_is_one_line(capsys, tmp_path, options, says):
    make_checkpoint(Rules()).save(tmp_path / LAST)
    code, out, err = run(capsys, "export", tmp_path, *options)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
