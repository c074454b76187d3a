"""The game against OpenSpiel itself: its own tests, and what its users rely on."""

import pickle

import numpy as np
import pyspiel
import pytest
from open_spiel.python.observation import make_observation

from briscola_env.dealing import deal
from briscola_env.engine import step
from briscola_env.openspiel import BriscolaGame
from briscola_env.policies import GreedyPolicy
from briscola_env.rules import InvalidRulesError, Rules
from briscola_env.state import new_states

TABLES = [
    "players=2",
    "players=3",
    "players=4",
    "players=6",
    "deck=study-6",
    "deck=study-8",
    "exchange_seven=true,exchange_two=true,withdraw=two_trumps",
    "players=4,signals=conventional,show_partner=both,withdraw=deuce",
    "players=4,signals=free,signal_audience=table",
]


@pytest.fixture(params=TABLES)
def game(request):
    return pyspiel.load_game(f"briscola({request.param})")


def random_states(game, seed, deals=3):
    """Every position of some random deals."""
    generator = np.random.default_rng(seed)
    for _ in range(deals):
        state = game.new_initial_state()
        while True:
            yield state
            if state.is_terminal():
                break
            if state.is_chance_node():
                actions, probabilities = zip(*state.chance_outcomes(), strict=True)
                action = generator.choice(actions, p=probabilities)
            else:
                action = generator.choice(state.legal_actions())
            state = state.child(int(action))


def test_openspiels_random_simulations_with_serialization(game):
    pyspiel.random_sim_test(game, num_sims=5, serialize=True, verbose=False)


def test_only_the_seat_to_act_has_actions_and_chance_sums_to_1(game):
    for state in random_states(game, 1):
        if state.is_chance_node():
            assert sum(p for _, p in state.chance_outcomes()) == pytest.approx(1)
        for player in range(game.num_players()):
            if not state.is_chance_node():  # there OpenSpiel gives everybody its outcomes
                assert bool(state.legal_actions(player)) == (player == state.current_player())


def test_returns_are_margins_within_the_bounds(game):
    rules = Rules(players=game.num_players())
    for state in random_states(game, 2):
        returns = state.returns()
        assert sum(returns) == pytest.approx(0)
        assert all(game.min_utility() <= value <= game.max_utility() for value in returns)
        if not state.is_terminal():
            assert not any(returns)
            continue
        scores = state.record["scores"][0, : rules.sides].astype(float)
        others = (scores.sum() - scores) / (rules.sides - 1)
        assert returns == [(scores - others)[seat % rules.sides] for seat in range(rules.players)]
        players = [a for a in state.full_history() if a.player >= 0]
        assert len(players) <= game.max_game_length()


def test_a_state_that_was_written_goes_on_alike(game):
    for number, state in enumerate(random_states(game, 3, deals=1)):
        if number % 7:
            continue
        text = pyspiel.serialize_game_and_state(game, state)
        _, twin = pyspiel.deserialize_game_and_state(text)
        assert (str(twin), twin.history()) == (str(state), state.history())
        if not state.is_terminal() and not state.is_chance_node():
            action = state.legal_actions()[-1]
            assert str(twin.child(action)) == str(state.child(action))


def test_a_game_can_be_pickled():
    game = pyspiel.load_game("briscola(players=3)")
    assert str(pickle.loads(pickle.dumps(game))) == str(game)


def test_the_same_cards_give_the_game_of_the_engine():
    """Chance deals what a deck holds: every trick, draw and score is then the engine's."""
    for players, seed in ((2, 0), (3, 1), (4, 2)):
        rules = Rules(players=players)
        order = np.random.default_rng(seed).permutation(rules.deck)
        record = new_states(rules, 1)
        deal(record, np.zeros(1, np.uint64), np.array([players - 1]), order[None])
        state = pyspiel.load_game(f"briscola(players={players})").new_initial_state()
        cards = iter(order)
        while not state.is_terminal():
            if state.is_chance_node():
                state.apply_action(int(next(cards)))
                continue
            for name in ("current_player", "hands", "face_up", "stock_count", "table"):
                np.testing.assert_array_equal(state.record[name], record[name])
            action = state.legal_actions()[0]
            state.apply_action(action)
            step(record, np.array([action]))
        for name in ("scores", "played", "history", "history_seat", "winner"):
            np.testing.assert_array_equal(state.record[name], record[name])


# --------------------------------------------------------------------------------- what a seat sees

PERFECT = pyspiel.IIGObservationType(perfect_recall=True)


def test_equal_information_state_tensors_and_equal_strings_are_the_same_thing():
    """On a whole small game: neither the tensor nor the string says more than the other."""
    game = pyspiel.load_game("briscola(deck=study-6)")
    observation = make_observation(game, PERFECT)
    strings = {}
    for state in random_states(game, 4, deals=200):
        if state.current_player() < 0:
            continue
        observation.set_from(state, state.current_player())
        key = state.information_state_string()
        strings.setdefault(observation.tensor.tobytes(), set()).add(key)
        np.testing.assert_array_equal(state.information_state_tensor(), observation.tensor)
    assert len(strings) > 500
    assert all(len(same) == 1 for same in strings.values())
    assert len({key for same in strings.values() for key in same}) == len(strings)


def test_hidden_cards_change_nothing_that_a_seat_sees(game):
    """The same deal and plays, seen through another order of what is still to be drawn."""
    for state in random_states(game, 5, deals=2):
        if state.is_chance_node() or state.is_terminal():
            continue
        other = state.clone()
        count = int(other.record["stock_count"][0])
        other.record["stock"][0, :count] = other.record["stock"][0, :count][::-1].copy()
        for player in range(game.num_players()):
            for kind in (PERFECT, None):
                seen = make_observation(game, kind)
                seen.set_from(state, player)
                before = seen.tensor.copy(), seen.string_from(state, player)
                seen.set_from(other, player)
                np.testing.assert_array_equal(seen.tensor, before[0])
                assert seen.string_from(other, player) == before[1]


def test_the_hands_of_others_are_not_seen():
    """Two seats change hands: the third cannot tell."""
    game = pyspiel.load_game("briscola(players=3)")
    deck = list(game.new_initial_state().rules.deck)[:10]
    swapped = [deck[i] for i in (0, 2, 1, 3, 5, 4, 6, 8, 7, 9)]
    states = []
    for cards in (deck, swapped):
        state = game.new_initial_state()
        for card in cards:
            state.apply_action(card)
        states.append(state)
    assert states[0].information_state_string(0) == states[1].information_state_string(0)
    assert states[0].information_state_tensor(0) == states[1].information_state_tensor(0)
    assert states[0].information_state_string(1) != states[1].information_state_string(1)


def test_the_pieces_of_the_tensor_have_our_encoders_names():
    game = pyspiel.load_game("briscola(players=2)")
    state = game.new_initial_state()
    for card in range(7):
        state.apply_action(card)
    observation = make_observation(game, PERFECT)
    observation.set_from(state, 0)
    assert np.flatnonzero(observation.dict["hand"]).tolist() == [0, 2, 4]
    assert np.flatnonzero(observation.dict["dealt"]).tolist() == [0, 2, 4]
    assert np.flatnonzero(observation.dict["face_up"]).tolist() == [6]
    assert not observation.dict["acts"].any()
    state.apply_action(4)
    observation.set_from(state, 1)
    assert np.flatnonzero(observation.dict["acts"][0]).tolist() == [0, 2 + 4]
    assert state.information_state_string(1) == (
        "seat 1; dealt 4d 6d Jd; face up Hd; drew -; done 0:7d"
    )


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (pyspiel.IIGObservationType(perfect_recall=True, public_info=False), None),
        (
            pyspiel.IIGObservationType(
                perfect_recall=True, private_info=pyspiel.PrivateInfoType.ALL_PLAYERS
            ),
            None,
        ),
        (PERFECT, {"colour": "red"}),
    ],
)
def test_other_views_than_a_seats_are_refused(kind, params):
    with pytest.raises(ValueError, match=r"only what a single seat|there are none"):
        BriscolaGame().make_py_observer(kind, params)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"players": 5}, "players=5"),
        ({"deck": "study-7"}, "deck='study-7': there are full, study-6, study-8"),
        ({"signals": "free"}, "signals='free' needs partners"),
        ({"deck": "study-6", "players": 3}, "hand_size=2"),
    ],
)
def test_a_table_that_cannot_be_is_named(params, says):
    with pytest.raises(InvalidRulesError, match=says):
        BriscolaGame(params)


def test_our_policies_can_play_from_a_states_view():
    game = pyspiel.load_game("briscola(players=2)")
    for state in random_states(game, 6, deals=1):
        seat = state.current_player()
        if seat >= 0:
            legal = np.array([state.legal_actions_mask(seat)], np.bool_)
            action = GreedyPolicy().act(state.view(seat), legal, np.zeros(1, np.uint64))
            assert action[0] in state.legal_actions()
