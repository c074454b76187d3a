"""Giving and reading the conventional signals between partners (docs/rules.md, section 5).

A signal that names a trump needs no reading: the card is then known to be in that hand. The vague
ones hold only for a moment, so they are read for as long as their speaker has played once since.
"""

from typing import Any

import numpy as np

from briscola_env.cards import CARDS_PER_SUIT, NUM_CARDS
from briscola_env.jit import bit, kernel
from briscola_env.rules import FIRST_SIGNAL, HAVE_CARICO, HAVE_LOW, NO_TRUMP

_CONVENTIONAL = 1  # index in rules.SIGNALS
_TEAM = 0  # index in rules.SIGNAL_AUDIENCES


@kernel
def say_one(info: Any, legal: Any) -> Any:
    """The signal to give now, as an action, or -1 for none; legal: the row of legal actions.

    The highest trump from ace to jack that the partners do not know of; if there is none, a carico
    or that one has no trump. Nothing where the rivals would hear it, and nothing in a code without
    agreed meanings.
    """
    if info["signals"] != _CONVENTIONAL or info["signal_audience"] != _TEAM:
        return -1
    seat = info["current_player"]
    told = info["known"][seat] | info["team_known"][seat]
    ace = CARDS_PER_SUIT * np.int64(info["trump"]) + CARDS_PER_SUIT - 1
    for message in range(HAVE_LOW):
        if legal[FIRST_SIGNAL + message] and told & bit(ace - message) == 0:
            return FIRST_SIGNAL + message
    for message in (HAVE_CARICO, NO_TRUMP):
        if legal[FIRST_SIGNAL + message]:
            return FIRST_SIGNAL + message
    return -1


@kernel
def heard_one(info: Any, seat: Any, message: Any) -> Any:
    """True if a seat last said this vague message, and has played only once since."""
    if info["last_message"][seat] != message:
        return False
    plays = 0
    for i in range(np.int64(info["history_length"]) - 1, -1, -1):
        if info["history_seat"][i] == seat:
            if info["history"][i] == FIRST_SIGNAL + message:
                return True
            plays += 1 if info["history"][i] < NUM_CARDS else 0
            if plays > 1:
                return False
    return False
