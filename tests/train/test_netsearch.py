"""One-step search with a network: honest, reproducible, and better than its network."""

import numpy as np
import pytest

from briscola_env.arena.match import evaluate
from briscola_env.checkpoint import Checkpoint
from briscola_env.information import info_state, resample
from briscola_env.policies import RandomPolicy, make_policy
from briscola_env.policies.netsearch import NetworkSearch
from briscola_env.policies.network import NetworkPolicy
from briscola_env.rules import CheckpointError, Rules
from tests.train.test_checkpoint import make_checkpoint, positions

TABLES = [
    Rules(),
    Rules(players=3, rebury="once"),
    Rules(players=4, exchange_seven=True, signals="conventional", show_partner="both"),
]


@pytest.mark.parametrize("rules", TABLES, ids=lambda rules: str(rules.players))
def test_it_plays_legal_cards_that_nothing_hidden_moves(rules):
    search = NetworkSearch(make_checkpoint(rules), rules, 5, "search")
    infos, legal, seeds = positions(rules, 60, plies=14)
    actions = search.act(infos, legal, seeds)
    assert legal[np.arange(len(actions)), actions].all()
    worlds, again = infos.copy(), infos.copy()
    resample(infos, seeds + np.uint64(7), worlds)
    info_state(worlds, infos["observer"].astype(np.int64), again)
    np.testing.assert_array_equal(search.act(again, legal, seeds), actions)


def test_a_decision_depends_on_its_own_seed_and_not_on_its_neighbours():
    rules = Rules()
    search = NetworkSearch(make_checkpoint(rules), rules, 5, "search")
    infos, legal, seeds = positions(rules, 40)
    together = search.act(infos, legal, seeds)
    order = np.random.default_rng(0).permutation(len(infos))
    np.testing.assert_array_equal(
        search.act(infos[order], legal[order], seeds[order]), together[order]
    )
    assert (search.act(infos, legal, seeds + np.uint64(99)) != together).any()


def blind(checkpoint):
    """A network to which all cards are equal and no position is worth anything."""
    weights = {name: np.zeros_like(array) for name, array in checkpoint.weights.items()}
    return Checkpoint(**{**vars(checkpoint), "weights": weights})


def test_without_any_knowledge_it_still_takes_what_lies_on_the_table():
    rules, checkpoint = Rules(), blind(make_checkpoint())
    search = NetworkSearch(checkpoint, rules, 10, "search")
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
