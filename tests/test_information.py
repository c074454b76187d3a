"""What a seat knows, and that nothing else is left in its record."""

from typing import Any

import numpy as np
import pytest

from briscola_env.cards import card_set, parse_card
from briscola_env.encoding import Encoder
from briscola_env.engine import legal_actions, step
from briscola_env.information import resample, unseen_one
from briscola_env.policies import NAMED_POLICIES
from briscola_env.policies.base import cheats
from briscola_env.rules import FIRST_SIGNAL, Rules
from briscola_env.state import GAME_STATE, States
from tests.tables import OPTIONS, act, fewer, know, legal, masks, play_out, positions, start

SIGNAL_FIELDS = ("last_message", "reference")


def sets(mask: Any) -> set[int]:
    """The cards of a set."""
    return {card for card in range(40) if int(mask) >> card & 1}


def seats_of(options: dict[str, Any]) -> range:
    """All seats of the table."""
    return range(options.get("players", 2))


def change_what_is_hidden(states: States, observer: int, rng: np.random.Generator) -> States:
    """The same games as far as `observer` has seen, but for every hidden fact."""
    changed = states.copy()
    for state in changed:
        n, sides, seat = int(state["players"]), int(state["sides"]), observer
        others = [s for s in range(n) if s != seat]
        opponents = [s for s in range(n) if s % sides != seat % sides]
        state["rng"] = rng.integers(2**63)
        stock = sets_of_stock(state)
        fixed = {s: sets(state["known"][s]) for s in others}
        for s in others:
            if s not in opponents:
                fixed[s] |= sets(state["team_known"][s])
        loose = [c for s in others for c in sorted(sets(state["hands"][s]) - fixed[s])] + stock
        loose = [int(card) for card in rng.permutation(loose)]
        for s in others:
            count = len(sets(state["hands"][s])) - len(fixed[s])
            state["hands"][s] = card_set([*fixed[s], *(loose.pop() for _ in range(count))])
        state["stock"][: len(loose)] = loose
        for s in opponents:
            state["team_known"][s] = card_set(rng.permutation(sorted(sets(state["hands"][s])))[:2])
        if state["signals"] and state["signal_audience"] == 0:
            change_signals(state, opponents, rng)
    return changed


def sets_of_stock(state: Any) -> list[int]:
    """The face-down cards."""
    return [int(card) for card in state["stock"][: state["stock_count"]]]


def change_signals(state: Any, opponents: list[int], rng: np.random.Generator) -> None:
    """Other signals, unheard ones, of the other side; as many as there is room for."""
    old = list(zip(state["history"].tolist(), state["history_seat"].tolist(), strict=True))
    kept = [(a, s) for a, s in old if a >= 0 and not (a >= FIRST_SIGNAL and s in opponents)]
    for _ in range(int(rng.integers(0, 6))):
        place = int(rng.integers(0, len(kept) + 1))
        kept.insert(place, (FIRST_SIGNAL + int(rng.integers(8)), int(rng.choice(opponents))))
    state["history"], state["history_seat"], state["history_length"] = -1, -1, len(kept)
    for i, (action, seat) in enumerate(kept):
        state["history"][i], state["history_seat"][i] = action, seat
    for name in SIGNAL_FIELDS:
        state[name][opponents] = rng.integers(-1, 8, len(opponents))
    if state["current_player"] in opponents:
        state["signalled"] = rng.integers(2)
        state["claim"] = rng.choice([-1, 5, 6, 7])


@pytest.mark.parametrize("table", OPTIONS)
def test_nothing_hidden_is_left(table: str) -> None:
    options, rng = OPTIONS[table], np.random.default_rng(5)
    states = positions(options, fewer(250), seed=11)
    for seat in seats_of(options):
        changed = change_what_is_hidden(states, seat, rng)
        assert not np.array_equal(changed["rng"], states["rng"])
        info, same = know(states, seat), know(changed, seat)
        for name in GAME_STATE.names:
            assert np.array_equal(info[name], same[name]), name
        assert info.tobytes() == same.tobytes()
        others = [s for s in seats_of(options) if s != seat]
        assert not info["hands"][:, others].any()
        assert (info["stock"] == -1).all()
        assert not info["rng"].any()


@pytest.mark.parametrize("table", OPTIONS)
def test_policies_masks_and_observations_do_not_see_what_is_hidden(table: str) -> None:
    options, rng = OPTIONS[table], np.random.default_rng(6)
    rules = Rules(**options)
    states = positions(options, max(60, fewer(250)), seed=12)
    for seat in seats_of(options):
        own = states[states["current_player"] == seat]
        changed = change_what_is_hidden(own, seat, rng)
        info, same = know(own, seat), know(changed, seat)
        rows = np.zeros((len(own), rules.num_actions), bool)
        legal_actions(info, rows)  # a seat can tell its legal actions from what it knows
        assert np.array_equal(rows, masks(own))
        seeds = rng.integers(0, 2**63, len(own)).astype(np.uint64)
        for policy in (make() for make in NAMED_POLICIES.values()):
            if cheats(policy):
                continue
            actions = policy.act(info, rows, seeds)
            assert np.array_equal(actions, policy.act(same, rows, seeds))
            assert rows[np.arange(len(own)), actions].all()
        encoder = Encoder(rules, "trump_first", "all")
        assert np.array_equal(encoder.encode(info), encoder.encode(same))
        assert np.array_equal(encoder.encode_tokens(info), encoder.encode_tokens(same))


# ---------------------------------------------------------------------------------------- resample


@pytest.mark.parametrize("table", OPTIONS)
def test_a_resampled_world_looks_the_same_and_is_sound(table: str) -> None:
    options, rng = OPTIONS[table], np.random.default_rng(7)
    rules = Rules(**options)
    states = positions(options, fewer(400), seed=13)
    for seat in seats_of(options):
        info = know(states, seat)
        worlds, seeds = info.copy(), rng.integers(0, 2**63, len(info)).astype(np.uint64)
        resample(info, seeds, worlds)
        assert know(worlds, seat).tobytes() == info.tobytes()
        assert (worlds["observer"] == -1).all()
        for world, seen, truth in zip(worlds, info, states, strict=True):
            check_world(rules, seat, world, seen, truth)
        again = info.copy()
        resample(info, seeds, again)
        assert again.tobytes() == worlds.tobytes()
        play_out(worlds, rng)
        assert (worlds["last_scores"][:, : rules.sides].sum(axis=1) == rules.deck_points).all()


def check_world(rules: Rules, observer: int, world: Any, info: Any, truth: Any) -> None:
    """Each card in one place, none that was seen in another; known holders kept."""
    n, stock = rules.players, sets_of_stock(world)
    assert (world["stock"][len(stock) :] == -1).all()
    bottom = [int(world["face_up"])] if world["face_up"] >= 0 else []
    hands, played = world["hands"][:n].tolist(), world["played"][:n].tolist()
    assert sum([*hands, *played, *(1 << card for card in [*stock, *bottom])]) == card_set(
        rules.deck
    )
    unseen = unseen_one(info, observer)
    for seat in range(n):
        known = int(info["known"][seat] | info["team_known"][seat])
        assert known & ~hands[seat] == 0
        assert len(sets(hands[seat])) == len(sets(truth["hands"][seat]))
        assert int(world["known"][seat] | world["team_known"][seat]) & ~hands[seat] == 0
        if seat != observer:
            assert hands[seat] & ~known & ~unseen == 0
    assert hands[observer] == truth["hands"][observer]
    assert card_set(stock) & ~unseen == 0
    if world["claim"] >= 0 and world["current_player"] not in (-1, observer):
        assert world["claim"] + FIRST_SIGNAL in legal_again(world)


def legal_again(world: Any) -> list[int]:
    """What the seat to act could do if it had not signalled yet."""
    states = np.array([world])
    states["signalled"] = 0
    return legal(states)


def test_two_players_know_the_opponents_hand_once_the_stock_is_empty() -> None:
    states = positions({}, fewer(600), seed=14)
    last = states[(states["face_up"] < 0) & (states["current_player"] >= 0)]
    assert len(last) > fewer(600) // 40
    for seat in (0, 1):
        info, worlds = know(last, seat), know(last, seat)
        assert np.array_equal(info["known"][:, 1 - seat], last["hands"][:, 1 - seat])
        resample(info, np.arange(len(last), dtype=np.uint64), worlds)
        assert np.array_equal(worlds["hands"], last["hands"])  # one world is left: the truth


def test_worlds_meet_the_truth_no_more_often_than_by_chance() -> None:
    """Two players, 40 cards, at the deal: three of 36 unseen cards are the opponent's."""
    number = fewer(7140 * 20)
    states = start(Rules(), range(number), dealers=[1] * number)
    info, worlds = know(states, 0), know(states, 0)
    resample(info, np.arange(number, dtype=np.uint64) + np.uint64(1), worlds)
    met = int((worlds["hands"][:, 1] == states["hands"][:, 1]).sum())
    expected = number / 7140  # 36 over 3
    assert abs(met - expected) <= 4 * max(1, expected**0.5)


def test_a_named_trump_is_known_to_those_who_heard_it_until_it_is_played() -> None:
    for audience, opponents_know in (("team", False), ("table", True)):
        rules = Rules(players=4, signals="conventional", signals_from_trick=0)
        rules = Rules(**{**rules.to_dict(), "signal_audience": audience})
        first = [parse_card("Ac"), 1, 2, 3, 4, 21, 22, 23, 24, 31, 32, 33]
        rest = [card for card in rules.deck if card not in [*first, parse_card("2c")]]
        states = start(rules, [1], [3], [[*first, parse_card("2c"), *rest]])
        before = [know(states, seat).tobytes() for seat in range(4)]
        act(states, FIRST_SIGNAL)  # HAVE_A
        for seat in range(4):
            info = know(states, seat)[0]
            heard = seat in (0, 2) or opponents_know
            known = int(info["known"][0] | info["team_known"][0])
            assert sets(known) == ({parse_card("Ac")} if heard else set())
            assert info["last_message"][0] == (0 if heard else -1)
            assert info["history_length"] == heard
            assert (info["signalled"] == 1) == heard
            if not heard:
                assert know(states, seat).tobytes() == before[seat]
        act(states, parse_card("Ac"))
        for seat in range(4):
            info = know(states, seat)[0]
            assert not (info["known"][0] | info["team_known"][0])


def test_a_shown_hand_is_known_to_the_partner_until_it_is_played() -> None:
    for option, first, last in (
        ("before_first_trick", True, False),
        ("before_last_tricks", False, True),
        ("both", True, True),
    ):
        states = start(Rules(players=4, show_partner=option), range(fewer(50)))
        shown = states["hands"].copy() * first
        while (states["current_player"] >= 0).any():
            if (states["face_up"] < 0).all() and last and (states["table_count"] == 0).all():
                shown = states["hands"].copy()
            for seat in range(4):
                info = know(states, seat)
                seen = info["known"] | info["team_known"]
                partner, after, before = (seat + 2) % 4, (seat + 1) % 4, (seat + 3) % 4
                public = states["known"][:, partner]  # the face-up card, drawn by the partner
                still = shown[:, partner] & states["hands"][:, partner]
                assert np.array_equal(seen[:, partner], still | public)
                assert np.array_equal(seen[:, after], states["known"][:, after])
                assert np.array_equal(seen[:, before], states["known"][:, before])
            step(states, np.array([legal(states, i)[-1] for i in range(len(states))]))
