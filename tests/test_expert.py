"""What the expert knows, and that it knows nothing else."""

import hashlib
import json
from importlib import resources

import numpy as np
import pytest

from briscola_env.cards import format_card, parse_card
from briscola_env.information import info_state, resample
from briscola_env.policies.expert import WEIGHTS, ExpertPolicy
from briscola_env.policies.heuristics import GreedyPolicy
from briscola_env.rules import EXCHANGE_SEVEN, FIRST_SIGNAL, NO_TRUMP, Rules
from tests.positions import legal_rows, play_match, random_positions, turn, views

TABLES = [
    Rules(),
    Rules(exchange_seven=True, exchange_two=True, rebury="repeat"),
    Rules(withdraw="two_trumps"),
    Rules(players=3),
    Rules(players=4, signals="conventional", show_partner="both"),
    Rules(players=4, signals="conventional", signal_audience="table"),
    Rules(players=6, signals="free"),
    Rules(cards=tuple(range(8, 32)), hand_size=5),
]


def plays(info):
    """The name of what the expert plays."""
    action = int(ExpertPolicy().act(info, legal_rows(info), np.zeros(1, np.uint64))[0])
    return format_card(action) if action < 40 else action


@pytest.mark.parametrize("rules", TABLES, ids=str)
def test_the_expert_sees_only_what_its_seat_knows(rules):
    last = len(rules.deck) - 1
    states = random_positions(rules, 200, np.arange(200) % last, seed=11, signals=True)
    infos, legal = views(states), legal_rows(states)
    seeds = np.arange(200).astype(np.uint64)
    expert = ExpertPolicy()
    moves = expert.act(infos, legal, seeds)
    assert legal[np.arange(200), moves].all()
    # Shown everything, as in play-outs, it reads no more than what it may know ...
    assert (expert.act(states, legal, seeds) == moves).all()
    # ... and no other world or generator that looks the same from its seat changes its move.
    worlds, seen = states.copy(), states.copy()
    resample(infos, seeds, worlds)
    info_state(worlds, states["current_player"].astype(np.int64), seen)
    assert (worlds["hands"] != states["hands"]).any()
    assert (expert.act(seen, legal, seeds) == moves).all()


@pytest.mark.parametrize(("players", "least"), [(2, 12), (3, 6), (4, 10), (6, 10)])
def test_the_expert_beats_greedy_by_far(players, least):
    margin, error = play_match([ExpertPolicy(), GreedyPolicy()], Rules(players=players), 500, 1)
    assert margin - 4 * error > least


def test_signals_help_the_pair_that_gives_and_reads_them():
    class Mute(ExpertPolicy):
        def act(self, info_states, legal, seeds):
            deaf = info_states.copy()
            deaf["signals"] = 0
            for seat in range(4):
                deaf["team_known"][:, seat] = 0
            return super().act(deaf, legal, seeds)

    rules = Rules(players=4, signals="conventional")
    margin, error = play_match([ExpertPolicy(), Mute()], rules, 8000, 2)
    assert margin > 2 * error


def test_it_gives_the_partners_sure_trick_a_carico():
    info = turn("3b 4b 5b", "5s Ac 6c", trump="swords", players=4, face_up="2s", trick=5)
    assert plays(info) != "3b"  # the rivals' five of trumps takes the trick
    info = turn("3b 4b 5b", "6c As 5c", trump="swords", players=4, face_up="2s", trick=5)
    assert plays(info) == "3b"


def test_it_does_not_overtake_its_partner():
    info = turn("4s 4b Jb", "6c 3c 5c", trump="swords", players=4, face_up="2s", trick=5)
    assert plays(info) != "4s"
    info = turn("4s 4b Jb", "3c 6c 5c", trump="swords", players=4, face_up="2s", trick=5)
    assert plays(info) == "4s"


def test_it_ruffs_a_carico_with_its_weakest_trump_and_leaves_a_worthless_card():
    assert plays(turn("4s As 5b", "Ac", trump="swords", face_up="2s", trick=8)) == "4s"
    assert plays(turn("4s As 5b", "4c", trump="swords", face_up="2s", trick=8)) == "5b"


def test_last_to_play_it_takes_in_suit_with_the_carico():
    assert plays(turn("Ac 4s 5b", "3c", trump="swords", face_up="2s", trick=8)) == "Ac"


def test_it_leads_no_carico_while_trumps_are_out():
    assert plays(turn("Ac 3b 5d", trump="swords", face_up="2s", trick=3)) == "5d"


def test_it_loses_the_last_draw_for_a_good_face_up_card():
    low = turn("4s Jb 5b", "3c", trump="swords", face_up="2s", trick=16)
    high = turn("4s Jb 5b", "3c", trump="swords", face_up="As", trick=16)
    assert plays(low) == "4s"
    assert plays(high) != "4s"


def test_it_exchanges_the_seven():
    info = turn("7s Jb 5b", trump="swords", face_up="As", exchange_seven=True)
    assert plays(info) == EXCHANGE_SEVEN


def test_it_names_its_highest_trump_once_and_then_plays():
    options = {"players": 4, "signals": "conventional"}
    info = turn("3s Jb 5b", trump="swords", face_up="2s", **options)
    assert plays(info) == FIRST_SIGNAL + 1
    info["team_known"][0, 0] = 1 << parse_card("3s")
    assert isinstance(plays(info), str)
    assert plays(turn("4d Jb 5b", trump="swords", face_up="2s", **options)) == (
        FIRST_SIGNAL + NO_TRUMP
    )
    heard = turn("3s Jb 5b", trump="swords", signal_audience="table", **options)
    assert isinstance(plays(heard), str)  # the rivals would hear it


def test_the_table_of_weights_is_complete_and_expert_v1_is_frozen():
    path = resources.files("briscola_env.policies") / "expert_weights.json"
    tables = json.loads(path.read_text())
    for table in tables.values():
        assert {"2", "3", "4", "6"} == set(table)
        for values in table.values():
            assert list(values) == list(WEIGHTS.names)
    numbers = json.dumps(tables["expert-v1"]["2"]).encode()
    assert (
        hashlib.sha256(numbers).hexdigest()[:16] == "41552bfa9d36b655"
    )  # results elsewhere name it
