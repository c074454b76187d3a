"""Which options go together, and what a `Rules` object says about its table."""

import copy
import pickle
from dataclasses import FrozenInstanceError
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numba import config

from briscola_env.rules import (
    CONVENTIONAL_MESSAGES,
    CheckpointError,
    IllegalActionError,
    InvalidRulesError,
    Rules,
)
from tests.tables import play_out, start

NO_SEVEN = (0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13)
NO_TWO = (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14)

# What is refused, and words that the message must contain: the fields and what is allowed.
REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"players": 1}, ["players=1", "2, 3, 4, 6"]),
    ({"players": 5}, ["players=5", "2, 3, 4, 6"]),
    ({"players": True}, ["players=True", "2, 3, 4, 6"]),
    ({"players": 2.0}, ["players=2.0", "2, 3, 4, 6"]),
    ({"removed_two": "cups"}, ["removed_two='cups'", "players=3", "players=2"]),
    ({"removed_two": "cups", "players": 4}, ["removed_two='cups'", "players=3", "players=4"]),
    ({"removed_two": "hearts", "players": 3}, ["removed_two='hearts'", "'coins', 'cups'"]),
    ({"removed_two": "cups", "players": 3, "cards": NO_TWO}, ["removed_two", "cards"]),
    ({"cards": (*range(11), 40)}, ["cards", "40", "0..39"]),
    ({"cards": (-1, *range(11))}, ["cards", "-1", "0..39"]),
    ({"cards": (0, 0, *range(10))}, ["cards", "different"]),
    ({"cards": ("Ac", *range(11))}, ["cards", "'Ac'", "0..39"]),
    ({"cards": (1.5, *range(11))}, ["cards", "1.5", "0..39"]),
    ({"cards": 5}, ["cards=5", "0..39"]),
    ({"cards": tuple(range(11))}, ["cards", "11", "players=2", "divide"]),
    ({"cards": tuple(range(6))}, ["cards", "6", "hand_size=3", "trump"]),
    ({"cards": ()}, ["cards", "players=2"]),
    ({"hand_size": 0}, ["hand_size=0", "1.."]),
    ({"hand_size": 20}, ["hand_size=20", "players=2", "trump"]),
    ({"hand_size": "3"}, ["hand_size='3'", "whole number"]),
    ({"players": 6, "hand_size": 6}, ["hand_size=6", "players=6"]),
    ({"match_wins": 4}, ["match_wins=4", "0, 1, 2, 3"]),
    ({"match_wins": -1}, ["match_wins=-1", "0, 1, 2, 3"]),
    ({"match_wins": True}, ["match_wins=True", "0, 1, 2, 3"]),
    ({"max_deals": 0}, ["max_deals=0", "1.."]),
    ({"match_wins": 3, "max_deals": 2}, ["max_deals=2", "match_wins=3"]),
    ({"rebury": "twice"}, ["rebury='twice'", "'off', 'once', 'repeat'"]),
    ({"rebury_position": "top"}, ["rebury_position='top'", "'random', 'middle'"]),
    (
        {"cards": (8, 9, *range(10, 20)), "rebury": "repeat", "rebury_position": "middle"},
        ["rebury='repeat'", "rebury_position='middle'", "aces and threes"],
    ),
    ({"exchange_seven": 1}, ["exchange_seven=1", "False, True"]),
    ({"exchange_two": None}, ["exchange_two=None", "False, True"]),
    ({"exchange_seven": True, "cards": NO_SEVEN}, ["exchange_seven=True", "seven", "cards"]),
    ({"exchange_two": True, "cards": NO_TWO}, ["exchange_two=True", "two", "cards"]),
    ({"exchange_two": True, "players": 6}, ["exchange_two=True", "two", "players=6"]),
    ({"withdraw": "deuce", "cards": NO_TWO}, ["withdraw='deuce'", "two", "cards"]),
    ({"withdraw": "deuce", "players": 6}, ["withdraw='deuce'", "two", "players=6"]),
    ({"withdraw": "always"}, ["withdraw='always'", "'off', 'deuce', 'two_trumps'"]),
    ({"show_partner": "always", "players": 4}, ["show_partner='always'", "'both'"]),
    ({"show_partner": "both"}, ["show_partner='both'", "players", "4 or 6"]),
    ({"show_partner": "both", "players": 3}, ["show_partner='both'", "players", "4 or 6"]),
    ({"signals": "winks", "players": 4}, ["signals='winks'", "'conventional', 'free'"]),
    ({"signals": "conventional"}, ["signals='conventional'", "players", "4 or 6"]),
    ({"signals": "free", "players": 3}, ["signals='free'", "players", "4 or 6"]),
    (
        {"signals": "free", "players": 6, "signals_from_trick": 6},
        ["signals_from_trick=6", "6 tricks", "0..5"],
    ),
    ({"signals_from_trick": -1}, ["signals_from_trick=-1", "0.."]),
    ({"signal_audience": "all"}, ["signal_audience='all'", "'team', 'table'"]),
]


@pytest.mark.parametrize(("options", "words"), REFUSED, ids=lambda value: str(value)[:60])
def test_refused_by_a_message_that_names_the_fields(
    options: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(InvalidRulesError) as caught:
        Rules(**options)
    assert [word for word in words if word not in str(caught.value)] == []


# Everything but a field's default, for the test of pairs.
CHOICES: list[tuple[str, Any]] = [
    ("removed_two", "batons"),
    ("cards", (0, 1, 4, 5, *range(8, 28))),  # 2 + 21 + 30 + 9 points
    ("hand_size", 2),
    *(("match_wins", wins) for wins in (1, 2, 3)),
    ("max_deals", 2),
    *(("rebury", value) for value in ("once", "repeat")),
    ("rebury_position", "middle"),
    ("exchange_seven", True),
    ("exchange_two", True),
    *(("withdraw", value) for value in ("deuce", "two_trumps")),
    *(("show_partner", v) for v in ("before_first_trick", "before_last_tricks", "both")),
    *(("signals", value) for value in ("conventional", "free")),
    *(("signals_from_trick", trick) for trick in (0, 5)),
    ("signal_audience", "table"),
]
PAIRS = [dict(pair) for pair in combinations(CHOICES, 2) if pair[0][0] != pair[1][0]]


def why_refused(players: int, options: dict[str, Any]) -> str:
    """The field for which this pair of options cannot be played, empty if it can."""
    tricks = 24 // players if "cards" in options else 40 // players
    if "removed_two" in options and (players != 3 or "cards" in options):
        return "removed_two"
    if (options.get("match_wins"), options.get("max_deals")) == (3, 2):
        return "max_deals"
    for name in ("show_partner", "signals"):
        if name in options and players < 4:
            return name
    if options.get("signals_from_trick", 1) >= tricks and "signals" in options:
        return "signals_from_trick"
    if "cards" not in options and players == 6:
        if "exchange_two" in options:
            return "exchange_two"
        if options.get("withdraw") == "deuce":
            return "withdraw"
    return ""


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_every_other_pair_of_options_plays_to_all_the_points(players: int) -> None:
    rng = np.random.default_rng(players)
    pairs = PAIRS[:: 9 if config.DISABLE_JIT else 1]
    refused = 0
    for options in pairs:
        field = why_refused(players, options)
        if field:
            with pytest.raises(InvalidRulesError, match=field):
                Rules(players=players, **options)
            refused += 1
            continue
        rules = Rules(players=players, **options)
        states = play_out(start(rules, rng.integers(0, 2**63, 2)), rng)
        total = 62 if "cards" in options else 120
        assert rules.deck_points == total
        assert (states["last_scores"][:, : rules.sides].sum(axis=1) == total).all(), options
        assert (states["trick"] == len(rules.deck) // players).all()
    assert 0 < refused < len(pairs)


@pytest.mark.parametrize(
    ("options", "cards", "tricks", "actions"),
    [
        ({}, 40, 20, 40),
        ({"players": 3}, 39, 13, 40),
        ({"players": 4}, 40, 10, 40),
        ({"players": 6}, 36, 6, 40),
        ({"exchange_seven": True}, 40, 20, 43),
        ({"withdraw": "two_trumps"}, 40, 20, 43),
        ({"players": 4, "signals": "conventional"}, 40, 10, 69),
        ({"players": 6, "signals": "free"}, 36, 6, 51),
        ({"players": 4, "signals": "free", "exchange_two": True}, 40, 10, 51),
        ({"cards": tuple(range(12)), "hand_size": 2}, 12, 6, 40),
    ],
    ids=str,
)
def test_sizes(options: dict[str, Any], cards: int, tricks: int, actions: int) -> None:
    rules = Rules(**options)
    assert (len(rules.deck), rules.num_tricks, rules.num_actions) == (cards, tricks, actions)
    assert rules.sides == (3 if rules.players == 3 else 2)
    assert len([rules.action_name(action) for action in range(actions)]) == actions


def test_three_players_leave_out_the_two_of_coins_unless_told_otherwise() -> None:
    assert [card for card in range(40) if card not in Rules(players=3).deck] == [0]
    assert Rules(players=3).removed_two == "coins"
    batons = Rules(players=3, removed_two="batons")
    assert [card for card in range(40) if card not in batons.deck] == [30]
    assert [card for card in range(40) if card not in Rules(players=6).deck] == [0, 10, 20, 30]


def test_names_of_actions() -> None:
    rules = Rules(players=4, signals="conventional")
    assert [rules.action_name(a) for a in (0, 19, 38)] == ["2d", "Ac", "3b"]
    assert [rules.action_name(a) for a in (40, 41, 42)] == [
        "EXCHANGE_SEVEN",
        "EXCHANGE_TWO",
        "WITHDRAW",
    ]
    named = {43: "HAVE_A", 48: "HAVE_LOW", 49: "NO_TRUMP", 50: "HAVE_CARICO", 51: "REL-9"}
    named |= {59: "REL-1", 60: "REL+1", 68: "REL+9"}
    assert {action: rules.action_name(action) for action in named} == named
    assert len(CONVENTIONAL_MESSAGES) == 26


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"players": 3},
        {"players": 4, "signals": "free", "show_partner": "both", "match_wins": 2},
        {"cards": (9, 8, 7, 6, 5, 4, 3, 2), "hand_size": 1, "rebury": "once"},
    ],
    ids=str,
)
def test_a_dict_of_plain_values_makes_the_same_rules(options: dict[str, Any]) -> None:
    rules = Rules(**options)
    values = rules.to_dict()
    assert Rules.from_dict(values) == rules
    listed = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}  # as JSON does
    assert Rules.from_dict(listed) == rules
    assert {name: values[name] for name in options if name != "cards"} == {
        name: value for name, value in options.items() if name != "cards"
    }


def test_an_unknown_name_is_refused_and_named() -> None:
    with pytest.raises(InvalidRulesError, match=r"'exchange_sevens'.*exchange_seven,"):
        Rules.from_dict({"players": 2, "exchange_sevens": True})
    with pytest.raises(TypeError, match="exchange_sevens"):
        Rules(exchange_sevens=True)  # type: ignore[call-arg]


def test_rules_are_frozen_values() -> None:
    rules = Rules(cards=(3, 1, 2, 0, 5, 4, 7, 6))
    with pytest.raises(FrozenInstanceError):
        rules.players = 4  # type: ignore[misc]
    again = Rules(cards=[0, 1, 2, 3, 4, 5, 6, 7])  # type: ignore[arg-type]
    assert rules == again
    assert (
        len({rules, again, Rules(), copy.deepcopy(rules), pickle.loads(pickle.dumps(rules))}) == 2
    )


def test_single_deal_changes_the_match_alone() -> None:
    rules = Rules(players=4, signals="free", match_wins=3, max_deals=7)
    assert rules.single_deal() == Rules(players=4, signals="free")


def test_all_our_errors_are_value_errors() -> None:
    for error in (InvalidRulesError, IllegalActionError, CheckpointError):
        assert issubclass(error, ValueError)


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_no_deal_is_longer_than_max_history(players: int) -> None:
    options: dict[str, Any] = {"players": players, "exchange_seven": True, "withdraw": "two_trumps"}
    if players >= 4:
        options |= {"signals": "free", "signals_from_trick": 0}
    rules = Rules(**options)
    signals = 40 // players * players if players == 4 else 36 if players == 6 else 0
    assert rules.max_history == len(rules.deck) + 2 + signals
    rng = np.random.default_rng(players)
    states = play_out(start(rules, range(50)), rng)
    assert states["history_length"].max() <= rules.max_history
