"""What a seat knows, and random worlds that agree with it (docs/rules.md, section 7).

`info_state` erases from a record what a seat may not know; encoders, policies and search receive
nothing else. `resample` fills the gaps again, uniformly over all deck orders that the seat cannot
rule out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import CARDS_PER_SUIT, NUM_CARDS, SEVEN, SUIT_CARDS, TWO
from briscola_env.engine import class_claim_holds, hand_count_one, named_strength
from briscola_env.jit import bit, kernel, lowest, popcount
from briscola_env.rng import child_seed, random_below
from briscola_env.rules import (
    EXCHANGE_SEVEN,
    EXCHANGE_TWO,
    FIRST_SIGNAL,
)
from briscola_env.state import MAX_HISTORY, MAX_PLAYERS, States

_TWO_TRUMPS = 2  # index in rules.WITHDRAW
_FIRST_TRICK, _LAST_TRICKS = 1, 2  # bits of the index in rules.SHOW_PARTNER
_CONVENTIONAL = 1  # index in rules.SIGNALS
_TEAM = 0  # index in rules.SIGNAL_AUDIENCES
_NEVER = 127  # later than any place in the history

# ------------------------------------------------------------------------------------- info state


@kernel
def unseen_one(info: Any, observer: Any) -> Any:
    """The set of cards whose place `observer` does not know, from its info state."""
    seen = info["hands"][observer]
    if info["face_up"] >= 0:
        seen |= bit(info["face_up"])
    for seat in range(info["players"]):
        seen |= info["played"][seat]
        if seat != observer:
            seen |= info["known"][seat] | info["team_known"][seat]
    return info["deck"] & ~seen


@kernel
def _forget_signals(info: Any, side: Any) -> None:
    """Erase every trace of the signals that the other sides gave among themselves."""
    for seat in range(info["players"]):
        if seat % info["sides"] != side:
            info["last_message"][seat] = -1
            info["reference"][seat] = -1
    if info["current_player"] >= 0 and info["current_player"] % info["sides"] != side:
        info["signalled"] = 0
        info["claim"] = -1
    kept = 0
    for i in range(info["history_length"]):
        action, seat = info["history"][i], info["history_seat"][i]
        if action < FIRST_SIGNAL or seat % info["sides"] == side:
            info["history"][kept] = action
            info["history_seat"][kept] = seat
            kept += 1
    info["history"][kept:] = -1
    info["history_seat"][kept:] = -1
    info["history_length"] = kept


@kernel
def info_state_one(state: Any, seat: Any, info: Any) -> None:
    """What `seat` knows, written into the record `info`; every field but the copy is erased."""
    info["observer"] = seat
    info["rng"] = np.uint64(0)
    info["stock"][:] = -1
    for other in range(state["players"]):
        if other != seat:
            info["hands"][other] = 0
            # Two sides alternate, three players are a side each: no division is needed.
            if state["sides"] != 2 or (other ^ seat) & 1:
                info["team_known"][other] = 0
    if state["signals"] and state["signal_audience"] == _TEAM:
        _forget_signals(info, seat % state["sides"])
    if state["players"] == 2 and state["face_up"] < 0:
        # Nothing is left to draw: what one has not seen is the opponent's hand.
        info["known"][1 - seat] |= unseen_one(info, seat)


@kernel
def info_state(states: Any, seats: Any, out: Any) -> None:
    """What `seats` (int64 [N]) know of `states` [N], into `out`, records [N].

    A record of the same type: `observer` is the seat; other hands, the order of the stock, the
    generator, what other sides know of each other and signals not heard are erased. `out` may not
    be `states`.
    """
    for i in range(len(states)):
        out[i] = states[i]
        info_state_one(states[i], seats[i], out[i])


# --------------------------------------------------------------------------------------- resample


@kernel
def _deal_unseen(info: Any, observer: Any, world: Any) -> None:
    """Give the unseen cards, in random order, to the other hands and the stock of `world`."""
    stock, count, rest = world["stock"], 0, unseen_one(info, observer)
    while rest:
        stock[count] = lowest(rest)
        rest &= rest - 1
        count += 1
    for i in range(count - 1, 0, -1):
        j = random_below(world, i + 1)
        stock[i], stock[j] = stock[j], stock[i]
    for seat in range(info["players"]):
        if seat != observer:
            hand = info["known"][seat] | info["team_known"][seat]
            for _ in range(hand_count_one(info, seat) - popcount(hand)):
                count -= 1
                hand |= bit(stock[count])
                stock[count] = -1
            world["hands"][seat] = hand


@kernel
def _claim_holds(world: Any, observer: Any) -> Any:
    """True if the world agrees with what the seat to act has said in this turn."""
    seat = world["current_player"]
    if world["claim"] < 0 or seat == observer:
        return True
    return class_claim_holds(world["hands"][seat], world["trump"], world["claim"])


@kernel
def _swaps_put_and_taken(world: Any, put: Any, taken: Any, since: Any) -> Any:
    """Cards put down and taken at each place of the history, and since when the taken ones are
    known to be held; returns the card under the stock.
    """
    face_up = np.int64(world["initial_face_up"])
    first = CARDS_PER_SUIT * np.int64(world["trump"])
    for i in range(world["history_length"]):
        action = world["history"][i]
        if NUM_CARDS <= action < FIRST_SIGNAL:
            taken[i] = face_up
            since[face_up] = min(since[face_up], i)
            if action == EXCHANGE_SEVEN:
                face_up = first + SEVEN
            elif action == EXCHANGE_TWO:
                face_up = first + TWO
            else:
                face_up = np.int64(world["withdrawn"])
            put[i] = face_up
    return face_up


@kernel
def _named_since(world: Any, since: Any) -> None:
    """Place in the history at which a signal first named each card; others stay as they are."""
    if world["signals"] != _CONVENTIONAL:
        return
    first = CARDS_PER_SUIT * np.int64(world["trump"])
    players, sides = np.int64(world["players"]), np.int64(world["sides"])
    reference = np.full(MAX_PLAYERS, -1)
    for i in range(world["history_length"]):
        message = np.int64(world["history"][i]) - FIRST_SIGNAL
        seat = np.int64(world["history_seat"][i])
        strength = named_strength(message, reference[seat])
        if strength >= 0:
            since[first + strength] = min(since[first + strength], i)
            for partner in range(seat % sides, players, sides):
                if partner != seat:
                    reference[partner] = strength


@kernel
def _undraw(world: Any, hand: Any, before: Any, since: Any) -> Any:
    """Take back a draw: one of the cards, at random, that were not known before it to be held."""
    candidates, rest = np.int64(0), hand
    while rest:
        card = lowest(rest)
        if since[card] > before:
            candidates |= bit(card)
        rest &= rest - 1
    for _ in range(random_below(world, popcount(candidates))):
        candidates &= candidates - 1
    return hand & ~bit(lowest(candidates))


@kernel
def _rewind(world: Any, observer: Any, hands: Any) -> Any:
    """Turn the hands (sets by seat) into a random history of themselves: the hands first dealt.

    Backwards through the deal, each draw is one of the cards then in hand. Every deck order that
    leads to these hands is one such path, and all paths of all worlds are equally likely, as the
    number of choices depends only on what the observer knows. So a world kept if its random path
    agrees with what is known of the first hands is uniform over deck orders. Returns the set of
    cards put down in swaps.
    """
    players = np.int64(world["players"])
    put = np.zeros(MAX_HISTORY, np.int64)
    taken = np.zeros(MAX_HISTORY, np.int64)
    since = np.full(NUM_CARDS, _NEVER)
    _named_since(world, since)
    bottom = bit(_swaps_put_and_taken(world, put, taken, since))
    trick, on_table = np.int64(world["trick"]), np.int64(world["table_count"])
    put_down = np.int64(0)
    for i in range(np.int64(world["history_length"]) - 1, -1, -1):
        action, seat = np.int64(world["history"][i]), np.int64(world["history_seat"][i])
        if action >= FIRST_SIGNAL:
            continue
        if action >= NUM_CARDS:
            hands[seat] = (hands[seat] & ~bit(taken[i])) | bit(put[i])
            put_down |= bit(put[i])
            continue
        if on_table == 0:
            trick -= 1
            on_table = players
            for drawer in range(players):
                if trick == world["draws"] - 1 and hands[drawer] & bottom != 0:
                    hands[drawer] &= ~bottom
                elif trick < world["draws"] and drawer != observer:
                    hands[drawer] = _undraw(world, hands[drawer], i, since)
        on_table -= 1
        hands[seat] |= bit(action)
    return put_down


@kernel
def _first_hands_agree(world: Any, observer: Any, hands: Any) -> Any:
    """True if the hands first dealt agree with reburied cards and a withdrawal of `two_trumps`."""
    for seat in range(world["players"]):
        partner = seat % world["sides"] == observer % world["sides"]
        if seat == observer or (partner and world["show_partner"] & _FIRST_TRICK):
            continue  # the observer saw that hand: the truth agrees, a random path need not
        if hands[seat] & world["reburied"] != 0:
            return False
        if world["withdraw"] == _TWO_TRUMPS and seat == world["withdrawn_by"]:
            trumps = hands[seat] & SUIT_CARDS[world["trump"]]
            if popcount(trumps) < 2 or lowest(trumps) != world["withdrawn"]:
                return False
    return True


@kernel
def _share_first_hands(world: Any, observer: Any, hands: Any) -> None:
    """Let the partners of other sides know what is left of the hands that they were shown."""
    for seat in range(world["players"]):
        if seat % world["sides"] != observer % world["sides"]:
            if world["face_up"] < 0 and world["show_partner"] & _LAST_TRICKS:
                world["team_known"][seat] = world["hands"][seat]
            elif world["show_partner"] & _FIRST_TRICK:
                world["team_known"][seat] = hands[seat] & world["hands"][seat]


@kernel
def resample_one(info: Any, seed: Any, world: Any) -> None:
    """One random world for one info state, see `resample`; `world` is a copy of `info`."""
    observer = np.int64(info["observer"])
    world["observer"] = -1
    world["rng"] = seed
    constrained = info["reburied"] != 0 or (
        info["withdraw"] == _TWO_TRUMPS and info["withdrawn_by"] >= 0
    )
    while True:
        _deal_unseen(info, observer, world)
        if not _claim_holds(world, observer):
            continue
        if not constrained and info["show_partner"] == 0:
            return
        hands = world["hands"].copy()
        put_down = _rewind(world, observer, hands)
        if not constrained or _first_hands_agree(world, observer, hands):
            _share_first_hands(world, observer, hands & ~put_down)
            return


@kernel
def resample(info_states: Any, seeds: Any, out: Any) -> None:
    """A random full state for each info state [N] into `out`, records [N].

    Uniform over all deck orders that the observer cannot rule out, the other seats' reasons for
    their choices left aside; seeds: uint64 [N], each also becomes the world's generator. The claims
    NO_TRUMP, HAVE_LOW and HAVE_CARICO bind only until that seat's next draw or play, and the place
    in which `rebury_position="middle"` buries is not used. In the worlds the other sides have given
    no signals but those heard.
    """
    for i in range(len(info_states)):
        out[i] = info_states[i]
        resample_one(info_states[i], seeds[i], out[i])


@kernel
def _sample_worlds(info_states: Any, seeds: Any, worlds: Any, world_seeds: Any) -> None:
    count = world_seeds.shape[1]
    for i in range(len(info_states)):
        for k in range(count):
            world_seeds[i, k] = child_seed(seeds[i], k)
            worlds[i * count + k] = info_states[i]
            resample_one(info_states[i], world_seeds[i, k], worlds[i * count + k])


def sample_worlds(
    info_states: States, seeds: NDArray[np.uint64], count: int
) -> tuple[States, NDArray[np.uint64]]:
    """`count` random worlds of each info state [N], as `resample` makes them, and their seeds.

    Both are [N, count]; the seeds are children of `seeds` [N].
    """
    worlds = np.empty(len(info_states) * count, info_states.dtype)
    world_seeds = np.empty((len(info_states), count), np.uint64)
    _sample_worlds(info_states, seeds, worlds, world_seeds)
    return worlds.reshape(world_seeds.shape), world_seeds
