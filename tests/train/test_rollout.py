"""Whole deals of self-play, and advantages with known answers."""

import numpy as np
import pytest

from briscola_env.encoding import Encoder
from briscola_env.rng import child_seeds
from briscola_env.rules import Rules
from training.rollout import advantages, collect

TABLES = [
    Rules(),
    Rules(players=3),
    Rules(players=4, exchange_seven=True, signals="conventional", rebury="repeat"),
    Rules(players=6, withdraw="two_trumps", signals="free", show_partner="both"),
]


def random_choices(seed=0):
    generator = np.random.default_rng(seed)

    def choose(observations, legal, seeds):
        actions = (legal * generator.random(legal.shape)).argmax(axis=1)
        return actions, -np.log(legal.sum(axis=1)).astype(np.float32)

    return choose


def seeds(n, seed=3):
    out = np.empty(n, np.uint64)
    child_seeds(np.uint64(seed), 0, out)
    return out


@pytest.mark.parametrize("rules", TABLES, ids=lambda rules: f"{rules.players}p")
def test_every_valid_decision_is_legal_and_every_seat_plays_each_trick(rules):
    rollout = collect(Encoder(rules, "trump_first", "all"), seeds(50), random_choices(), 40)
    valid = rollout.valid
    assert rollout.legal[valid].any(axis=-1).all()
    chosen = np.take_along_axis(rollout.legal, rollout.actions[..., None], axis=-1)[..., 0]
    assert chosen[valid].all()
    plays = ((rollout.actions < 40) & valid).sum(axis=-1)
    assert (plays == rules.num_tricks).all()
    # Decisions fill the slots from the first on.
    assert (np.diff(valid.astype(int), axis=-1) <= 0).all()
    assert not rollout.legal[~valid].any()


@pytest.mark.parametrize("rules", TABLES, ids=lambda rules: f"{rules.players}p")
def test_rewards_of_a_seat_sum_to_its_sides_margin(rules):
    rollout = collect(Encoder(rules), seeds(50), random_choices(), 40)
    np.testing.assert_allclose(rollout.rewards.sum(-1) * 40, rollout.margins, atol=1e-3)
    np.testing.assert_allclose(rollout.margins.sum(-1), 0, atol=1e-3)
    if rules.players == 4:
        np.testing.assert_array_equal(rollout.margins[:, 0], rollout.margins[:, 2])
    assert np.abs(rollout.margins).max() <= 120


def test_each_seat_is_shown_its_own_hand():
    encoder = Encoder(Rules(players=4))
    hand = encoder.features[0]
    rollout = collect(encoder, seeds(30), random_choices(), 40)
    shown = rollout.observations[..., hand.start : hand.stop].astype(bool)
    np.testing.assert_array_equal(shown, rollout.legal)
    # In the first slot nobody has drawn: the four hands are twelve different cards.
    assert (shown[:, :, 0].sum(axis=1) <= 1).all()
    assert (shown[:, :, 0].sum(axis=(1, 2)) == 12).all()


def test_with_the_exact_end_game_seats_stop_at_the_empty_stock_and_rewards_still_sum():
    encoder = Encoder(Rules(), "trump_first", "all")
    exact = collect(encoder, seeds(200), random_choices(), 40, exact_endgame=True)
    plain = collect(encoder, seeds(200), random_choices(), 40)
    # In the last trick with a draw only the lead is chosen, by either of the seats.
    assert (np.sort(exact.valid.sum(axis=-1), axis=1) == [16, 17]).all()
    np.testing.assert_allclose(exact.rewards.sum(-1) * 40, exact.margins, atol=1e-3)
    np.testing.assert_allclose(exact.margins.sum(axis=-1), 0, atol=1e-3)
    # The first tricks are the same games; the end differs where it was not played well.
    np.testing.assert_array_equal(exact.actions[..., :16], plain.actions[..., :16])
    assert (exact.margins != plain.margins).any()
    assert (np.abs(exact.margins) <= 120).all()


@pytest.mark.parametrize("players", [4, 6])
def test_with_the_exact_end_game_teams_stop_at_the_empty_stock_and_rewards_still_sum(players):
    rules = Rules(players=players)
    encoder = Encoder(rules)
    exact = collect(encoder, seeds(60), random_choices(), 40, exact_endgame=True)
    plain = collect(encoder, seeds(60), random_choices(), 40)
    before = rules.num_tricks - 3
    assert (exact.valid.sum(axis=-1) == before).all()
    np.testing.assert_array_equal(exact.actions[..., :before], plain.actions[..., :before])
    np.testing.assert_allclose(exact.rewards.sum(-1) * 40, exact.margins, atol=1e-3)
    np.testing.assert_array_equal(exact.margins[:, ::2].T, [exact.margins[:, 0]] * (players // 2))
    np.testing.assert_array_equal(exact.margins[:, 1], -exact.margins[:, 0])
    assert (exact.margins != plain.margins).any()
    assert (np.abs(exact.margins) <= 120).all()


def test_advantages_of_a_game_of_two_tricks_are_those_computed_by_hand():
    # Seat 0 wins 10 points in the first trick and loses 4 in the second; reward unit 1 point.
    rewards = np.array([[[10.0, -4.0], [-10.0, 4.0]]], np.float32)
    values = np.array([[[3.0, -1.0], [-2.0, 5.0]]], np.float32)
    valid = np.ones((1, 2, 2), bool)
    # Seat 0: delta = 10 - 1 - 3 = 6 and -4 - -1 = -3, so 6 + 0.5 * -3 = 4.5.
    # Seat 1: delta = -10 + 5 - -2 = -3 and 4 - 5 = -1, so -3 + 0.5 * -1 = -3.5.
    expected = [[[4.5, -3.0], [-3.5, -1.0]]]
    np.testing.assert_allclose(advantages(rewards, values, valid, 0.5), expected)


def test_slots_that_were_not_used_change_no_advantage():
    rewards = np.array([[[10.0, -4.0, 99.0]]], np.float32)
    values = np.array([[[3.0, -1.0, 77.0]]], np.float32)
    valid = np.array([[[True, True, False]]])
    result = advantages(rewards, values, valid, 0.5)
    np.testing.assert_allclose(result, [[[4.5, -3.0, 0.0]]])


def test_with_lambda_one_an_advantage_is_the_sum_of_rewards_less_the_value():
    generator = np.random.default_rng(1)
    rewards, values = generator.normal(size=(2, 7, 4, 10)).astype(np.float32)
    valid = np.ones(rewards.shape, bool)
    returns = rewards[..., ::-1].cumsum(-1)[..., ::-1]
    np.testing.assert_allclose(
        advantages(rewards, values, valid, 1.0), returns - values, rtol=1e-4, atol=1e-4
    )
