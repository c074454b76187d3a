"""Search: honest, repeatable, and stronger than the expert that it plays out with."""

import numpy as np
import pytest

from briscola_env.arena.entrants import load_policy
from briscola_env.arena.match import evaluate
from briscola_env.cards import cards_of
from briscola_env.engine import step
from briscola_env.envs.single import BriscolaEnv
from briscola_env.information import info_state, resample
from briscola_env.jit import kernel
from briscola_env.policies.beliefs import _undo_play, turn_back_one
from briscola_env.policies.expert import ExpertPolicy, expert_weights
from briscola_env.policies.heuristics import GreedyPolicy
from briscola_env.policies.ismcts import IsmctsPolicy
from briscola_env.policies.oracle import OraclePolicy
from briscola_env.policies.search import DEFAULT_OPTIONS, SEARCH_OPTIONS, PimcPolicy, sample_one
from briscola_env.policies.solver import mistakes
from briscola_env.rules import Rules
from tests.positions import legal_rows, play_match, random_positions, turn, views

TABLES = [
    Rules(),
    Rules(match_wins=2, exchange_seven=True, exchange_two=True, rebury="once"),
    Rules(withdraw="two_trumps"),
    Rules(players=3),
    Rules(players=4, signals="conventional", show_partner="both"),
    Rules(players=6, signals="free"),
]
SEARCHES = [PimcPolicy(40), IsmctsPolicy(40)]


@pytest.mark.parametrize("rules", TABLES, ids=str)
@pytest.mark.parametrize("policy", SEARCHES, ids=lambda policy: policy.name)
def test_search_sees_only_what_its_seat_knows(policy, rules):
    last = len(rules.deck) - 1
    states = random_positions(rules, 40, np.arange(40) % last, seed=21, signals=True)
    infos, legal = views(states), legal_rows(states)
    seeds = np.arange(40).astype(np.uint64)
    before = infos.tobytes()
    moves = policy.act(infos, legal, seeds)
    assert infos.tobytes() == before
    assert legal[np.arange(40), moves].all()
    worlds, seen = states.copy(), states.copy()
    resample(infos, seeds, worlds)
    worlds["rng"] += np.uint64(1)
    info_state(worlds, states["current_player"].astype(np.int64), seen)
    assert (worlds["hands"] != states["hands"]).any()
    assert (policy.act(seen, legal, seeds) == moves).all()


@pytest.mark.parametrize("policy", SEARCHES, ids=lambda policy: policy.name)
def test_a_move_depends_on_its_own_row_and_seed_alone(policy):
    states = random_positions(Rules(), 30, np.arange(30), seed=4)
    infos, legal, seeds = views(states), legal_rows(states), np.arange(30).astype(np.uint64)
    moves = policy.act(infos, legal, seeds)
    order = np.random.default_rng(0).permutation(30)
    assert (policy.act(infos[order], legal[order], seeds[order]) == moves[order]).all()
    one = [policy.act(infos[[i]], legal[[i]], seeds[[i]])[0] for i in range(30)]
    assert one == moves.tolist()
    others = [policy.act(infos, legal, seeds + np.uint64(100 * k)) for k in range(1, 4)]
    assert any((other != moves).any() for other in others)


@kernel
def _sample(infos, seeds, weights, options, worlds, values, out):
    for i in range(len(infos)):
        sample_one(infos[i], seeds[i], weights, options[0], worlds, values)
        out[i] = worlds[0]


def sampled(infos, seeds, plays):
    """A world for each info state, that explains so many of the latest plays."""
    options = np.array([DEFAULT_OPTIONS], SEARCH_OPTIONS)
    options["plays"] = plays
    out = infos.copy()
    weights = expert_weights()[int(infos["players"][0])]
    _sample(infos, seeds, weights, options, np.repeat(infos[:1], 2), np.zeros(40), out)
    return out


@pytest.mark.parametrize("plays", [0, 6])
@pytest.mark.parametrize("rules", TABLES, ids=str)
def test_sampled_worlds_hold_no_seen_card_and_keep_known_holders(rules, plays):
    last = len(rules.deck) - 1
    states = random_positions(rules, 60, np.arange(60) % last, seed=8, signals=True)
    infos = views(states)
    worlds = sampled(infos, np.arange(60).astype(np.uint64), plays)
    for state, info, world in zip(states, infos, worlds, strict=True):
        me, n = int(info["observer"]), int(info["players"])
        played = [card for seat in range(n) for card in cards_of(info["played"][seat])]
        stock = [int(card) for card in world["stock"][: int(world["stock_count"])]]
        hands = [cards_of(world["hands"][seat]) for seat in range(n)]
        held = [card for hand in hands for card in hand]
        face_up = [int(info["face_up"])] if info["face_up"] >= 0 else []
        assert sorted(played + stock + held + face_up) == cards_of(info["deck"])
        assert hands[me] == cards_of(info["hands"][me])
        for seat in range(n):
            assert len(hands[seat]) == len(cards_of(state["hands"][seat]))
            known = int(info["known"][seat]) | int(info["team_known"][seat])
            assert set(cards_of(known)) <= set(hands[seat])


def test_sampled_worlds_match_the_truth_no_more_often_than_chance():
    states = random_positions(Rules(), 2000, 16, seed=9)
    worlds = sampled(views(states), np.arange(2000).astype(np.uint64), 0)
    other = 1 - states["current_player"].astype(int)
    rows = np.arange(2000)
    common = states["hands"][rows, other] & worlds["hands"][rows, other]
    hits = sum(len(cards_of(both)) for both in common)
    unseen = 40 - 16 - 3 - 1  # all but plays, own hand and the face-up card
    expected, spread = 2000 * 3 * 3 / unseen, np.sqrt(2000 * 3 * 3 / unseen)
    assert abs(hits - expected) < 4 * spread


def test_worlds_that_explain_the_plays_hold_what_a_discard_betrays():
    # Seat 1 left the rivals an ace that any trump of its own would have taken.
    info = turn("5b 6b 7b", "Ac 4d 4b", trump="swords", face_up="2s", trick=5, players=4)
    counts = []
    for plays in (0, 3):
        worlds = sampled(np.repeat(info, 300), np.arange(300).astype(np.uint64), plays)
        trumps = [cards_of(int(w["hands"][1]) & 0x3FF << 20) for w in worlds]
        counts.append(np.mean([len(held) for held in trumps]))
    assert counts[1] < 0.7 * counts[0]


@kernel
def _undo(states, count):
    for i in range(len(states)):
        for k in range(count):
            _undo_play(states[i], states[i]["history_length"] - 1 - k)


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_undoing_plays_restores_what_was_public_and_the_hand_of_the_player(players):
    rules = Rules(players=players)
    states = random_positions(rules, 200, len(rules.deck) - 4 * players + 1, seed=6)
    states["rng"] = np.arange(200)
    for count in range(1, 2 * players):
        after = states.copy()
        for _ in range(count):
            legal = legal_rows(after)
            step(after, legal.argmax(axis=1))
        after["observer"] = states["current_player"]
        _undo(after, count)
        for field in ("table", "table_count", "leader", "trick", "played", "face_up"):
            assert (after[field] == states[field]).all()
        for field in ("current_player", "stock_count"):
            assert (after[field] == states[field]).all()
        sizes = [[len(cards_of(h)) for h in row["hands"]] for row in after]
        seats = range(players)
        for i in range(200):
            for seat in seats:
                if seat != states["current_player"][i]:
                    assert sizes[i][seat] == len(cards_of(states["hands"][i][seat]))


@pytest.mark.parametrize("policy", SEARCHES, ids=lambda policy: policy.name)
def test_search_plays_known_end_games_without_a_mistake(policy):
    states = random_positions(Rules(), 100, np.arange(100) % 6 + 34, seed=2)
    moves = policy.act(views(states), legal_rows(states), np.zeros(100, np.uint64))
    assert (mistakes(states, moves) == 0).all()


@pytest.mark.parametrize("policy", [PimcPolicy(150), IsmctsPolicy(150)], ids=lambda p: p.name)
def test_search_beats_greedy_by_far(policy):
    margin, error = play_match([policy, GreedyPolicy()], Rules(), 40, 1)
    assert margin - 3 * error > 8


def test_pimc_beats_the_expert():
    margin, error = play_match([PimcPolicy(200), ExpertPolicy()], Rules(players=4), 400, 1)
    assert margin > 2 * error


def test_the_oracle_is_marked_as_a_cheat_and_plays_the_whole_end_game_exactly():
    oracle = OraclePolicy()
    assert oracle.cheats
    states = random_positions(Rules(), 30, np.arange(30) % 14 + 24, seed=2)
    moves = oracle.act(states, legal_rows(states), np.zeros(30, np.uint64))
    assert (mistakes(states, moves) == 0).all()
    early = random_positions(Rules(players=6), 10, 3, seed=2)
    moves = oracle.act(early, legal_rows(early), np.zeros(10, np.uint64))
    assert legal_rows(early)[np.arange(10), moves].all()


def test_the_oracle_is_refused_unless_cheats_are_allowed():
    with pytest.raises(ValueError, match="sees every card"):
        load_policy("oracle", Rules())
    with pytest.raises(ValueError, match="sees every card"):
        BriscolaEnv(opponent="oracle")
    oracle = load_policy("oracle", Rules(), allow_cheats=True)
    assert evaluate(oracle, GreedyPolicy(), Rules(), 4, seed=0).margin.value > 20


@kernel
def _turn_back(states, cards):
    for i in range(len(states)):
        cards[i] = turn_back_one(states[i])


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_turned_back_a_world_shows_the_others_what_they_saw_when_they_chose(players):
    rules = Rules(players=players)
    generator, n = np.random.default_rng(3), 60
    states, asked = random_positions(rules, n, 0, seed=3), []
    for _ in range(len(rules.deck) - 1):
        asked.append(states.copy())
        actions = (generator.random((n, rules.num_actions)) * legal_rows(states)).argmax(axis=1)
        step(states, actions)
    seat = states["current_player"].astype(np.int64)
    pasts, cards = states.copy(), np.empty(n, np.int64)
    pasts["observer"] = seat
    for past in reversed(range(len(asked))):
        then = asked[past]
        others = then["current_player"] % rules.sides != seat % rules.sides
        if not others.any():
            continue
        rows = np.flatnonzero(others)
        turned = pasts[rows]
        found = np.empty(len(rows), np.int64)
        _turn_back(turned, found)
        pasts[rows] = turned
        np.testing.assert_array_equal(found, states["history"][rows, past])
        seen, shown = views(turned), views(then[rows])
        for k in range(len(rows)):
            chooser = int(shown["current_player"][k])
            assert seen["hands"][k, chooser] >> found[k] & 1
            size = len(cards_of(shown["hands"][k, chooser]))
            assert len(cards_of(seen["hands"][k, chooser])) == size
        for field in ("hands", "observer"):
            seen[field] = shown[field]
        for name in seen.dtype.names:
            np.testing.assert_array_equal(seen[name], shown[name], name)
    _turn_back(pasts, cards)
    assert (cards == -1).all()
