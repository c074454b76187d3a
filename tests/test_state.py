"""Records: copies, batches, chance, and a position as text."""

import random
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from briscola_env.cards import cards_of
from briscola_env.dealing import deal
from briscola_env.engine import step
from briscola_env.rules import Rules
from briscola_env.state import GAME_STATE, format_state, new_states, parse_state
from tests.tables import OPTIONS, act, fewer, legal, masks, play, play_out, positions, start

LEAST = 1e-4  # a p-value below this is no accident: seeds are fixed


def same(a: Any, b: Any) -> bool:
    """Equal in every field; padding does not count."""
    return all(np.array_equal(a[name], b[name]) for name in GAME_STATE.names)


@pytest.mark.parametrize("table", OPTIONS)
def test_a_copy_is_not_touched_by_the_original_and_plays_on_alike(table: str) -> None:
    originals = positions(OPTIONS[table], fewer(50), seed=1)
    copies, kept = originals.copy(), originals.copy()
    rng = np.random.default_rng(2)
    actions = list(play(originals, rng))
    assert same(copies, kept)
    for batch in actions:
        step(copies, batch)
    assert same(copies, originals)
    assert not same(copies, kept)


@pytest.mark.parametrize("table", OPTIONS)
def test_the_same_seeds_give_the_same_bytes_alone_and_in_any_order(table: str) -> None:
    rules, seeds = Rules(**OPTIONS[table]), np.arange(100, 100 + fewer(60))

    def trace(some: np.ndarray) -> list[list[bytes]]:
        """All positions of every game as bytes; each game has its own choices."""
        states = start(rules, some)
        traces = [[state.tobytes()] for state in states]
        rngs = [random.Random(int(seed)) for seed in some]
        while (rows := masks(states)).any():
            alive = np.flatnonzero(rows.any(axis=1))
            actions = np.zeros(len(states), np.int64)
            for i in alive:
                actions[i] = rngs[i].choice(np.flatnonzero(rows[i]))
            step(states, actions)
            for i in alive:
                traces[i].append(states[i].tobytes())
        return traces

    together = trace(seeds)
    assert min(map(len, together)) > 10
    shuffled = np.random.default_rng(0).permutation(len(seeds))
    assert trace(seeds[shuffled]) == [together[i] for i in shuffled]
    for i in range(0, len(seeds), 7):
        assert trace(seeds[i : i + 1]) == [together[i]]


@pytest.mark.parametrize("table", OPTIONS)
def test_a_used_record_is_dealt_like_a_blank_one(table: str) -> None:
    rules = Rules(**OPTIONS[table])
    used, seeds = positions(OPTIONS[table], fewer(60), seed=4), np.arange(fewer(60))
    fresh = start(rules, seeds)
    deal(used, seeds.astype(np.uint64))
    assert used.tobytes() == fresh.tobytes()


@pytest.mark.parametrize("table", OPTIONS)
def test_finished_games_stay_as_they_are(table: str) -> None:
    states = play_out(start(Rules(**OPTIONS[table]), range(fewer(30))), np.random.default_rng(3))
    before = states.tobytes()
    for action in range(states[0]["num_actions"]):
        step(states, np.full(len(states), action))
    assert states.tobytes() == before
    assert not masks(states).any()


def test_playing_leaves_the_global_generators_alone() -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    play_out(start(Rules(rebury="repeat", match_wins=2), range(20)), np.random.default_rng(3))
    assert random.getstate() == expected[0]
    assert np.random.get_state()[1].tolist() == expected[1]  # noqa: NPY002


# ------------------------------------------------------------------------------------------ chance


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_the_first_leader_is_uniform_over_4000_seeds(players: int) -> None:
    states = start(Rules(players=players), range(4000))
    counts = np.bincount(states["current_player"], minlength=players)
    assert chisquare(counts).pvalue > LEAST
    assert (states["leader"] == (states["dealer"] + 1) % players).all()


def test_every_card_is_dealt_to_every_place_equally_often() -> None:
    number = 40 * fewer(2500)
    states = start(Rules(), range(number), dealers=[1] * number)
    places = np.zeros((40, 5))  # own hand, other hand, face up, top and bottom of the stock
    for card in range(40):
        for seat in (0, 1):
            places[card, seat] = (states["hands"][:, seat] >> card & 1).sum()
        places[card, 2] = (states["face_up"] == card).sum()
        places[card, 3] = (states["stock"][:, 32] == card).sum()
        places[card, 4] = (states["stock"][:, 0] == card).sum()
    assert places.sum(axis=0).tolist() == [3 * number, 3 * number, number, number, number]
    for place in range(5):
        assert chisquare(places[:, place]).pvalue > LEAST


def test_all_orders_of_a_small_deck_are_equally_likely() -> None:
    rules = Rules(cards=(0, 5, 13, 19, 24, 38), hand_size=1)
    number = fewer(72_000) + 720
    states = start(rules, range(number), dealers=[1] * number)
    columns = [states["hands"][:, 0], states["hands"][:, 1], states["face_up"]]
    columns += [states["stock"][:, k] for k in range(3)]
    orders, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    assert len(orders) <= 720
    missing = [0] * (720 - len(orders))
    assert chisquare([*counts, *missing]).pvalue > LEAST


@pytest.mark.parametrize("rebury", ["once", "repeat"])
def test_a_reburied_card_lies_anywhere_in_the_stock(rebury: str) -> None:
    """2 players, hands 2d 4d 5d / 6d 7d Jd, then the ace of cups: five cards of stock."""
    rules = Rules(cards=(*range(6), 19, 20, 21, 22, 23, 24), hand_size=3, rebury=rebury)
    deck = [0, 3, 1, 4, 2, 5, 19, 20, 21, 22, 23, 24]
    number = fewer(50_000) + 600
    states = start(rules, range(number), dealers=[1] * number, decks=[deck] * number)
    buried = states["face_up"] != 19
    assert (states["reburied"] == 1 << 19).all()
    # The place on top brings the ace up again: it stands, or is buried once more.
    on_top = number - buried.sum()
    below = [(states["stock"][buried, k] == 19).sum() for k in range(5)]
    if rebury == "once":
        assert chisquare([on_top, *below]).pvalue > LEAST
    else:
        assert on_top == 0
        assert chisquare(below).pvalue > LEAST
    others = states["stock"][buried, :5]
    order = [[card for card in row if card != 19] for row in others.tolist()]
    assert order == [[24, 23, 22, 21]] * len(others)  # the rest keeps its order
    assert (states["face_up"][buried] == 20).all()


@pytest.mark.parametrize(("rebury", "reburied"), [("repeat", 0), ("once", 1 << 19)])
def test_repeated_reburial_stops_when_only_aces_and_threes_are_left(
    rebury: str, reburied: int
) -> None:
    rules = Rules(cards=(0, 1, 8, 9, 18, 19), hand_size=1, rebury=rebury)
    states = start(rules, range(200), [1] * 200, [[0, 1, 19, 18, 9, 8]] * 200)
    assert (states["reburied"] == reburied).all()
    assert set(states["face_up"].tolist()) == ({19, 18} if reburied else {19})


# ----------------------------------------------------------------------------------------- as text


@pytest.mark.parametrize("table", OPTIONS)
def test_text_and_back(table: str) -> None:
    for state in positions(OPTIONS[table], fewer(150), seed=6):
        again = parse_state(format_state(state))
        assert again.shape == (1,)
        assert again[0].tobytes() == state.tobytes()


def test_the_text_names_cards_and_leaves_blanks_out() -> None:
    deck = [*range(40)]
    states = start(Rules(), [1], dealers=[1], decks=[deck])
    act(states, 0, 1)
    lines = dict(line.split(":", 1) for line in format_state(states[0]).splitlines())
    assert lines["hands"] == " 5d 7d 3d | 6d Jd Kd |  |  |  |"
    assert lines["played"] == " 2d | 4d |  |  |  |"
    assert lines["face_up"] == " Hd"
    assert lines["trump"] == " coins"
    assert "withdrawn" not in lines
    assert "hands" not in format_state(new_states(Rules(), 1)[0])


@pytest.mark.parametrize(
    "line", ["hand: Ac", "trump: hearts", "face_up: Zc", "scores: 1 2", "wins: x y z", "trick 3"]
)
def test_a_line_that_is_not_one_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=f"'{line}'"):
        parse_state(f"players: 2\n{line}")


def test_sets_in_records_hold_cards_in_play_alone() -> None:
    for table in OPTIONS.values():
        outside = ~sum(1 << card for card in Rules(**table).deck)
        states = positions(table, fewer(40), seed=8)
        for name in ("hands", "played", "known", "team_known", "reburied", "deck"):
            assert not (states[name] & outside).any()
        for i in range(len(states)):
            assert {a for a in legal(states, i) if a < 40} == set(
                cards_of(states["hands"][i, states["current_player"][i]])
                if states["current_player"][i] >= 0
                else []
            )
