"""The actor that reads all suits alike: what may matter to it, and what may not."""

import numpy as np
import pytest
import torch

from briscola_env.cards import CARDS_PER_SUIT, NUM_CARDS, NUM_SUITS
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.encoding import Encoder
from briscola_env.policies.network import ActorCritic, NetworkPolicy, make_checkpoint
from briscola_env.rules import CheckpointError, Rules
from tests.positions import legal_rows, random_positions, views

TABLES = [
    {"players": 2},
    {"players": 2, "rebury": "repeat"},
    {"players": 3},
    {"players": 4, "signals": "conventional", "exchange_two": True},
    {"players": 6},
]


def make_network(encoder, **changes):
    sizes = {"actor": [24, 16], "critic": [8], "suits": 12, "card_planes": encoder.card_planes}
    network = ActorCritic(encoder.size, encoder.rules.num_actions, seed=3, **(sizes | changes))
    # Heads and offsets start near zero: spread them, so that nothing hides behind that.
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        network.actor_head.weight.mul_(100)
        network.actor_body.read_trump.normal_(generator=generator)
        network.actor_body.play_trump.normal_(generator=generator)
    return network


def observations(rules, n=300):
    plays = np.random.default_rng(0).integers(0, len(rules.deck), n)
    states = random_positions(rules, n, plays, seed=1, signals=True)
    return Encoder(rules, "trump_first", "all").encode(views(states)), states


def with_suits_moved(observations, planes, order):
    """The observations with suit order[i] in place i of every plane."""
    moved = observations.copy()
    cards = moved[:, : planes * NUM_CARDS].reshape(-1, planes, NUM_SUITS, CARDS_PER_SUIT)
    moved[:, : planes * NUM_CARDS] = cards[:, :, order].reshape(len(moved), -1)
    return moved


def logits_of(network, rows):
    with torch.inference_mode():
        return network.logits(torch.from_numpy(rows)).numpy()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("order", [[0, 2, 3, 1], [0, 3, 2, 1]])
def test_plain_suits_that_change_places_change_the_places_of_their_logits(table, order):
    rules = Rules(**table)
    network = make_network(Encoder(rules, "trump_first", "all"))
    rows, _ = observations(rules)
    planes = network.sizes["card_planes"]
    assert (rows != with_suits_moved(rows, planes, order)).any()
    before = logits_of(network, rows)
    after = logits_of(network, with_suits_moved(rows, planes, order))
    by_suit = before[:, :NUM_CARDS].reshape(-1, NUM_SUITS, CARDS_PER_SUIT)
    np.testing.assert_allclose(
        after[:, :NUM_CARDS], by_suit[:, order].reshape(-1, NUM_CARDS), atol=1e-4
    )
    np.testing.assert_allclose(after[:, NUM_CARDS:], before[:, NUM_CARDS:], atol=1e-4)
    assert before.shape == (len(rows), rules.num_actions)


def test_the_trump_suit_is_not_like_the_others():
    network = make_network(Encoder(Rules(), "trump_first", "all"))
    rows, _ = observations(Rules())
    before = logits_of(network, rows).reshape(-1, NUM_SUITS, CARDS_PER_SUIT)
    moved = with_suits_moved(rows, network.sizes["card_planes"], [1, 0, 2, 3])
    after = logits_of(network, moved).reshape(-1, NUM_SUITS, CARDS_PER_SUIT)
    assert np.abs(after[:, [1, 0, 2, 3]] - before).max() > 0.1


@pytest.mark.parametrize(
    "part", ["winning", "face_up", "table", "played", "known", "leader", "points"]
)
def test_every_part_of_an_observation_matters(part):
    encoder = Encoder(Rules(), "trump_first", "all")
    network = make_network(encoder)
    rows, _ = observations(Rules())
    feature = next(feature for feature in encoder.features if feature.name == part)
    changed = rows.copy()
    changed[:, feature.start : feature.stop] ^= 1
    assert np.abs(logits_of(network, changed) - logits_of(network, rows)).max(axis=1).min() > 1e-4


@pytest.mark.parametrize("table", TABLES)
def test_a_checkpoint_plays_as_the_network_that_was_saved(tmp_path, table):
    rules = Rules(**table)
    encoder = Encoder(rules, "trump_first", "all")
    network = make_network(encoder)
    checkpoint = make_checkpoint(network, encoder, 40.0, {})
    checkpoint.save(tmp_path / LAST)
    rows, states = observations(rules)
    policy = NetworkPolicy(Checkpoint.load(tmp_path), rules, "file")
    legal = legal_rows(states)
    logits, mask = policy.logits(views(states), legal)
    np.testing.assert_array_equal(logits.numpy(), logits_of(network, rows))
    moves = policy.act(views(states), legal, np.zeros(len(legal), np.uint64))
    assert legal[np.arange(len(legal)), moves].all()
    assert (mask.numpy().sum(axis=1) == legal.sum(axis=1)).all()


def test_card_planes_of_another_encoder_are_refused(tmp_path):
    encoder = Encoder(Rules(), "trump_first", "all")
    network = make_network(encoder, card_planes=encoder.card_planes - 1)
    checkpoint = make_checkpoint(network, encoder, 40.0, {})
    with pytest.raises(CheckpointError, match="card_planes is not 9"):
        NetworkPolicy(checkpoint, Rules(), "file")
