"""The arena plays the game that the engine plays, with the same cards for everybody."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from briscola_env.arena import play
from briscola_env.arena.match import evaluate, play_until_decided
from briscola_env.arena.play import (
    episode_seeds,
    join_deals,
    match_seating,
    play_deals,
    play_parts,
)
from briscola_env.arena.stats import deck_margins, sprt
from briscola_env.dealing import deal
from briscola_env.engine import step
from briscola_env.policies import GreedyPolicy, RandomPolicy
from briscola_env.rng import deal_seeds, decision_seeds
from briscola_env.rules import IllegalActionError, Rules
from briscola_env.state import new_states
from tests.tables import OPTIONS, fewer, know, masks

GREEDY, RANDOM = GreedyPolicy(), RandomPolicy()


class Spy:
    """Random, and remembers what it was shown."""

    def __init__(self, name="spy"):
        self.name = name
        self.infos, self.legal, self.seeds = [], [], []

    def act(self, info_states, legal, seeds):
        self.infos.append(info_states.copy())
        self.legal.append(legal.copy())
        self.seeds.append(seeds.copy())
        return RANDOM.act(info_states, legal, seeds)


def one_by_one(policies, rules, seed, sides):
    """Slow twin: one deal, one action after the other; scores and history."""
    rules = rules.single_deal()
    states = new_states(rules, 1)
    episode, cards = np.array([seed], np.uint64), np.empty(1, np.uint64)
    deal_seeds(episode, cards)
    deal(states, cards)
    history = []
    while states["current_player"][0] >= 0:
        seat = int(states["current_player"][0])
        luck = np.empty(1, np.uint64)
        decision_seeds(episode, np.array([seat]), np.array([len(history)]), luck)
        policy = policies[sides[seat % rules.sides]]
        action = policy.act(know(states, seat), masks(states), luck)
        history.append(int(action[0]))
        step(states, action)
    return states["scores"][0, : rules.sides].tolist(), history


@pytest.mark.parametrize("table", OPTIONS)
def test_many_games_at_once_are_the_same_as_one_by_one(table):
    rules = Rules(**OPTIONS[table])
    seeds = episode_seeds(3, 5, fewer(40))
    deals = play_deals([GREEDY, RANDOM], rules, seeds, history=True)
    for row, sides in enumerate(deals.seating.tolist()):
        for d, seed in enumerate(seeds.tolist()):
            scores, history = one_by_one([GREEDY, RANDOM], rules, seed, sides)
            assert deals.scores[row, d].tolist() == scores
            assert deals.history[row, d, : len(history)].tolist() == history
            assert (deals.history[row, d, len(history) :] == -1).all()


@pytest.mark.parametrize("table", ["2", "2-swaps", "4-talk", "4-free", "6-options"])
@pytest.mark.parametrize("policy", [GREEDY, RANDOM])
def test_a_policy_against_itself_gets_exactly_one_half(table, policy):
    match = evaluate(policy, type(policy)(), Rules(**OPTIONS[table]), fewer(2000), seed=7)
    assert (match.score.value, match.score.low, match.score.high) == (0.5, 0.5, 0.5)
    assert (match.margin.value, match.margin.low, match.margin.high) == (0, 0, 0)
    assert match.wins == match.losses


def test_with_three_players_a_policy_against_itself_has_margin_zero_and_a_third_of_the_wins():
    match = evaluate(RANDOM, RandomPolicy(), Rules(players=3), fewer(2000), seed=7)
    assert (match.margin.value, match.margin.low, match.margin.high) == (0, 0, 0)
    assert match.losses == 2 * match.wins
    assert match.wins + match.draws + match.losses == match.games == 3 * match.decks


@pytest.mark.parametrize("players", [2, 4, 6])
def test_swapping_the_sides_mirrors_every_game(players):
    rules, seeds = Rules(players=players), episode_seeds(1, 0, fewer(500))
    forward = play_deals([GREEDY, RANDOM], rules, seeds)
    back = play_deals([RANDOM, GREEDY], rules, seeds)
    assert np.array_equal(forward.scores, back.scores[::-1])
    one, other = (
        evaluate(*pair, rules, fewer(500), 1) for pair in ((GREEDY, RANDOM), (RANDOM, GREEDY))
    )
    assert (one.wins, one.draws, one.losses) == (other.losses, other.draws, other.wins)
    assert one.margin.value == -other.margin.value
    assert one.score.value == pytest.approx(1 - other.score.value)


@pytest.mark.parametrize("table", ["2", "3-options", "4-talk"])
def test_results_depend_neither_on_the_batch_nor_on_who_else_plays(table, monkeypatch):
    rules, seeds = Rules(**OPTIONS[table]), episode_seeds(1, 0, fewer(300))
    whole = play_deals([GREEDY, RANDOM], rules, seeds, history=True)
    three = np.concatenate([2 * match_seating(rules.sides), match_seating(rules.sides)])
    crowd = play_deals([GREEDY, RANDOM, Spy()], rules, seeds, three)
    assert np.array_equal(crowd.scores[rules.sides :], whole.scores)
    monkeypatch.setattr(play, "CHUNK_GAMES", 7)
    parts = [play_deals([GREEDY, RANDOM], rules, s, history=True) for s in np.split(seeds, [1, 5])]
    joined = join_deals(parts)
    assert np.array_equal(joined.scores, whole.scores)
    assert np.array_equal(joined.history, whole.history)
    assert np.array_equal(joined.seeds, seeds)


def test_parts_are_the_decks_of_the_seed_in_order():
    parts = list(play_parts([GREEDY, RANDOM], Rules(), 5, 100, size=33))
    assert [part.decks for part in parts] == [33, 33, 33, 1]
    assert np.array_equal(join_deals(parts).seeds, episode_seeds(5, 0, 100))


@pytest.mark.parametrize("table", ["2-swaps", "3", "4-talk"])
def test_a_policy_sees_only_its_own_seats_and_nothing_hidden(table):
    rules, spies = Rules(**OPTIONS[table]), [Spy("a"), Spy("b")]
    play_deals(spies, rules, episode_seeds(2, 0, fewer(100)), match_seating(rules.sides)[:1])
    for number, spy in enumerate(spies):
        infos, legal = np.concatenate(spy.infos), np.concatenate(spy.legal)
        seats = infos["current_player"]
        assert (infos["observer"] == seats).all()
        assert ((seats % rules.sides == 0) == (number == 0)).all()
        assert (infos["stock"] == -1).all()
        assert (infos["rng"] == 0).all()
        for seat in range(rules.players):
            assert (infos["hands"][seats != seat, seat] == 0).all()
        assert legal.any(axis=1).all()


def test_every_decision_has_a_seed_of_its_own():
    spies = [Spy(), Spy()]
    play_deals(spies, Rules(), episode_seeds(2, 0, 50), match_seating(2)[:1])
    seeds = np.concatenate([seed for spy in spies for seed in spy.seeds])
    assert len(np.unique(seeds)) == len(seeds) == 50 * 40


def test_a_thousand_decks_are_a_thousand_different_deals():
    deals = play_deals([RANDOM, RANDOM], Rules(), episode_seeds(0, 0, fewer(1000)), history=True)
    assert len(np.unique(deals.history[0], axis=0)) == fewer(1000)


def test_the_global_generators_are_left_alone():
    random.seed(4)
    np.random.seed(4)  # noqa: NPY002
    before = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    evaluate(GREEDY, RANDOM, Rules(players=4), 20)
    assert random.getstate() == before[0]
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


class Broken:
    name = "broken"

    def __init__(self, answer):
        self.answer = answer

    def act(self, info_states, legal, seeds):
        return self.answer(legal)


@pytest.mark.parametrize(
    "answer",
    [
        lambda legal: np.argmin(legal, axis=1),
        lambda legal: np.full(len(legal), -1),
        lambda legal: np.full(len(legal), 40),
    ],
)
def test_an_illegal_action_is_refused_with_the_policy_and_the_position(answer):
    with pytest.raises(IllegalActionError, match=r"policy 'broken' chose action .*\n.*hands: "):
        play_deals([Broken(answer), RANDOM], Rules(), episode_seeds(0, 0, 4))


@pytest.mark.parametrize(
    "answer",
    [
        lambda legal: legal.argmax(axis=1)[:-1],
        lambda legal: legal.argmax(axis=1).astype(float),
        lambda legal: legal,
        lambda legal: None,
    ],
)
def test_an_answer_of_the_wrong_kind_is_refused(answer):
    with pytest.raises(ValueError, match=r"policy 'broken' returned .*int64 \[\d+\] is asked for"):
        play_deals([Broken(answer), RANDOM], Rules(), episode_seeds(0, 0, 4))


def test_a_list_of_small_integers_is_a_good_answer():
    policy = Broken(lambda legal: legal.argmax(axis=1).astype(np.int8).tolist())
    assert evaluate(policy, RANDOM, Rules(), 5).games == 10


@pytest.mark.parametrize("seating", [[[0, 1, 1]], [0, 1], [[0, 2]], [[-1, 0]]])
def test_a_seating_that_does_not_fit_is_refused(seating):
    with pytest.raises(ValueError, match="seating"):
        play_deals([GREEDY, RANDOM], Rules(), episode_seeds(0, 0, 1), np.array(seating))


def test_a_sequential_match_ends_at_the_deck_that_decides():
    parts = list(play_until_decided([GREEDY, RANDOM], Rules(), 3, 5000, (0, 12), history=True))
    deals = join_deals(parts)
    test = sprt(deck_margins(deals.scores), 0, 12)
    assert test.decision == "high"
    assert test.decks == deals.decks == deals.history.shape[1] < 5000
    straight = play_deals([GREEDY, RANDOM], Rules(), episode_seeds(3, 0, deals.decks))
    assert np.array_equal(straight.scores, deals.scores)


def test_a_sequential_match_ends_undecided_when_the_decks_are_used_up():
    parts = list(play_until_decided([GREEDY, RANDOM], Rules(), 3, 300, (28.9, 29)))
    assert sum(part.decks for part in parts) == 300
    with pytest.raises(ValueError, match="the first mean is the smaller"):
        next(play_until_decided([GREEDY, RANDOM], Rules(), 3, 300, (1, 1)))


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_in_the_documentation_run_as_printed(number, capsys):
    text = (Path(__file__).parent.parent / "docs" / "evaluation.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {"__name__": "example"}
    exec(blocks[number], names)
    if number == 0:
        assert "(2, 500, 2)" in capsys.readouterr().out
    else:
        assert evaluate(names["Lowest"](Rules()), GREEDY, Rules(), 20).margin.value < 0
