"""`resample` is uniform over the deck orders that a seat cannot rule out: counted on small decks.

Chi-square against a count of all orders by the slow twin, with fixed seeds.
"""

from collections.abc import Callable
from typing import Any

import pytest
from numba import config

from tests.naive import HAVE_CARICO, HAVE_LOW, NO_TRUMP
from tests.worlds import (
    Scene,
    expected_with_first_hands,
    expected_worlds,
    misfit,
    p_value,
    sampled_worlds,
    scenes,
)

LEAST = 1e-4
EIGHT = (0, 4, 8, 9, 14, 18, 19, 24)  # 2 7 3 A of coins, 7 3 A of cups, 7 of swords
TRUMPS = (0, 1, 4, 5, 6, 9, 12, 13, 14, 19)  # six coins, four cups
TWELVE = (*TRUMPS, 18, 24)
SWAPS = {"exchange_seven": True, "exchange_two": True}
FOUR = {"players": 4, "hand_size": 2, "cards": TWELVE}
TALK = {"players": 4, "hand_size": 1, "cards": (0, 4, 5, 6, 9, 14, 18, 19)}
TALK |= {"signals": "conventional", "signals_from_trick": 0}


def always(scene: Scene) -> bool:
    """Any position."""
    return True


def swapped(scene: Scene) -> bool:
    """Somebody has taken the face-up card, and has played or drawn since."""
    return any(40 <= action <= 42 for action in scene.actions[:-1])


def withdrawn(scene: Scene) -> bool:
    """Somebody has withdrawn the face-up card."""
    return scene.game.withdrawn >= 0


def reburied(scene: Scene) -> bool:
    """A card was put back."""
    return bool(scene.game.reburied)


def reburied_and_swapped(scene: Scene) -> bool:
    """Both."""
    return reburied(scene) and any(action >= 40 for action in scene.actions)


def taker_known(scene: Scene) -> bool:
    """The face-up card was drawn and is still held; opponents of its holder do not know more."""
    return scene.game.face_up == -1 and any(scene.game.known_to_all)


def said(*messages: int) -> Callable[[Scene], bool]:
    """The last action is one of these messages."""
    return lambda scene: scene.actions[-1:] and scene.actions[-1] - 43 in messages


def named(scene: Scene) -> bool:
    """A trump was named and is still held."""
    game = scene.game
    return any(game.known_to_all) or any(game.known_to_partners)


def no_longer_bound(scene: Scene) -> bool:
    """Somebody said NO_TRUMP or HAVE_LOW and has played since."""
    messages = [action - 43 for action in scene.actions[:-1] if action >= 43]
    return bool({HAVE_LOW, NO_TRUMP}.intersection(messages))


TWO: dict[str, Any] = {"cards": EIGHT, "hand_size": 2}
FAMILIES: dict[str, tuple[dict[str, Any], int, Callable[[Scene], bool]]] = {
    "plain": (TWO, 5, always),
    "plain, hands of three": ({"cards": TRUMPS}, 5, always),
    "holder of the face-up card": (
        {"players": 3, "cards": (0, 4, 8, 9, 14, 18, 19, 24, 33), "hand_size": 2},
        6,
        taker_known,
    ),
    "swaps": ({"cards": TRUMPS, "hand_size": 2, **SWAPS}, 7, swapped),
    "two_trumps": ({"cards": TRUMPS, "withdraw": "two_trumps"}, 6, withdrawn),
    "two_trumps, more draws": (
        {"cards": TRUMPS, "hand_size": 2, "withdraw": "two_trumps", **SWAPS},
        7,
        withdrawn,
    ),
    "two_trumps, three players": (
        {"players": 3, "cards": TRUMPS[:9], "hand_size": 2, "withdraw": "two_trumps"},
        6,
        withdrawn,
    ),
    "reburied once": ({**TWO, "rebury": "once"}, 5, reburied),
    "reburied, repeat": ({**TWO, "rebury": "repeat"}, 5, reburied),
    "reburied and swapped": (
        {"cards": (0, 1, 4, 5, 6, 8, 9, 12), "hand_size": 2, "rebury": "once", **SWAPS},
        6,
        reburied_and_swapped,
    ),
    "reburied and withdrawn": (
        {"cards": (0, 1, 4, 5, 6, 8, 9, 12), "hand_size": 2, "rebury": "once"}
        | {"withdraw": "two_trumps"},
        6,
        lambda scene: reburied(scene) and withdrawn(scene),
    ),
    "named trumps": (TALK, 6, named),
    "named to the table": ({**TALK, "signal_audience": "table"}, 6, named),
    "NO_TRUMP and HAVE_LOW": (TALK, 6, said(NO_TRUMP, HAVE_LOW)),
    "HAVE_CARICO, to the table": ({**TALK, "signal_audience": "table"}, 6, said(HAVE_CARICO)),
    "NO_TRUMP and HAVE_LOW, no longer bound": (TALK, 6, no_longer_bound),
}
SHOWN: dict[str, tuple[dict[str, Any], int, Callable[[Scene], bool]]] = {
    "shown before the first trick": ({**FOUR, "show_partner": "before_first_trick"}, 9, always),
    "shown before both": ({**FOUR, "show_partner": "both"}, 9, always),
    "shown, with swaps": (
        {**FOUR, **SWAPS, "show_partner": "before_first_trick", "withdraw": "two_trumps"},
        9,
        swapped,
    ),
    "shown, with signals": (
        {**FOUR, "show_partner": "before_first_trick", "withdraw": "two_trumps"}
        | {"signals": "conventional", "signals_from_trick": 0, "signal_audience": "table"},
        9,
        lambda scene: withdrawn(scene) and bool(scene.game.named),
    ),
}
POSITIONS = 1 if config.DISABLE_JIT else 5


def check(
    family: tuple[dict[str, Any], int, Callable[[Scene], bool]],
    expected: Callable[[Scene, int], dict[tuple[int, ...], float]],
    with_team: bool,
) -> None:
    """Every seat of every position; one p-value for all, and one for each."""
    options, most, wanted = family
    misfits = []
    for scene in scenes(options, POSITIONS, wanted, most):
        for observer in range(scene.game.players):
            worlds = expected(scene, observer)
            number = max(10 * len(worlds), 1000) if config.DISABLE_JIT else 20_000
            result = misfit(worlds, sampled_worlds(scene, observer, number, with_team))
            if len(worlds) > 1:
                misfits.append(result)
                assert p_value([result]) > LEAST / 10, (scene, observer)
    assert misfits or config.DISABLE_JIT
    assert not misfits or p_value(misfits) > LEAST


@pytest.mark.parametrize("family", FAMILIES)
def test_worlds_are_as_frequent_as_deck_orders(family: str) -> None:
    check(FAMILIES[family], expected_worlds, with_team=False)


@pytest.mark.parametrize("family", SHOWN)
def test_worlds_are_as_frequent_with_what_other_partners_were_shown(family: str) -> None:
    check(SHOWN[family], expected_with_first_hands, with_team=True)
