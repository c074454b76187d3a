"""The PettingZoo environment: seeds, options, refusals, and saved states."""

from typing import Any

import numpy as np
import pytest

from briscola_env import InvalidRulesError, briscola_v0
from tests.env_tables import TABLES, advance, as_bytes, games, record, trace, turns

all_tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
single_deals = pytest.mark.parametrize("players", [2, 3, 4, 6])


# ------------------------------------------------------------------------------------------ seeds


@all_tables
def test_resets_after_a_seed_are_reproducible_and_all_different(table: dict[str, Any]) -> None:
    first, second = briscola_v0.raw_env(**table), briscola_v0.raw_env(**table)
    second.reset(seed=99)
    traces = []
    for env in (first, second):
        env.reset(seed=3)
        traces.append([trace(env)])
        for _ in range(2):
            env.reset()
            traces[-1].append(trace(env))
    assert traces[0] == traces[1]
    assert len({repr(entry) for entry in traces[0]}) == 3


def test_without_a_seed_every_environment_deals_something_else() -> None:
    np.random.seed(1)  # noqa: NPY002 - the global generator must not matter
    hands = set()
    for _ in range(20):
        env = briscola_v0.raw_env()
        env.reset()
        hands.add(record(env)["hands"].tobytes())
    assert len(hands) == 20


def test_a_bad_seed_is_refused() -> None:
    env = briscola_v0.raw_env()
    env.reset(seed=2**64 + 5)
    env.reset(seed=np.int64(5))
    for seed in (-1, 1.5, "a"):
        with pytest.raises(ValueError, match="seed="):
            env.reset(seed=seed)


@single_deals
def test_the_first_leader_is_uniform_over_seeds(players: int) -> None:
    env = briscola_v0.raw_env(players=players)
    number = games(4_000)
    counts = dict.fromkeys(env.possible_agents, 0)
    for seed in range(number):
        env.reset(seed=seed)
        counts[env.agent_selection] += 1
    expected = number / players
    assert all(abs(count - expected) < 4 * expected**0.5 for count in counts.values())


# ---------------------------------------------------------------------------- reset options, rules


def test_a_given_dealer_and_deck_are_dealt_from_the_first_card_on() -> None:
    env = briscola_v0.raw_env(players=3, match_wins=1)
    deck = [int(card) for card in np.random.default_rng(0).permutation(env.rules.deck)]
    for dealer in range(3):
        env.reset(options={"dealer": dealer, "deck": np.array(deck)})
        state = record(env)
        leader = (dealer + 1) % 3
        assert env.agent_selection == f"player_{leader}"
        for k in range(9):
            assert int(state["hands"][(leader + k) % 3]) >> deck[k] & 1
        assert state["face_up"] == deck[9]
        assert state["stock"][: state["stock_count"]].tolist() == deck[:9:-1]
        env.step(deck[0])
        env.step(deck[1])
        env.step(deck[2])
        taker = int(env.agent_selection[-1])
        assert int(record(env)["hands"][taker]) >> deck[10] & 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dealr": 1}, "unknown reset option 'dealr'"),
        ({"dealer": 2}, "dealer=2.*0..1"),
        ({"dealer": 0.5}, "dealer=0.5"),
        ({"deck": list(range(39))}, "each once"),
        ({"deck": [0, *range(39)]}, "each once"),
        ({"deck": [*range(39), 40]}, "deck=40.*0..39"),
        ({"deck": 7}, "a list of card ids"),
        ({"deck": "Ad 2d"}, "deck='A'"),
    ],
)
def test_a_bad_reset_option_is_refused_and_changes_nothing(options: Any, message: str) -> None:
    env = briscola_v0.raw_env()
    env.reset(seed=1)
    before = as_bytes(env.get_state())
    with pytest.raises(ValueError, match=message) as error:
        env.reset(seed=2, options=options)
    assert "\n" not in str(error.value)
    assert as_bytes(env.get_state()) == before


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"playrs": 3}, "'playrs'"),
        ({"players": 5}, "players=5"),
        ({"players": 2, "signals": "free"}, "signals='free'.*players"),
        ({"reward": "money"}, "reward='money'.*'points', 'win'"),
        ({"observation": "pixels"}, "observation='pixels'.*'planes', 'tokens'"),
        ({"frame": "x"}, "frame='x'.*'canonical'"),
        ({"show_points": True}, "show_points=True.*'hidden'"),
        ({"render_mode": "rgb_array"}, "render_mode='rgb_array'.*'ansi', 'human'"),
    ],
)
@pytest.mark.parametrize("make", [briscola_v0.env, briscola_v0.raw_env])
def test_a_bad_keyword_is_refused_in_one_line(make: Any, keywords: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        make(**keywords)
    assert "\n" not in str(error.value)
    assert isinstance(error.value, InvalidRulesError) == bool(
        keywords.keys() & {"playrs", "players", "signals"}
    )


def test_before_reset_everything_says_so() -> None:
    env = briscola_v0.raw_env(render_mode="ansi")
    for use in (
        lambda: env.step(0),
        lambda: env.observe("player_0"),
        env.last,
        env.state,
        env.render,
        env.get_state,
    ):
        with pytest.raises(ValueError, match="reset"):
            use()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"'player_2'.*player_0, player_1"):
        env.observe("player_2")


# ---------------------------------------------------------------------------------------- planners


@all_tables
def test_a_state_that_was_saved_in_mid_trick_goes_on_alike_wherever_it_is_set(
    table: dict[str, Any],
) -> None:
    env = briscola_v0.raw_env(**table)
    env.reset(seed=11)
    advance(env, 5)
    saved = env.get_state()
    untouched = as_bytes(saved)
    rest = trace(env)
    env.reset()
    later = trace(env)
    elsewhere = briscola_v0.raw_env(**table)
    for target in (env, elsewhere, env):
        target.set_state(saved)
        assert trace(target) == rest
        target.reset()
        assert trace(target) == later
    assert as_bytes(saved) == untouched


def test_a_clone_and_its_original_do_not_touch_each_other() -> None:
    env = briscola_v0.raw_env(players=3)
    env.reset(seed=2)
    advance(env, 1)
    before = as_bytes(env.get_state())
    clone = env.clone()
    assert as_bytes(clone.get_state()) == before
    rest = trace(clone)
    assert as_bytes(env.get_state()) == before
    assert not clone.agents
    assert trace(env) == rest


def test_states_of_the_dead_steps_are_restored_too() -> None:
    env = briscola_v0.raw_env(players=4)
    env.reset(seed=2)
    for *_, action in turns(env, np.random.default_rng(0)):
        if action is None:
            break
    env.step(None)
    saved = env.get_state()
    rest = trace(env)
    env.reset()
    env.set_state(saved)
    assert len(env.agents) == 3
    assert trace(env) == rest


def test_a_state_of_another_table_is_refused() -> None:
    env = briscola_v0.raw_env(players=3)
    env.reset(seed=2)
    with pytest.raises(ValueError, match=r"players=3.*players=4"):
        briscola_v0.raw_env(players=4).set_state(env.get_state())
