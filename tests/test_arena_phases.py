"""Where points are won, counted again in plain Python."""

from functools import cache

import numpy as np
import pytest

from briscola_env.arena import stats
from briscola_env.arena.phases import COUNTS, _open_points, by_phase
from briscola_env.arena.play import deal_episodes, episode_seeds, play_deals
from briscola_env.cards import CARDS_PER_SUIT, POINTS_OF, cards_of
from briscola_env.policies import GreedyPolicy, RandomPolicy
from briscola_env.policies.exact import ExactEndgame
from briscola_env.rules import Rules
from tests.tables import OPTIONS, fewer, positions

POLICIES = [GreedyPolicy(), RandomPolicy()]
TABLES = ["2", "2-swaps", "2-study", "3-options", "4-talk", "6-options"]


def played(table, decks, policies=POLICIES):
    rules = Rules(**OPTIONS[table])
    return rules, play_deals(policies, rules, episode_seeds(4, 0, decks), history=True)


def suit(card):
    return card // CARDS_PER_SUIT


def wins(card, best, trump):
    """The later card takes the trick."""
    return card > best if suit(card) == suit(best) else suit(card) == trump


def slowly(rules, deals):
    """The counts of tricks without the open end game, from the actions alone."""
    total = np.zeros((2, rules.num_tricks, 2, len(COUNTS)))
    episodes = deals.seeds.tolist()
    for own, histories in enumerate(deals.history):
        for game, history in enumerate(histories.tolist()):
            cards = [action for action in history if 0 <= action < 40]
            seed = episodes[game]
            trump, leader = first_facts(rules, seed)
            for trick in range(rules.num_tricks):
                on_table = cards[trick * rules.players : (trick + 1) * rules.players]
                best = 0
                for place, card in enumerate(on_table):
                    if place and wins(card, on_table[best], trump):
                        best = place
                winner = (leader + best) % rules.players
                points = sum(int(POINTS_OF[card]) for card in on_table)
                for side in range(rules.sides):
                    won, leads = winner % rules.sides == side, leader % rules.sides == side
                    mine = [
                        card
                        for place, card in enumerate(on_table)
                        if (leader + place) % rules.players % rules.sides == side
                    ]
                    trumps = sum(suit(card) == trump for card in mine)
                    by_trump = won and suit(on_table[best]) == trump
                    row = total[0 if side == own else 1, trick, int(leads)]
                    row[:8] += [
                        *(1, won, points * won, points * (not won)),
                        *(trumps, trumps * (not won), points * by_trump),
                        sum(card % 10 >= 8 for card in mine) * (not won),
                    ]
                leader = winner
    games = deals.decks * rules.sides
    return total / np.array([games, games * (rules.sides - 1)])[:, None, None, None]


def first_facts(rules, seed):
    """Trump and leader of a deal."""
    state = deal_episodes(rules, np.array([seed], np.uint64))[0]
    return int(state["trump"]), int(state["leader"])


@pytest.mark.parametrize("table", TABLES)
def test_tricks_are_counted_as_a_plain_loop_counts_them(table):
    rules, deals = played(table, fewer(60))
    assert np.allclose(by_phase(deals, rules).counts[..., :8], slowly(rules, deals)[..., :8])


@pytest.mark.parametrize("table", TABLES)
def test_the_margins_of_all_tricks_add_up_to_the_margin(table):
    rules, deals = played(table, fewer(300))
    phases = by_phase(deals, rules)
    margin = stats.deck_margins(deals.scores).mean()
    assert phases.margin(0, None) == pytest.approx(margin)
    by_trick = [phases.margin(0, 1, t) + phases.margin(0, 0, t) for t in range(rules.num_tricks)]
    assert sum(by_trick) == pytest.approx(margin)
    assert phases.of(0, None, "tricks") == rules.num_tricks


def test_parts_of_the_deals_add_up(monkeypatch):
    rules, deals = played("2-swaps", fewer(100))
    whole = by_phase(deals, rules).counts
    monkeypatch.setattr("briscola_env.arena.phases.CHUNK_GAMES", 7)
    assert np.array_equal(by_phase(deals, rules).counts, whole)


def test_deals_without_their_history_are_refused():
    deals = play_deals(POLICIES, Rules(), episode_seeds(4, 0, 1))
    with pytest.raises(ValueError, match="without their history"):
        by_phase(deals, Rules())


def exact(hands, trump, seat, led):
    """Card points that the seat to act still takes, by trying everything."""

    @cache
    def value(mine, theirs, led):
        if led is None and not mine:
            return 0
        return max(after(mine, theirs, led, card) for card in mine)

    def after(mine, theirs, led, card):
        rest = tuple(c for c in mine if c != card)
        if led is None:
            left = sum(int(POINTS_OF[c]) for c in (*rest, *theirs, card))
            return left - value(theirs, rest, card)
        points = int(POINTS_OF[led] + POINTS_OF[card])
        left = sum(int(POINTS_OF[c]) for c in (*rest, *theirs))
        if wins(card, led, trump):
            return points + value(rest, theirs, None)
        return left - value(theirs, rest, None)

    mine, theirs = tuple(hands[seat]), tuple(hands[1 - seat])
    return {card: after(mine, theirs, led, card) for card in mine}


def test_cards_of_the_open_end_game_are_worth_what_trying_everything_says():
    states = positions({}, fewer(3000), seed=5)
    states = states[(states["face_up"] < 0) & (states["current_player"] >= 0)]
    assert len(states) > fewer(300)
    for state in states:
        hands = [cards_of(state["hands"][seat]) for seat in range(2)]
        led = int(state["table"][0]) if state["table_count"] else None
        seat = int(state["current_player"])
        for card, points in exact(hands, int(state["trump"]), seat, led).items():
            assert _open_points(state, card) == points


def test_exact_play_makes_no_mistakes_and_others_do():
    rules, deals = played("2", fewer(500), [ExactEndgame(GreedyPolicy()), RandomPolicy()])
    phases = by_phase(deals, rules)
    assert phases.of(0, None, "open_cards") == phases.of(1, None, "open_cards") == 3
    assert phases.of(0, None, "mistakes") == phases.of(0, None, "mistake_points") == 0
    assert phases.of(1, None, "mistakes") > 0.1
    assert phases.of(1, None, "mistake_points") > 1
    before = phases.counts[:, : rules.num_tricks - 3, :, COUNTS.index("open_cards")]
    assert not before.any()


def test_the_json_form_has_every_count_by_trick():
    rules, deals = played("2", 20)
    phases = by_phase(deals, rules)
    values = phases.to_dict()
    assert set(values) == {"policy", "opponent"}
    assert tuple(values["policy"]["leading"]) == COUNTS
    assert len(values["opponent"]["following"]["won"]) == rules.num_tricks
    assert values["policy"]["leading"]["won"][3] == round(phases.of(0, 1, "won", 3), 6)
