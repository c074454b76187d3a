"""The PettingZoo environment: rewards, endings, illegal moves, masks."""

from typing import Any

import numpy as np
import pytest

from briscola_env import IllegalActionError, briscola_v0
from briscola_env.encoding import Encoder
from briscola_env.engine import legal_actions
from briscola_env.information import info_state
from briscola_env.state import GAME_STATE, parse_state
from tests.env_tables import TABLES, as_bytes, games, legal, record, trace, turns

all_tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
single_deals = pytest.mark.parametrize("players", [2, 3, 4, 6])


def play(env: Any, seed: int) -> tuple[dict[str, float], Any]:
    """One random episode: the sum of what each agent read through last(), and the last record."""
    env.reset(seed=seed)
    sums = dict.fromkeys(env.agents, 0.0)
    for agent, _, reward, *_ in turns(env, np.random.default_rng(seed)):
        sums[agent] += reward
    return sums, record(env)


def margins(scores: Any, players: int) -> dict[str, float]:
    """Each seat's side's points less the mean of the other sides', over 120."""
    sides = 3 if players == 3 else 2
    points = [int(score) for score in scores[:sides]]
    means = [points[s] - (sum(points) - points[s]) / (sides - 1) for s in range(sides)]
    return {f"player_{seat}": means[seat % sides] / 120 for seat in range(players)}


# ----------------------------------------------------------------------------------------- rewards


@single_deals
def test_rewards_read_through_last_sum_to_the_margin(players: int) -> None:
    env = briscola_v0.raw_env(players=players)
    for seed in range(games(40)):
        sums, end = play(env, seed)
        assert sum(end["scores"]) == 120
        assert sums == pytest.approx(margins(end["scores"], players), abs=1e-12)


@single_deals
def test_each_trick_pays_its_points_to_all_agents_at_once(players: int) -> None:
    env = briscola_v0.raw_env(players=players)
    sides = 3 if players == 3 else 2
    for seed in range(games(20)):
        env.reset(seed=seed)
        before = record(env)
        for *_, action in turns(env, np.random.default_rng(seed)):
            if action is None:
                break
            after = record(env)
            gained = (after["scores"] - before["scores"])[:sides]
            assert env.rewards == pytest.approx(margins(gained, players))
            before = after


def test_a_reward_earned_by_another_seat_s_move_is_read_at_the_next_last() -> None:
    env = briscola_v0.raw_env()
    deck = [
        9,
        8,
        0,
        1,
        2,
        3,
        39,
        *(card for card in range(40) if card not in {9, 8, 0, 1, 2, 3, 39}),
    ]
    env.reset(seed=0, options={"dealer": 1, "deck": deck})
    assert env.agent_selection == "player_0"
    env.step(9)  # the ace of coins
    assert env.last()[1] == 0
    env.step(8)  # the three of coins: 21 points for player_0
    assert env.agent_selection == "player_0"
    assert env.last()[1] == pytest.approx(21 / 120)
    env.step(0)
    assert env.agent_selection == "player_1"
    assert env.last()[1] == pytest.approx(-21 / 120)
    env.step(1)
    assert env.agent_selection == "player_1"
    assert env.last()[1] == 0


@pytest.mark.parametrize("players", [4, 6])
def test_partners_earn_the_same(players: int) -> None:
    sums, _ = play(briscola_v0.raw_env(players=players), 7)
    assert len({sums[f"player_{seat}"] for seat in range(0, players, 2)}) == 1
    assert len({sums[f"player_{seat}"] for seat in range(1, players, 2)}) == 1


@all_tables
def test_rewards_sum_to_zero_over_the_sides(table: dict[str, Any]) -> None:
    sums, _ = play(briscola_v0.raw_env(**table), 5)
    sides = 3 if len(sums) == 3 else 2
    assert sum(list(sums.values())[:sides]) == pytest.approx(0, abs=1e-12)


def test_a_study_deck_pays_fractions_of_its_own_points() -> None:
    env = briscola_v0.raw_env(**TABLES["2-study"])
    assert env.rules.deck_points == 50
    margins = []
    for seed in range(5):
        sums, end = play(env, seed)
        margins.append(int(end["scores"][0]) - int(end["scores"][1]))
        assert sums["player_0"] == pytest.approx(margins[-1] / 50)
    assert any(margins)


@single_deals
def test_win_pays_one_at_the_end_and_nothing_before(players: int) -> None:
    env = briscola_v0.raw_env(players=players, reward="win")
    sides = 3 if players == 3 else 2
    for seed in range(games(40)):
        env.reset(seed=seed)
        for agent, _, reward, dead, _, info, _ in turns(env, np.random.default_rng(seed)):
            if not dead or info["winner"] is None:
                assert reward == 0
            else:
                won = int(agent[-1]) % sides == info["winner"]
                assert reward == (1 if won else -1 / (sides - 1))


def drawn_seed() -> int:
    """A seed whose episode, played at random, ends 60 : 60."""
    env = briscola_v0.raw_env()
    for seed in range(2_000):
        _, end = play(env, seed)
        if end["scores"][0] == end["scores"][1]:
            return seed
    raise AssertionError("no draw among 2,000 random games")


def test_sixty_all_has_no_winner_and_pays_nothing() -> None:
    seed = drawn_seed()
    for reward in ("points", "win"):
        env = briscola_v0.raw_env(reward=reward)
        sums, _ = play(env, seed)
        assert sums == pytest.approx({"player_0": 0, "player_1": 0})
        env.reset(seed=seed)
        final = [turn for turn in turns(env, np.random.default_rng(seed)) if turn[3]]
        assert len(final) == 2
        for _, _, _, terminated, truncated, info, _ in final:
            assert (terminated, truncated) == (True, False)
            assert info["winner"] is None
            assert info["points"] == (60, 60)


# ---------------------------------------------------------------------------------------- endings


@all_tables
def test_all_agents_end_together_after_the_last_card(table: dict[str, Any]) -> None:
    env = briscola_v0.raw_env(**table)
    for seed in range(games(10)):
        env.reset(seed=seed)
        ended = []
        for agent, _, _, terminated, truncated, _, _ in turns(env, np.random.default_rng(seed)):
            assert terminated != truncated or not terminated
            if terminated or truncated:
                ended.append(agent)
                assert record(env)["trick"] == env.rules.num_tricks
                assert all(env.terminations.values()) or all(env.truncations.values())
            else:
                assert not ended
                assert not any([*env.terminations.values(), *env.truncations.values()])
        assert sorted(ended) == env.possible_agents
        assert env.agents == []


def test_a_finished_agent_may_do_nothing_but_none() -> None:
    env = briscola_v0.raw_env()
    env.reset(seed=1)
    for *_, action in turns(env, np.random.default_rng(1)):
        if action is None:
            break
    with pytest.raises(ValueError, match="None"):
        env.step(0)
    assert env.agents == ["player_0", "player_1"]
    env.step(None)
    env.step(None)
    assert env.agents == []
    with pytest.raises(ValueError, match="reset"):
        env.step(None)


def test_a_match_cut_off_by_max_deals_is_truncated_and_drawn() -> None:
    seed = drawn_seed()
    env = briscola_v0.raw_env(match_wins=1, max_deals=1, reward="win")
    env.reset(seed=seed)
    final = [turn for turn in turns(env, np.random.default_rng(seed)) if turn[-1] is None]
    assert [turn[3:5] for turn in final] == [(False, True)] * 2
    assert [turn[2] for turn in final] == [0, 0]
    assert final[0][5]["wins"] == (0, 0)


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_in_a_match_the_deal_passes_one_seat_on_until_enough_are_won(players: int) -> None:
    env = briscola_v0.raw_env(players=players, match_wins=2)
    for seed in range(games(10)):
        env.reset(seed=seed)
        dealers, deals = [], -1
        for *_, info, action in turns(env, np.random.default_rng(seed)):
            state = record(env)
            if action is None:
                assert max(info["wins"]) == info["wins"][info["winner"]] == 2
                break
            if state["deals"] != deals:
                deals = state["deals"]
                dealers.append(int(state["dealer"]))
                assert env.agent_selection == f"player_{(dealers[-1] + 1) % players}"
        assert len(dealers) >= 2
        assert dealers == [(dealers[0] + k) % players for k in range(len(dealers))]


def test_the_points_of_all_deals_of_a_match_are_paid() -> None:
    env = briscola_v0.raw_env(match_wins=2)
    env.reset(seed=4)
    paid, expected, seen = 0.0, 0, 0
    for agent, _, reward, *_ in turns(env, np.random.default_rng(4)):
        paid += reward if agent == "player_0" else 0
        state = record(env)
        if state["deals"] > seen:
            seen = state["deals"]
            expected += int(state["last_scores"][0]) - int(state["last_scores"][1])
    assert seen >= 2
    assert paid == pytest.approx(expected / 120)


# ---------------------------------------------------------------------------------- illegal moves

NO_ACTION = [-1, 10**30, 1.0, "9", None, np.array([1, 2]), np.float32(3)]


@pytest.mark.parametrize("table", [{}, {"frame": "canonical"}, TABLES["4-options"]])
def test_an_illegal_action_raises_and_changes_nothing(table: dict[str, Any]) -> None:
    env = briscola_v0.raw_env(**table)
    env.reset(seed=3)
    for step, (_, observation, *_, info, action) in enumerate(turns(env, np.random.default_rng(3))):
        if action is None:
            break
        before = as_bytes(env.get_state()), as_bytes(env.infos)
        forbidden = set(range(env.rules.num_actions)) - set(legal(observation["action_mask"]))
        wrong: list[Any] = [min(forbidden)]
        if step == 2:
            wrong = [*forbidden, env.rules.num_actions, *NO_ACTION]
        for bad in wrong:
            with pytest.raises(IllegalActionError):
                env.step(bad)
        assert (as_bytes(env.get_state()), as_bytes(env.infos)) == before
        assert as_bytes(env.last()[0]) == as_bytes(observation)
        assert env.last()[4] is info


def test_the_error_names_the_action_what_is_allowed_and_the_position_of_that_seat() -> None:
    env = briscola_v0.raw_env(players=4)
    env.reset(seed=3)
    seat = int(env.agent_selection[-1])
    allowed = legal(env.last()[0]["action_mask"])
    bad = next(card for card in range(40) if card not in allowed)
    env.last()[4]["action_mask"][:] = 0  # the caller's to spoil
    with pytest.raises(IllegalActionError) as error:
        env.step(bad)
    first, *position = str(error.value).splitlines()
    assert f"player_{seat}" in first
    assert f"action {bad} " in first
    assert all(f"{card} (" in first for card in allowed)
    info = np.empty(1, GAME_STATE)
    info_state(env.get_state()["table"]["states"], np.array([seat]), info)
    assert parse_state("\n".join(position)).tobytes() == info.tobytes()


@pytest.mark.parametrize("make", [briscola_v0.env, briscola_v0.raw_env])
def test_after_an_illegal_move_a_reset_plays_like_a_fresh_environment(make: Any) -> None:
    env, fresh = make(players=3), make(players=3)
    fresh.reset(seed=42)
    expected = trace(fresh)
    for _ in range(3):
        env.reset()
        for number, (*_, observation, _, _, _, _, action) in enumerate(
            turns(env, np.random.default_rng(0))
        ):
            if number == 4:
                bad = int(np.flatnonzero(observation["action_mask"] == 0)[0])
                if make is briscola_v0.env:
                    env.step(bad)
                else:
                    with pytest.raises(IllegalActionError):
                        env.step(bad)
                break
            assert action is not None
        env.reset(seed=42)
        assert trace(env) == expected


def test_in_env_an_illegal_action_ends_the_game_with_minus_one_for_its_agent() -> None:
    env = briscola_v0.env(players=4)
    env.reset(seed=1)
    culprit = env.agent_selection
    env.step(int(np.flatnonzero(env.last()[0]["action_mask"] == 0)[0]))
    read = {}
    for agent in env.agent_iter():
        _, reward, terminated, _, _ = env.last()
        assert terminated
        read[agent] = reward
        env.step(None)
    assert read == {a: -1 if a == culprit else 0 for a in env.possible_agents}
    assert env.agents == []


def test_in_env_an_action_outside_the_space_is_an_assertion_error() -> None:
    env = briscola_v0.env()
    env.reset(seed=1)
    with pytest.raises(AssertionError, match="action space"):
        env.step(40)


# ------------------------------------------------------------------------------------------ masks


@all_tables
def test_masks_are_the_legal_set_at_reset_and_at_every_step(table: dict[str, Any]) -> None:
    env = briscola_v0.raw_env(**table)
    encoder = Encoder(env.rules, table.get("frame", "table"))
    for seed in range(games(120)):
        env.reset(seed=seed)
        for agent, observation, _, _, _, info, _ in turns(env, np.random.default_rng(seed)):
            states = env.get_state()["table"]["states"]
            row = np.empty((1, env.rules.num_actions), np.bool_)
            legal_actions(states, row)
            actions = np.array(legal(row[0]), np.int64)
            expected = set(encoder.to_frame(states.repeat(len(actions)), actions).tolist())
            assert observation["action_mask"].dtype == info["action_mask"].dtype == np.int8
            assert set(legal(observation["action_mask"])) == expected
            assert as_bytes(info["action_mask"]) == as_bytes(observation["action_mask"])
            assert not np.shares_memory(info["action_mask"], observation["action_mask"])
            for other in env.agents:
                if other != agent:
                    assert not env.observe(other)["action_mask"].any()
                    assert bool(env.infos[other]) == (not expected)


def test_the_mask_serves_to_sample_from_the_action_space() -> None:
    env = briscola_v0.raw_env(players=4, signals="free")
    env.reset(seed=1)
    count = 0
    while count < 1_000:
        if not env.agents:
            env.reset()
        observation, _, terminated, _, _ = env.last()
        action = None
        if not terminated:
            action = env.action_space(env.agent_selection).sample(observation["action_mask"])
            assert action in legal(observation["action_mask"])
            count += 1
        env.step(action)
