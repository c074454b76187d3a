"""Positions for the tests of the policies: dealt and played on at random, or set up by hand."""

import numpy as np

from briscola_env.cards import card_set, parse_card
from briscola_env.dealing import deal
from briscola_env.engine import legal_actions, step
from briscola_env.information import info_state
from briscola_env.rules import FIRST_SIGNAL, Rules
from briscola_env.state import new_states


def views(states):
    """What the seats to act know."""
    infos = np.empty_like(states)
    info_state(states, np.maximum(states["current_player"], 0).astype(np.int64), infos)
    return infos


def legal_rows(states):
    """Their legal actions, bool [N, num_actions]."""
    legal = np.zeros((len(states), int(states["num_actions"][0])), bool)
    legal_actions(states, legal)
    return legal


def random_positions(rules, n, plays, seed, signals=False):
    """n full states after that many cards (an int, or one each), chosen at random like swaps."""
    rng = np.random.default_rng(seed)
    states, played = new_states(rules, n), np.zeros(n, int)
    deal(states, rng.integers(0, 2**63, n).astype(np.uint64))
    while (played < plays).any():
        legal = legal_rows(states)
        if not signals:
            legal[:, FIRST_SIGNAL:] = False
        actions = (rng.random(legal.shape) * legal).argmax(axis=1)
        going = played < plays
        chosen = states[going]
        step(chosen, actions[going])
        states[going] = chosen
        played[going] += actions[going] < 40
    return states


def play_match(policies, rules, decks, seed):
    """Mean margin of policies[0] over mirrored decks, in card points, and its standard error."""
    margins = np.zeros(decks)
    seeds = np.random.default_rng(seed).integers(0, 2**63, decks).astype(np.uint64)
    for side in range(rules.sides):
        states, count = new_states(rules, decks), 0
        deal(states, seeds, np.zeros(decks, np.int64))
        while (states["current_player"] >= 0).any():
            infos, legal = views(states), legal_rows(states)
            actions = np.zeros(decks, np.int64)
            sides = states["current_player"] % rules.sides
            for who, policy in enumerate(policies):
                rows = (states["current_player"] >= 0) & ((sides == side) == (who == 0))
                if rows.any():
                    luck = seeds[rows] + np.uint64(count)
                    actions[rows] = policy.act(infos[rows], legal[rows], luck)
            step(states, actions)
            count += 1
        scores = states["scores"][:, : rules.sides].astype(float)
        own = scores[:, side]
        margins += (own - (scores.sum(axis=1) - own) / (rules.sides - 1)) / rules.sides
    return margins.mean(), margins.std() / np.sqrt(decks)


def cards(text):
    """A set of cards by name."""
    return card_set(parse_card(word) for word in text.split())


def turn(hand, table="", trump="coins", face_up="2d", trick=3, players=2, **options):
    """The info state of the seat that sits behind the table's cards, the leader being seat 0.

    All other cards are unseen, whatever the trick.
    """
    rules = Rules(players=players, **options)
    info = new_states(rules, 1)
    state, seat = info[0], len(table.split())
    state["trump"] = ("coins", "cups", "swords", "batons").index(trump)
    state["face_up"] = state["initial_face_up"] = parse_card(face_up) if face_up else -1
    state["hands"][seat] = cards(hand)
    state["leader"], state["dealer"], state["trick"] = 0, players - 1, trick
    for place, word in enumerate(table.split()):
        state["table"][place] = parse_card(word)
        state["played"][place] |= cards(word)
        state["history"][place], state["history_seat"][place] = parse_card(word), place
    state["history_length"] = state["table_count"] = seat
    state["current_player"] = state["observer"] = seat
    return info
