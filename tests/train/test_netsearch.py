"""One-step search: honest, reproducible, and better than its network and than its model."""

from dataclasses import replace

import numpy as np
import pytest

from briscola_env.arena import play
from briscola_env.arena.match import evaluate
from briscola_env.cards import cards_of
from briscola_env.checkpoint import Checkpoint
from briscola_env.engine import legal_actions, step
from briscola_env.information import info_state, resample, sample_worlds
from briscola_env.policies import RandomPolicy, make_policy
from briscola_env.policies.netsearch import ERROR, ModelSearch, network_search
from briscola_env.policies.network import NetworkPolicy, policy_of
from briscola_env.rules import CheckpointError, Rules
from tests.train.test_checkpoint import make_checkpoint, positions

TABLES = [
    Rules(),
    Rules(players=3, rebury="once"),
    Rules(players=4, exchange_seven=True, signals="conventional", show_partner="both"),
]


@pytest.mark.parametrize("rules", TABLES, ids=lambda rules: str(rules.players))
def test_it_plays_legal_cards_that_nothing_hidden_moves(rules):
    search = network_search(make_checkpoint(rules), rules, 5, "search")
    infos, legal, seeds = positions(rules, 60, plies=14)
    actions = search.act(infos, legal, seeds)
    assert legal[np.arange(len(actions)), actions].all()
    worlds, again = infos.copy(), infos.copy()
    resample(infos, seeds + np.uint64(7), worlds)
    info_state(worlds, infos["observer"].astype(np.int64), again)
    np.testing.assert_array_equal(search.act(again, legal, seeds), actions)


def test_a_decision_depends_on_its_own_seed_and_not_on_its_neighbours():
    rules = Rules()
    search = network_search(make_checkpoint(rules), rules, 5, "search")
    infos, legal, seeds = positions(rules, 40)
    together = search.act(infos, legal, seeds)
    order = np.random.default_rng(0).permutation(len(infos))
    np.testing.assert_array_equal(
        search.act(infos[order], legal[order], seeds[order]), together[order]
    )
    assert (search.act(infos, legal, seeds + np.uint64(99)) != together).any()


class Lowest:
    """Plays the lowest card id, whatever lies on the table."""

    name = "lowest"

    def act(self, info_states, legal, seeds):
        return legal.argmax(axis=1)


class Highest:
    """Plays the highest card id."""

    name = "highest"

    def act(self, info_states, legal, seeds):
        return legal.shape[1] - 1 - legal[:, ::-1].argmax(axis=1)


@pytest.mark.parametrize("model", [Lowest(), RandomPolicy()], ids=lambda model: model.name)
@pytest.mark.parametrize("players", [2, 3, 4])
def test_without_a_network_it_wins_from_whoever_does_not_look_at_the_table(model, players):
    rules = Rules(players=players)
    search = ModelSearch("search", model, None, 64, solves=False)
    assert evaluate(search, model, rules, 30, seed=1).margin.low > 10


@pytest.mark.parametrize("exact", [False, True])
def test_it_wins_from_a_network_that_it_knows(exact):
    rules, checkpoint = Rules(), replace(make_checkpoint(), exact_endgame=exact)
    model = policy_of(checkpoint, rules, "model")
    search = ModelSearch("search", model, NetworkPolicy(checkpoint, rules, "net"), 64, exact)
    assert evaluate(search, model, rules, 30, seed=1).margin.low > 5


def test_a_world_counts_little_in_which_the_model_would_have_played_another_card():
    # Who always plays its highest card has no higher one left but the one it has drawn since.
    rules, plays, count = Rules(), 9, 256
    states = play.deal_episodes(rules, np.arange(40).astype(np.uint64))
    legal = np.empty((40, rules.num_actions), bool)
    for _ in range(plays):
        legal_actions(states, legal)
        step(states, Highest().act(states, legal, None))
    infos = states.copy()
    info_state(states, states["current_player"].astype(np.int64), infos)
    search = ModelSearch("search", Highest(), None, count, solves=False)
    worlds, luck = sample_worlds(infos, np.arange(40).astype(np.uint64), count)
    odds = search._odds(infos, worlds, luck)
    assert odds.shape == (40, count)
    assert ((odds > 0) & (odds <= 1)).all()

    def broken(world):
        """Whether a hand holds more high cards than were drawn since its latest card."""
        rival = 1 - int(world["current_player"])
        last = np.flatnonzero(world["history_seat"][:plays] == rival)[-1]
        drawn = int(world["table_count"] == 0)
        higher = [card for card in cards_of(world["hands"][rival]) if card > world["history"][last]]
        return len(higher) > drawn

    bad = np.array([[broken(world) for world in row] for row in worlds])
    assert (odds[bad] <= ERROR).all()
    # A few positions are so unlikely that no world explains them.
    weights = odds / odds.sum(axis=1, keepdims=True)
    assert (weights * bad).sum(axis=1).mean() < 0.1 * bad.mean()


def blind(checkpoint):
    """A network to which all cards are equal and no position is worth anything."""
    weights = {name: np.zeros_like(array) for name, array in checkpoint.weights.items()}
    return Checkpoint(**{**vars(checkpoint), "weights": weights})


def test_without_any_knowledge_it_still_takes_what_lies_on_the_table():
    rules, checkpoint = Rules(), blind(make_checkpoint())
    search = network_search(checkpoint, rules, 10, "search")
    plain = NetworkPolicy(checkpoint, rules, "net")
    assert evaluate(search, RandomPolicy(), rules, 60, seed=1).margin.low > 10
    assert evaluate(search, plain, rules, 60, seed=1).margin.low > 10


def test_it_is_made_by_name_for_the_rules_of_its_checkpoint(tmp_path):
    path = tmp_path / "net.safetensors"
    make_checkpoint().save(path)
    assert make_policy(f"search:3:{path}", Rules()).name == f"search:3:{path}"
    with pytest.raises(CheckpointError, match="other rules"):
        make_policy(f"search:3:{path}", Rules(players=3))
    for name, message in (
        (f"search:0:{path}", "'0' is not a number of at least 1"),
        (f"search:x:{path}", "'x' is not a number of at least 1"),
        ("search:3:nowhere", "nowhere: no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            make_policy(name, Rules())
