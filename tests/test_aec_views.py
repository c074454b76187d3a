"""The PettingZoo environment: what a seat may observe, tokens, frames, `state()`."""

import copy
from typing import Any

import numpy as np
import pytest

from briscola_env import Rules, briscola_v0
from briscola_env.encoding import Encoder
from briscola_env.envs.render import render_text
from briscola_env.information import info_state, resample
from briscola_env.state import GAME_STATE, format_state
from tests.env_tables import TABLES, as_bytes, feature, games, record, trace, turns

all_tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@all_tables
def test_any_seat_is_observed_at_any_time_with_its_own_view_and_no_effect(
    table: dict[str, Any],
) -> None:
    env = briscola_v0.raw_env(**table, render_mode="ansi")
    twin = briscola_v0.raw_env(**table)
    encoder = Encoder(
        env.rules,
        env_frame(table),
        table.get("show_points", "hidden"),
        table.get("recent_tricks", 0),
    )
    hand = slice(0, 40)
    env.reset(seed=8)
    twin.reset(seed=8)
    quiet = trace(twin)
    observed = []
    for turn in turns(env, np.random.default_rng(0)):
        observed.append(as_bytes(turn))
        env.state()
        env.render()
        states = env.get_state()["table"]["states"]
        for seat, agent in enumerate(env.possible_agents):
            seen = env.observe(agent)
            info = np.empty(1, GAME_STATE)
            info_state(states, np.array([seat]), info)
            assert as_bytes(seen["observation"]) == as_bytes(encoder.encode(info)[0])
            cards = int(encoder_set(seen["observation"][hand]))
            assert cards == frame_set(int(states["hands"][0, seat]), table, states, seat)
            seen["observation"][:] = 5  # the caller's to keep and to spoil
            seen["action_mask"][:] = 5
    assert observed == quiet


def env_frame(table: dict[str, Any]) -> str:
    return str(table.get("frame", "table"))


def encoder_set(plane: Any) -> int:
    """The set of cards in a plane of 40 places."""
    return sum(1 << int(card) for card in np.flatnonzero(plane))


def frame_set(cards: int, table: dict[str, Any], states: Any, seat: int) -> int:
    """A set of cards as the environment of this table shows it to a seat."""
    seen = states.copy()
    seen["observer"] = seat
    encoder = Encoder(Rules(players=int(states["players"][0])), env_frame(table))
    shown = encoder.to_frame(seen.repeat(40), np.arange(40))
    return sum(1 << int(shown[card]) for card in range(40) if cards >> card & 1)


@all_tables
def test_states_that_differ_in_hidden_cards_only_look_the_same(table: dict[str, Any]) -> None:
    env, other = briscola_v0.raw_env(**table), briscola_v0.raw_env(**table)
    rng = np.random.default_rng(1)
    changed = 0
    for seed in range(max(games(20), 5)):
        env.reset(seed=seed)
        stop = int(rng.integers(len(env.rules.deck) - env.rules.players))
        for number, _ in enumerate(turns(env, rng)):
            if number == stop:
                break
        saved = env.get_state()
        for seat, agent in enumerate(env.possible_agents):
            info = np.empty(1, GAME_STATE)
            info_state(saved["table"]["states"], np.array([seat]), info)
            world = np.empty(1, GAME_STATE)
            resample(info, np.array([seed], np.uint64), world)
            changed += bool((world["hands"] != saved["table"]["states"]["hands"]).any())
            different = copy.deepcopy(saved)
            different["table"]["states"] = world
            other.set_state(different)
            assert as_bytes(other.observe(agent)) == as_bytes(env.observe(agent))
            assert as_bytes(other.infos[agent]) == as_bytes(env.infos[agent])
            again = np.empty(1, GAME_STATE)
            info_state(world, np.array([seat]), again)
            assert format_state(again[0]) == format_state(info[0])
            assert render_text(again[0], "hidden") == render_text(info[0], "hidden")
    assert changed > 0


@pytest.mark.parametrize(("show_points", "shown"), [("hidden", 0), ("own", 1), ("all", 3)])
@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_points_are_hidden_unless_asked_for_until_the_deal_is_over(
    players: int, show_points: str, shown: int
) -> None:
    env = briscola_v0.raw_env(players=players, show_points=show_points)
    sides = 3 if players == 3 else 2
    env.reset(seed=5)
    for agent, observation, _, over, _, _, _ in turns(env, np.random.default_rng(5)):
        bits = observation["observation"][feature(env, "points")].reshape(sides, 7)
        points = [int(row @ (1 << np.arange(7))) for row in bits]
        scores = np.roll(record(env)["scores"][:sides], -(int(agent[-1]) % sides))
        visible = sides if over else shown
        assert points == [int(score) if k < visible else 0 for k, score in enumerate(scores)]


def test_hidden_is_the_default_of_show_points() -> None:
    hidden, default = briscola_v0.raw_env(show_points="hidden"), briscola_v0.raw_env()
    hidden.reset(seed=1)
    default.reset(seed=1)
    assert trace(hidden) == trace(default)


@pytest.mark.parametrize("frame", ["table", "trump_first"])
@pytest.mark.parametrize("players", [2, 4])
def test_tokens_are_the_actions_that_the_seat_saw(players: int, frame: str) -> None:
    options = {"signals": "free"} if players == 4 else {"exchange_seven": True}
    env = briscola_v0.raw_env(players=players, frame=frame, observation="tokens", **options)
    for seed in range(games(10)):
        env.reset(seed=seed)
        done: list[tuple[int, int, int]] = []
        plays = 0
        for agent, _, _, _, _, _, action in turns(env, np.random.default_rng(seed)):
            for seat, name in enumerate(env.possible_agents):
                expected = [
                    (what, (who - seat) % players, trick)
                    for what, who, trick in done
                    if what < 43 or (who - seat) % 2 == 0
                ]
                tokens = env.observe(name)["tokens"]
                assert tokens.dtype == np.int16
                assert [tuple(row) for row in tokens[: len(expected)].tolist()] == expected
                assert (tokens[len(expected) :] == -1).all()
            if action is not None:
                done.append((action, int(agent[-1]), plays // players))
                plays += action < 40


@pytest.mark.parametrize("frame", ["trump_first", "canonical"])
@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_all_frames_show_the_same_game(players: int, frame: str) -> None:
    table = briscola_v0.raw_env(players=players)
    framed = briscola_v0.raw_env(players=players, frame=frame)
    encoder = Encoder(table.rules, frame)
    trumps = set()
    for seed in range(games(12)):
        table.reset(seed=seed)
        framed.reset(seed=seed)
        for agent, observation, reward, _, _, _, action in turns(
            table, np.random.default_rng(seed)
        ):
            states = table.get_state()["table"]["states"]
            trumps.add(int(states["trump"][0]))
            seen = framed.last()[0]
            assert framed.agent_selection == agent
            assert framed.last()[1] == reward
            to_frame = encoder.to_frame(states.repeat(40), np.arange(40)).tolist()
            for part in ("action_mask", "observation"):
                assert (seen[part][to_frame] == observation[part][:40]).all()
            assert seen["observation"][feature(framed, "trump")].tolist() == [1, 0, 0, 0]
            framed.step(None if action is None else to_frame[action])
    assert len(trumps) > 1 or games(12) == 1


# ----------------------------------------------------------------------------------- state() vector


@all_tables
def test_state_holds_all_hands_and_the_stock_in_the_order_of_drawing(table: dict[str, Any]) -> None:
    env = briscola_v0.raw_env(**table)
    players, places = env.rules.players, len(env.rules.deck) - env.rules.players * 3 - 1
    if "hand_size" in table:
        places = len(env.rules.deck) - 2 * env.rules.hand_size - 1
    env.reset(seed=6)
    for _ in turns(env, np.random.default_rng(6)):
        vector = env.state()
        assert env.state_space.contains(vector)
        states = env.get_state()["table"]["states"]
        planes = vector[: 40 * (players + places)].reshape(players + places, 40)
        for seat in range(players):
            expected = frame_set(int(states["hands"][0, seat]), table, states, 0)
            assert encoder_set(planes[seat]) == expected
        drawn = states["stock"][0, : states["stock_count"][0]][::-1]
        for place, plane in enumerate(planes[players:]):
            card = 1 << int(drawn[place]) if place < len(drawn) else 0
            assert encoder_set(plane) == frame_set(card, table, states, 0)
    assert vector.size == 40 * (players + places) + env.observe("player_0")["observation"].size


def test_state_withholds_no_signal_and_no_points() -> None:
    env = briscola_v0.raw_env(players=4, signals="free", signals_from_trick=0)
    env.reset(seed=0, options={"dealer": 0})
    assert env.agent_selection == "player_1"
    before = env.state(), env.observe("player_0")
    env.step(45)
    assert (env.state() != before[0]).sum() == 1
    assert as_bytes(env.observe("player_0")) == as_bytes(before[1])
    for _ in turns(env, np.random.default_rng(0)):
        seen = env.state()[-before[1]["observation"].size :]
        bits = seen[feature(env, "points")].reshape(2, 7)
        assert [int(row @ (1 << np.arange(7))) for row in bits] == record(env)["scores"][
            :2
        ].tolist()
