"""The Gymnasium environment: one learner, the other seats played by policies."""

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest

from briscola_env import IllegalActionError, briscola_v0
from briscola_env.encoding import Encoder
from briscola_env.engine import legal_actions
from briscola_env.envs.single import BriscolaEnv
from briscola_env.information import info_state
from briscola_env.policies import GreedyPolicy
from briscola_env.rng import decision_seeds
from briscola_env.state import GAME_STATE
from tests.env_tables import TABLES, as_bytes, feature, games, legal

all_tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
TWENTY_ONE = [9, 8, 0, 1, 2, 3, 39]
"""Dealt first: the ace of coins and two worthless cards to the leader, the three to the other."""


class Spy:
    """Plays its lowest legal action, and keeps what it was given."""

    name = "spy"

    def __init__(self) -> None:
        self.given: list[Any] = []

    def act(self, info_states: Any, legal: Any, seeds: Any) -> Any:
        self.given.append((info_states.copy(), legal.copy(), seeds.copy()))
        return np.array([row.argmax() for row in legal])


class Fixed:
    """Always names the same action."""

    name = "stubborn"

    def __init__(self, action: Any) -> None:
        self.action = action

    def act(self, info_states: Any, legal: Any, seeds: Any) -> Any:
        return [self.action]


def play(env: Any, rng: np.random.Generator, first: Any) -> list[tuple[Any, ...]]:
    """The rest of an episode at random after a reset that returned `first`: what step() gave."""
    observation, steps = first[0], []
    while True:
        action = int(rng.choice(legal(observation["action_mask"])))
        steps.append((*env.step(action), action))
        observation, _, terminated, truncated, *_ = steps[-1]
        if terminated or truncated:
            return steps


# ----------------------------------------------------------------------------------------- rewards


@pytest.mark.parametrize("seat", [0, "random"])
@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_the_learner_s_rewards_sum_to_the_final_margin(players: int, seat: Any) -> None:
    env = BriscolaEnv(players=players, seat=seat)
    sides = 3 if players == 3 else 2
    for seed in range(games(100)):
        steps = play(env, np.random.default_rng(seed), env.reset(seed=seed))
        assert len(steps) == env.rules.num_tricks
        info = steps[-1][4]
        own = info["points"][info["seat"] % sides]
        margin = own - (sum(info["points"]) - own) / (sides - 1)
        assert sum(info["points"]) == 120
        assert sum(step[1] for step in steps) == pytest.approx(margin / 120, abs=1e-12)


def test_a_won_trick_of_21_points_is_rewarded_in_that_step() -> None:
    env = BriscolaEnv(opponent=Fixed(8))
    rest = [card for card in range(40) if card not in TWENTY_ONE]
    env.reset(seed=0, options={"dealer": 1, "deck": TWENTY_ONE + rest})
    assert env.step(9)[1] == pytest.approx(21 / 120)


def test_what_others_win_before_the_learner_s_next_turn_is_in_the_reward() -> None:
    env = BriscolaEnv(seat=1, opponent=Spy())
    first = [9, 8, 19, 1, 29, 3, 39]  # the spy holds three aces and leads that of coins
    rest = [card for card in range(40) if card not in first]
    env.reset(seed=0, options={"dealer": 1, "deck": first + rest})
    assert env.step(8)[1] == pytest.approx(-21 / 120)


@pytest.mark.parametrize("players", [2, 3, 4])
def test_win_pays_the_result_in_the_last_step(players: int) -> None:
    env = BriscolaEnv(players=players, reward="win", seat="random")
    sides = 3 if players == 3 else 2
    for seed in range(games(40)):
        steps = play(env, np.random.default_rng(seed), env.reset(seed=seed))
        info = steps[-1][4]
        won = info["seat"] % sides == info["winner"]
        last = 0 if info["winner"] < 0 else 1 if won else -1 / (sides - 1)
        assert [step[1] for step in steps] == [0] * (len(steps) - 1) + [last]


def test_a_match_ends_when_it_is_won_and_is_truncated_when_it_is_cut_off() -> None:
    env = BriscolaEnv(match_wins=2, max_deals=3)
    ends = set()
    for seed in range(games(200)):
        steps = play(env, np.random.default_rng(seed), env.reset(seed=seed))
        _, _, terminated, truncated, info, _ = steps[-1]
        ends.add((terminated, truncated))
        assert truncated == (info["winner"] < 0)
        assert (max(info["wins"]) == 2) == terminated
    assert ends == {(True, False), (False, True)} or games(200) < 200


# ----------------------------------------------------------------------------- same game as the AEC


@all_tables
def test_it_shows_the_learner_what_the_aec_environment_shows_its_seat(
    table: dict[str, Any],
) -> None:
    aec = briscola_v0.raw_env(**table)
    for seat in range(aec.rules.players):
        env = BriscolaEnv(**table, seat=seat, opponent="greedy", partner=partners(aec, "greedy"))
        greedy = GreedyPolicy()
        for episode in range(2):
            seed = 13 if episode == 0 else None
            observation, info = env.reset(seed=seed)
            aec.reset(seed=seed)
            reward, over = 0.0, False
            rng = np.random.default_rng(episode)
            while True:
                while aec.agents and not over and aec.agent_selection != f"player_{seat}":
                    aec.step(table_action(aec, greedy, table.get("frame", "table")))
                    over = any([*aec.terminations.values(), *aec.truncations.values()])
                agent = f"player_{seat}"
                assert as_bytes(observation) == as_bytes(aec.observe(agent))
                expected = {"seat": seat, **aec.infos[agent]}
                if over and expected["winner"] is None:
                    expected["winner"] = -1
                assert as_bytes(info) == as_bytes(expected)
                assert reward == pytest.approx(aec._cumulative_rewards[agent])
                if over:
                    break
                action = int(rng.choice(legal(observation["action_mask"])))
                observation, reward, terminated, truncated, info = env.step(action)
                aec.step(action)
                over = any([*aec.terminations.values(), *aec.truncations.values()])
                if over:
                    assert terminated == aec.terminations[agent]
                    assert truncated == aec.truncations[agent]


def partners(aec: Any, name: str) -> str | None:
    return name if aec.rules.players in (4, 6) else None


def table_action(aec: Any, policy: Any, frame: str) -> int:
    """What a policy plays for the agent to act, in the frame of the environment."""
    states = aec.get_state()["table"]["states"]
    seat = np.array([int(aec.agent_selection[-1])])
    info = np.empty(1, GAME_STATE)
    info_state(states, seat, info)
    row = np.empty((1, aec.rules.num_actions), np.bool_)
    legal_actions(states, row)
    action = policy.act(info, row, np.zeros(1, np.uint64))
    return int(Encoder(aec.rules, frame).to_frame(states, action)[0])


def test_the_same_seed_plays_the_same_episodes_and_the_next_ones_too() -> None:
    traces = []
    for _ in range(2):
        env = BriscolaEnv(players=4, seat="random", opponent=["random", "greedy"])
        episodes = [play(env, np.random.default_rng(0), env.reset(seed=3))]
        episodes += [play(env, np.random.default_rng(0), env.reset()) for _ in range(2)]
        traces.append(as_bytes(episodes))
    assert traces[0] == traces[1]
    assert len({repr(episode) for episode in traces[0]}) == 3


def test_a_random_seat_is_uniform_and_independent_of_the_dealer() -> None:
    env = BriscolaEnv(players=3, seat="random")
    number = games(3_000)
    counts = np.zeros((3, 3))
    for seed in range(number):
        env.reset(seed=seed)
        counts[env.seat, int(env._table.states["dealer"][0])] += 1
    expected = number / 9
    assert (abs(counts - expected) < 4.5 * expected**0.5).all()


# ----------------------------------------------------------------------------------------- policies


def test_policies_see_what_their_seat_knows_and_get_the_seeds_of_their_decisions() -> None:
    spies = [Spy(), Spy(), Spy()]
    env = BriscolaEnv(players=4, signals="free", opponent=[spies[0], spies[2]], partner=spies[1])
    env.reset(seed=5)
    episode_seed = env._table.episode_seed
    play(env, np.random.default_rng(5), env._show())
    numbers = []
    for relative, spy in enumerate(spies, start=1):
        assert spy.given
        for info, mask, seeds in spy.given:
            seat = info["observer"][0]
            assert info["current_player"][0] == seat == relative
            assert info["hands"][0, seat] != 0
            assert np.delete(info["hands"][0], seat).max() == 0
            assert (info["stock"] == -1).all()
            assert info["rng"][0] == 0
            assert mask.dtype == np.bool_
            assert mask.any()
            candidates = np.empty(200, np.uint64)
            decision_seeds(
                np.full(200, episode_seed, np.uint64),
                np.full(200, seat, np.int64),
                np.arange(200),
                candidates,
            )
            (decision,) = np.flatnonzero(candidates == seeds[0])
            numbers.append(int(decision))
    assert len(set(numbers)) == len(numbers)


def test_a_list_of_opponents_sits_in_turn_order_from_the_learner() -> None:
    first, second, third = Spy(), Spy(), Spy()
    env = BriscolaEnv(players=6, seat=4, opponent=[first, second, third], partner=["random"] * 2)
    play(env, np.random.default_rng(0), env.reset(seed=0))
    assert [spy.given[0][0]["observer"][0] for spy in (first, second, third)] == [5, 1, 3]


def test_names_policies_and_defaults_choose_who_plays() -> None:
    env = BriscolaEnv(players=6, opponent=["greedy", "random", GreedyPolicy()], partner="greedy")
    assert " ".join(policy.name for policy in env._policies) == (
        "greedy greedy random greedy greedy"
    )
    env = BriscolaEnv(players=4)
    assert [policy.name for policy in env._policies] == ["random"] * 3


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"opponent": "clever"}, "'clever'.*random, greedy"),
        ({"opponent": 7}, "opponent=7"),
        ({"opponent": ["random", "random"]}, r"opponent=.*needs 1"),
        ({"players": 4, "opponent": ["random"] * 3}, r"opponent=.*needs 2"),
        ({"players": 4, "partner": ["greedy", "greedy"]}, r"partner=.*needs 1"),
        ({"players": 3, "partner": "greedy"}, "partner='greedy'.*players=3"),
        ({"seat": 2}, "seat=2.*0..1"),
        ({"seat": "last"}, "seat='last'"),
        ({"seat": True}, "seat=True"),
        ({"illegal_action": "ignore"}, "illegal_action='ignore'.*'raise', 'terminate'"),
        ({"playrs": 2}, "'playrs'"),
        ({"render_mode": "rgb_array"}, "render_mode='rgb_array'"),
    ],
)
def test_a_bad_keyword_is_refused_in_one_line(keywords: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        BriscolaEnv(**keywords)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("answer", [40, -1, 1.5, None])
def test_a_policy_that_plays_an_illegal_action_is_named(answer: Any) -> None:
    env = BriscolaEnv(opponent=Fixed(answer), illegal_action="terminate")
    env.reset(seed=0, options={"dealer": 1})
    action = legal(env.action_masks())[0]
    with pytest.raises(IllegalActionError, match="policy 'stubborn'"):
        env.step(action)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(action)  # it is not the learner's turn


# ------------------------------------------------------------------------------------ illegal moves


def test_by_default_an_illegal_action_raises_and_changes_nothing() -> None:
    env = BriscolaEnv(players=3, frame="canonical")
    observation, _ = env.reset(seed=4)
    for bad in (*np.flatnonzero(observation["action_mask"] == 0), -1, 40, 1.5, None):
        with pytest.raises(IllegalActionError):
            env.step(bad)
    assert as_bytes(env._show()[0]) == as_bytes(observation)
    fresh = BriscolaEnv(players=3, frame="canonical")
    steps = [play(e, np.random.default_rng(0), (observation,)) for e in (env, start(fresh, 4))]
    assert as_bytes(steps[0]) == as_bytes(steps[1])


def start(env: Any, seed: int) -> Any:
    env.reset(seed=seed)
    return env


def test_terminate_ends_the_episode_with_minus_one_and_says_so() -> None:
    env = BriscolaEnv(illegal_action="terminate")
    observation, _ = env.reset(seed=4)
    bad = int(np.flatnonzero(observation["action_mask"] == 0)[3])
    after, reward, terminated, truncated, info = env.step(bad)
    assert (reward, terminated, truncated, info["illegal_action"]) == (-1, True, False, bad)
    assert "winner" not in info
    assert env.observation_space.contains(after)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(legal(after["action_mask"])[0])
    with pytest.raises(IllegalActionError, match="whole number"):
        start(env, 4).step(1.5)
    fresh = start(BriscolaEnv(), 42)
    first = env.reset(seed=42)
    assert as_bytes(play(env, np.random.default_rng(0), first)) == as_bytes(
        play(fresh, np.random.default_rng(0), first)
    )


def test_after_the_end_and_before_the_first_reset_a_step_asks_for_a_reset() -> None:
    env = BriscolaEnv()
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    play(env, np.random.default_rng(0), env.reset(seed=0))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


# ------------------------------------------------------------------------------------- masks, infos


@all_tables
def test_all_masks_agree_and_everything_is_in_its_space(table: dict[str, Any]) -> None:
    env = BriscolaEnv(**table, seat="random", opponent="greedy")
    for seed in range(games(30)):
        rng = np.random.default_rng(seed)
        observation, info = env.reset(seed=seed)
        over = False
        while True:
            assert env.observation_space.contains(observation)
            assert observation["action_mask"].dtype == np.int8
            assert as_bytes(info["action_mask"]) == as_bytes(observation["action_mask"])
            assert not np.shares_memory(info["action_mask"], observation["action_mask"])
            masks = env.action_masks()
            assert masks.dtype == np.bool_
            assert masks.shape == (env.rules.num_actions,)
            assert (masks == observation["action_mask"]).all()
            assert masks.any() != over
            if over:
                break
            action = env.action_space.sample(observation["action_mask"])
            assert action in legal(masks)
            observation, _, terminated, truncated, info = env.step(rng.choice(legal(masks)))
            over = terminated or truncated


def test_bad_reset_options_are_refused() -> None:
    env = BriscolaEnv()
    with pytest.raises(ValueError, match="unknown reset option 'seat'"):
        env.reset(options={"seat": 1})


def test_after_a_signal_the_learner_acts_again() -> None:
    env = BriscolaEnv(players=4, signals="free", signals_from_trick=0)
    env.reset(seed=0)
    observation, reward, *_ = env.step(45)
    assert reward == 0
    assert max(legal(observation["action_mask"])) < 40
    said = observation["observation"][feature(env, "message")][:8]
    assert said.tolist() == [0, 0, 1, 0, 0, 0, 0, 0]


# ------------------------------------------------------------------------------------------ render


def test_the_picture_shows_the_learner_s_view_and_nothing_else() -> None:
    env = BriscolaEnv(players=3, seat=1, render_mode="ansi")
    env.reset(seed=0)
    text = env.render()
    assert text is not None
    lines = [line for line in text.splitlines() if "player_" in line]
    assert ["??" in line for line in lines] == [True, False, True]
    changed = copy.deepcopy(env)
    hands = changed._table.states["hands"][0]
    hands[0], hands[2] = hands[2], hands[0]
    assert changed.render() == text


def test_render_modes_do_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    env = BriscolaEnv(render_mode="human")
    env.reset(seed=0)
    assert "trump" in capsys.readouterr().out
    env.step(legal(env.action_masks())[0])
    assert "trump" in capsys.readouterr().out
    assert env.render() is None
    assert "trump" in capsys.readouterr().out
    silent = BriscolaEnv()
    silent.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert silent.render() is None
    with pytest.raises(gymnasium.error.ResetNeeded):
        BriscolaEnv(render_mode="ansi").render()
