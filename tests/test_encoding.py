"""Observations are what the table of features says, for every table, frame and setting."""

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briscola_env.cards import cards_of
from briscola_env.encoding import FRAMES, LAYOUT_VERSION, SHOW_POINTS, Encoder, features
from briscola_env.rules import Rules
from tests.make_golden import observations_hash
from tests.naive_encoder import naive_encode, naive_pieces, naive_tokens
from tests.tables import OPTIONS, fewer, know, masks, play, positions, start
from tests.twin import Table

LAYOUTS = json.loads((Path(__file__).parent / "golden" / "layouts.json").read_text())


def check_observations(
    table: Table, frame: str, show_points: str, recent_tricks: int, seat: int
) -> None:
    """Vectors and tokens of one seat in all games of a table."""
    encoder = Encoder(table.rules, frame, show_points, recent_tricks)
    infos = know(table.states, seat)
    rows, tokens = encoder.encode(infos), encoder.encode_tokens(infos)
    assert (rows.dtype, rows.shape) == (np.int8, (len(infos), encoder.size))
    assert (tokens.dtype, tokens.shape[1:]) == (np.int16, (table.rules.max_history, 3))
    for i, game in enumerate(table.games):
        view = game.view(seat)
        settings = (view, game.rules, seat, frame, show_points, recent_tricks)
        expected = naive_encode(*settings)
        if rows[i].tolist() != expected:
            pieces = naive_pieces(*settings)
            wrong = [f.name for f in encoder.features if f.name in pieces]
            wrong = [n for n in wrong if piece(encoder, n, rows[i]) != pieces[n]]
            raise AssertionError(f"{wrong} of seat {seat} in {view}")
        padded = naive_tokens(view, game.players, seat, frame)
        padded += [[-1, -1, -1]] * (table.rules.max_history - len(padded))
        assert tokens[i].tolist() == padded


def piece(encoder: Encoder, name: str, row: Any) -> list[int]:
    """One feature of an observation."""
    feature = next(feature for feature in encoder.features if feature.name == name)
    return [int(value) for value in row[feature.start : feature.stop]]


@pytest.mark.parametrize("show_points", SHOW_POINTS)
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("table", OPTIONS)
def test_observations_say_what_the_features_mean(table: str, frame: str, show_points: str) -> None:
    rng = random.Random(f"{table} {frame} {show_points}")
    options = {"players": 2, **OPTIONS[table]}
    games = Table(options, range(fewer(4)), [-1] * fewer(4))
    seats = range(options["players"])
    recent_tricks = {"hidden": 0, "own": 1, "all": 3}[show_points]
    while not games.over:
        for seat in seats:
            if rng.random() < 0.5:
                check_observations(games, frame, show_points, recent_tricks, seat)
        games.step([rng.choice(legal or [0]) for legal in games.legal()])
    for seat in seats:
        check_observations(games, frame, show_points, recent_tricks, seat)


def test_the_encoders_match_may_be_shorter_than_the_game() -> None:
    short, long = Rules(), Rules(match_wins=3, max_deals=5)
    states = start(long, range(fewer(30)))
    rng = np.random.default_rng(0)
    encoder = Encoder(short)
    for _ in play(states, rng):
        infos = know(states, 1)
        single = infos.copy()
        single["match_wins"], single["wins"] = 0, 0
        assert np.array_equal(encoder.encode(infos), encoder.encode(single))
    once = Encoder(Rules(match_wins=1))
    wins = next(feature for feature in once.features if feature.name == "wins")
    assert (once.encode(know(states, 1))[:, wins.start : wins.stop].sum(axis=1) == 2).all()


@pytest.mark.parametrize("frame", ["trump_first", "canonical"])
@pytest.mark.parametrize("table", OPTIONS)
def test_the_frame_changes_cards_masks_and_actions_alike(table: str, frame: str) -> None:
    rules = Rules(**OPTIONS[table])
    states = positions(OPTIONS[table], fewer(200), seed=3)
    states = states[states["current_player"] >= 0]
    encoder, plain = Encoder(rules, frame), Encoder(rules)
    rows, rng = masks(states), np.random.default_rng(1)
    framed = encoder.columns_to_frame(states, rows)
    assert np.array_equal(encoder.columns_to_table(states, framed), rows)
    assert np.array_equal(plain.columns_to_frame(states, rows), rows)
    seen = know(states, states["current_player"])
    for i, state in enumerate(states):
        trump = int(state["trump"])
        for action in range(rules.num_actions):
            there = encoder.to_frame(seen[i : i + 1], np.array([action]))[0]
            assert framed[i, there] == rows[i, action]
            assert (there == action) if action >= 40 else (there % 10 == action % 10)
            assert (there // 10 == 0) == (action // 10 == trump)
        assert framed[i, 40:].tolist() == rows[i, 40:].tolist()
    actions = rng.integers(0, rules.num_actions, len(states))
    there = encoder.to_frame(states, actions)
    assert np.array_equal(encoder.to_table(states, there), actions)
    everything = np.zeros_like(rows)
    everything[np.arange(len(states)), actions] = True
    chosen = encoder.columns_to_frame(states, everything)
    assert np.array_equal(chosen.argmax(axis=1), there)
    assert np.array_equal(plain.to_frame(states, actions), actions)


def test_suits_other_than_trump_keep_their_places_in_the_frame() -> None:
    states = positions({}, fewer(200), seed=5)
    encoder = Encoder(Rules(), "trump_first")
    for trump in range(4):
        some = states[states["trump"] == trump][:1]
        by_suit = [encoder.to_frame(some, np.array([10 * suit + 9]))[0] for suit in range(4)]
        expected = [9, 19, 29, 39]
        expected[0], expected[trump] = expected[trump], expected[0]
        assert by_suit == expected


@pytest.mark.parametrize("table", ["2", "4"])
def test_names_of_suits_do_not_matter_in_the_canonical_frame(table: str) -> None:
    infos = know(positions(OPTIONS[table], fewer(300), seed=6), 0)
    renamed, rng = infos.copy(), np.random.default_rng(2)
    encoder, told_apart = Encoder(Rules(**OPTIONS[table]), "canonical"), []
    for info, other in zip(infos, renamed, strict=True):
        new_suit = rng.permutation(4)

        def rename(card: int, new_suit: np.ndarray = new_suit) -> int:
            return 10 * int(new_suit[card // 10]) + card % 10

        other["trump"] = new_suit[info["trump"]]
        for name in ("hands", "played", "known", "team_known"):
            other[name] = [sum(1 << rename(card) for card in cards_of(held)) for held in info[name]]
        for name in ("face_up", "initial_face_up"):
            other[name] = rename(int(info[name])) if info[name] >= 0 else -1
        other["table"] = [rename(int(card)) if card >= 0 else -1 for card in info["table"]]
        played = np.bitwise_or.reduce(info["played"])
        keys = {
            (int(info["hands"][0]) >> s & 1023, int(played) >> s & 1023) for s in (0, 10, 20, 30)
        }
        told_apart.append(len(keys) == 4)
    same = (encoder.encode(infos) == encoder.encode(renamed)).all(axis=1)
    assert same[told_apart].all()
    assert sum(told_apart) > len(infos) // 2


def test_an_encoder_writes_into_the_array_that_it_is_given() -> None:
    encoder = Encoder(Rules(players=3))
    infos = know(positions({"players": 3}, 20), 0)
    out = np.full((20, encoder.size), 7, np.int8)
    assert encoder.encode(infos, out) is out
    assert np.array_equal(out, encoder.encode(infos))
    assert set(np.unique(out)) == {0, 1}


@pytest.mark.parametrize(("name", "value"), [("frame", "trump"), ("show_points", "none")])
def test_an_unknown_setting_is_refused_and_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}='{value}': allowed are '"):
        Encoder(Rules(), **{name: value})


@pytest.mark.parametrize("value", [-1, 20, "3", 1.5])
def test_more_recent_tricks_than_there_can_be_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=f"recent_tricks={value!r}: a whole number, 0..19, is"):
        Encoder(Rules(), recent_tricks=value)


# ---------------------------------------------------------------------------------- golden layouts


@pytest.mark.parametrize("name", LAYOUTS["tables"])
def test_the_layout_is_the_one_written_down(name: str) -> None:
    """A layout that changes needs a new LAYOUT_VERSION: then `python -m tests.make_golden`."""
    written = LAYOUTS["tables"][name]
    encoder = Encoder(Rules.from_dict(written["rules"]))
    assert LAYOUTS["version"] == LAYOUT_VERSION
    slices = {feature.name: [feature.start, feature.stop] for feature in encoder.features}
    assert slices == written["slices"]
    assert list(slices) == list(written["slices"])
    assert encoder.digest == written["digest"]
    assert {frame: observations_hash(encoder.rules, frame) for frame in FRAMES} == written[
        "observations"
    ]


def test_the_slices_of_the_plain_game() -> None:
    sizes = {f.name: f.stop - f.start for f in features(Rules())}
    assert sizes == {
        "hand": 40,
        "winning": 40,
        "face_up": 40,
        "table": 80,
        "played": 80,
        "known": 80,
        "reburied": 0,
        "recent": 0,
        "trump": 4,
        "leader": 2,
        "stock": 18,
        "trick": 20,
        "message": 0,
        "wins": 0,
        "points": 14,
        "padding": 6,
    }


@pytest.mark.parametrize("table", OPTIONS)
def test_slices_follow_each_other_and_have_meanings(table: str) -> None:
    layout = features(Rules(**OPTIONS[table]))
    assert layout[0].start == 0
    assert all(a.stop == b.start for a, b in pairwise(layout))
    assert layout[-1].stop % 8 == 0
    assert all(feature.meaning for feature in layout)
    assert len({feature.name for feature in layout}) == len(layout)
