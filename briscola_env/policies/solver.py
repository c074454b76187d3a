"""Exact play of what is known: positions in which every card, the stock's order too, is seen.

Alpha-beta search (Knuth, Moore, "An analysis of alpha-beta pruning", 1975) with a transposition
table, driven by zero-width windows (MTD(f): Plaat, Schaeffer, Pijls, de Bruin, "Best-first
fixed-depth minimax algorithms", 1996). One side maximizes the card points that it still takes, all
others minimize them: with two sides that is exact play by both; with three players it is the
ASSUMPTION that the other two play as one coalition against the seat to act.

Swaps are searched like cards. Signals change nothing when all is known and are left out.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import CARDS_PER_SUIT, NUM_CARDS, POINTS_OF, STRENGTH_OF, SUIT_OF
from briscola_env.engine import beats, swap_card_one
from briscola_env.jit import bit, kernel, lowest, popcount
from briscola_env.policies.endgame import MOST_CARDS, lead_points_one, set_points_one
from briscola_env.rules import EXCHANGE_SEVEN, FIRST_SIGNAL, WITHDRAW_CARD
from briscola_env.state import MAX_PLAYERS, States

# A position in the search, and what is known of its value. A child is a copy of its parent with
# one action taken. Fields that GAME_STATE has too mean the same, so that the engine's kernel for
# swaps reads them.
_NODE = np.dtype(
    [
        ("hands", np.int64, MAX_PLAYERS),
        ("unplayed", np.int64),  # set: cards in hands and stock, and the one that wins on the table
        ("moves", np.int64),  # set: actions still to be tried, bit `action`
        ("key", np.uint64),  # hash of the position; 0 inside a trick
        ("current_player", np.int16),
        ("trump", np.int16),
        ("face_up", np.int16),
        ("trick", np.int16),
        ("table_count", np.int16),
        ("withdraw", np.int16),
        ("withdrawn", np.int16),
        ("exchange_seven", np.int16),
        ("exchange_two", np.int16),
        ("drawn", np.int16),  # cards drawn since the root
        ("best_card", np.int16),  # the card on the table that wins so far; -1 if it is empty
        ("best_seat", np.int16),  # who played it
        ("table_points", np.int16),  # card points on the table
        ("left", np.int16),  # card points not yet won, table included
        ("gain", np.int16),  # card points that the action leading here won for the maximizer
        ("maximizes", np.int16),  # 1 if the seat to act belongs to the maximizing side
        ("alpha", np.int16),  # the window: only values between the two matter
        ("beta", np.int16),
        ("floor", np.int16),  # the window as it was at the start
        ("ceiling", np.int16),
        ("value", np.int16),  # best so far, in card points still to be won by the maximizer
        ("move", np.int16),  # the action that gave it, tried first if the position comes again
    ],
    align=True,
)
_MAX_DEPTH = NUM_CARDS + 4  # cards, three swaps, and the root
_TABLE_BITS, _MOST_TABLE_BITS = 2, 21  # entries: 2 ** (cards left + 2), at most 2 ** 21

_ENTRY = np.dtype([("key", np.uint64), ("low", np.int16), ("high", np.int16), ("move", np.int32)])
"""A line of the transposition table: the value lies in low..high. Two positions of one search
have the same key with probability 2**-64."""

_PRIMES = np.array(
    [
        *(0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93),
        *(0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3),
    ],
    np.uint64,
)
_29, _32 = np.uint64(29), np.uint64(32)


@kernel
def _hash(node: Any, players: Any, salt: Any) -> Any:
    """Key of a position between two tricks; salt: a number for each solved position."""
    key = np.uint64(salt) * _PRIMES[7]
    extra = np.int64(node["current_player"]) + 8 * (node["face_up"] + 1)
    extra = 2 * extra + (1 if node["withdrawn"] >= 0 else 0)
    key ^= np.uint64(extra) * _PRIMES[6]
    for seat in range(players):
        key = (key ^ np.uint64(node["hands"][seat])) * _PRIMES[seat]
        key ^= key >> _29
    key *= _PRIMES[6]
    key ^= key >> _32
    return key


# ------------------------------------------------------------------------------- a step of the game


@kernel
def _set_root(state: Any, node: Any) -> None:
    """The position of a full state."""
    for seat in range(MAX_PLAYERS):
        node["hands"][seat] = state["hands"][seat]
    node["current_player"] = state["current_player"]
    node["trump"] = state["trump"]
    node["face_up"] = state["face_up"]
    node["trick"] = state["trick"]
    node["table_count"] = state["table_count"]
    node["withdraw"] = state["withdraw"]
    node["withdrawn"] = state["withdrawn"]
    node["exchange_seven"] = state["exchange_seven"]
    node["exchange_two"] = state["exchange_two"]
    node["drawn"] = 0
    node["best_card"], node["best_seat"] = -1, -1
    node["table_points"], node["gain"], node["maximizes"] = 0, 0, 1
    unplayed = state["deck"]
    for seat in range(state["players"]):
        unplayed &= ~state["played"][seat]
    points = set_points_one(unplayed)
    for place in range(state["table_count"]):
        card = np.int64(state["table"][place])
        points += POINTS_OF[card]
        node["table_points"] += POINTS_OF[card]
        if place == 0 or beats(card, node["best_card"], state["trump"]):
            node["best_card"] = card
            node["best_seat"] = (state["leader"] + place) % np.int64(state["players"])
    if node["best_card"] >= 0:
        unplayed |= bit(node["best_card"])
    node["unplayed"] = unplayed
    node["left"] = points


@kernel
def _draw(node: Any, state: Any, winner: Any) -> None:
    """Every seat draws a card from the winner on; the face-up card is the last."""
    players = np.int64(state["players"])
    for i in range(players):
        place = np.int64(state["stock_count"]) - 1 - node["drawn"]
        if place >= 0:
            card = np.int64(state["stock"][place])
        else:
            card = np.int64(node["face_up"])
            node["face_up"] = -1
        node["hands"][(winner + i) % players] |= bit(card)
        node["drawn"] += 1


@kernel
def _play(node: Any, state: Any, card: Any, side: Any) -> None:
    """The seat to act plays a card; `gain` is what the maximizing side wins by it."""
    players, sides = np.int64(state["players"]), np.int64(state["sides"])
    seat, points = np.int64(node["current_player"]), np.int64(POINTS_OF[card])
    node["hands"][seat] &= ~bit(card)
    node["unplayed"] &= ~bit(card)
    node["table_points"] += points
    node["table_count"] += 1
    if node["table_count"] == 1 or beats(card, node["best_card"], node["trump"]):
        if node["best_card"] >= 0:
            node["unplayed"] &= ~bit(node["best_card"])
        node["unplayed"] |= bit(card)
        node["best_card"] = card
        node["best_seat"] = seat
    seat = (seat + 1) % players
    if node["table_count"] == players:
        seat = np.int64(node["best_seat"])
        node["unplayed"] &= ~bit(node["best_card"])
        node["left"] -= node["table_points"]
        if seat % sides == side:
            node["gain"] = node["table_points"]
        node["table_points"], node["table_count"], node["best_card"] = 0, 0, -1
        node["trick"] += 1
        if node["face_up"] >= 0:
            _draw(node, state, seat)
    node["current_player"] = seat
    node["maximizes"] = 1 if seat % sides == side else 0


@kernel
def _swap(node: Any, action: Any) -> None:
    """The seat to act puts a card under the stock and takes the face-up card."""
    seat = node["current_player"]
    card = swap_card_one(node, action)
    node["hands"][seat] = (node["hands"][seat] & ~bit(card)) | bit(node["face_up"])
    node["face_up"] = card
    if action == WITHDRAW_CARD:
        node["withdrawn"] = card


@kernel
def _take(node: Any, state: Any, action: Any, side: Any) -> None:
    """One action, a card or a swap."""
    node["gain"] = 0
    if action < NUM_CARDS:
        _play(node, state, action, side)
    else:
        _swap(node, action)


@kernel
def _moves(node: Any, swaps: Any) -> Any:
    """The actions worth a look: legal, and of cards that are worth the same only the lowest.

    Two worthless cards of a suit in one hand are the same if every card between them is gone or
    in this hand too; while the trump seven or two may still be swapped, that is not so.
    """
    hand = node["hands"][node["current_player"]]
    moves = hand
    if swaps and node["face_up"] >= 0:
        for action in range(EXCHANGE_SEVEN, FIRST_SIGNAL):
            if swap_card_one(node, action) >= 0:
                moves |= bit(action)
        return moves
    rest = hand
    while rest:
        card = lowest(rest)
        rest &= rest - 1
        if STRENGTH_OF[card] > 0 and POINTS_OF[card] == 0:
            below, first = card - 1, CARDS_PER_SUIT * np.int64(SUIT_OF[card])
            while below >= first and node["unplayed"] & bit(below) == 0:
                below -= 1
            if below >= first and hand & bit(below) != 0:
                moves &= ~bit(card)
    return moves


# ------------------------------------------------------------------------------------------ search


@kernel
def _promise(node: Any, action: Any, sides: Any, side: Any) -> Any:
    """How early to try an action: what it seems to win, less what it spends. Only for speed."""
    if action == node["move"]:
        return 1000
    if action >= NUM_CARDS:
        return 900
    points, strength = np.int64(POINTS_OF[action]), np.int64(STRENGTH_OF[action])
    spent = 2 * points + strength + (30 if SUIT_OF[action] == node["trump"] else 0)
    if node["table_count"] == 0:
        return -spent
    stake = np.int64(node["table_points"]) + points
    if beats(action, node["best_card"], node["trump"]):
        return 6 * stake - spent
    ours = (node["best_seat"] % sides == side) == (node["maximizes"] != 0)
    return 4 * stake - spent if ours else -4 * points - spent


@kernel
def _next_move(node: Any, sides: Any, side: Any) -> Any:
    """Take the most promising action out of `moves`."""
    rest, best, chosen = node["moves"], -10_000, -1
    while rest:
        action = lowest(rest)
        rest &= rest - 1
        promise = _promise(node, action, sides, side)
        if promise > best:
            best, chosen = promise, action
    node["moves"] &= ~bit(chosen)
    return chosen


@kernel
def _settle(node: Any, value: Any) -> Any:
    node["value"] = value
    return True


@kernel
def _open(node: Any, state: Any, table: Any, salt: Any) -> Any:
    """Prepare a position for search; True if its value is already known, or out of the window."""
    node["move"], node["key"] = -1, np.uint64(0)
    left = np.int64(node["left"])
    if left == 0 or node["beta"] <= 0:
        return _settle(node, 0)
    if node["alpha"] >= left:
        return _settle(node, left)
    if node["table_count"] == 0:
        seat = np.int64(node["current_player"])
        hand = node["hands"][seat]
        if state["players"] == 2 and node["face_up"] < 0 and popcount(hand) <= MOST_CARDS:
            points = lead_points_one(hand, node["hands"][1 - seat], node["trump"], left)
            return _settle(node, points if node["maximizes"] else left - points)
        node["key"] = _hash(node, state["players"], salt)
        entry = table[np.int64(node["key"] & np.uint64(len(table) - 1))]
        if entry["key"] == node["key"]:
            node["move"] = entry["move"]
            if entry["low"] >= node["beta"] or entry["low"] == entry["high"]:
                return _settle(node, entry["low"])
            if entry["high"] <= node["alpha"]:
                return _settle(node, entry["high"])
            node["alpha"] = max(node["alpha"], entry["low"])
            node["beta"] = min(node["beta"], entry["high"])
    node["floor"], node["ceiling"] = node["alpha"], node["beta"]
    node["value"] = -1 if node["maximizes"] else left + 1
    node["moves"] = _moves(node, state["num_actions"] > NUM_CARDS)
    return False


@kernel
def _store(node: Any, table: Any) -> None:
    """Remember what a search has found out."""
    if node["key"] == np.uint64(0):
        return
    entry = table[np.int64(node["key"] & np.uint64(len(table) - 1))]
    if entry["key"] != node["key"]:
        entry["key"] = node["key"]
        entry["low"], entry["high"] = 0, node["left"]
    if node["value"] > node["floor"]:
        entry["low"] = max(entry["low"], node["value"])
    if node["value"] < node["ceiling"]:
        entry["high"] = min(entry["high"], node["value"])
    entry["move"] = node["move"]


@kernel
def _improve(node: Any, value: Any, action: Any) -> None:
    """Let the value of a child count."""
    if node["maximizes"]:
        if value > node["value"]:
            node["value"], node["move"] = value, action
        node["alpha"] = max(node["alpha"], value)
    else:
        if value < node["value"]:
            node["value"], node["move"] = value, action
        node["beta"] = min(node["beta"], value)


@kernel
def _search(nodes: Any, actions: Any, state: Any, side: Any, table: Any, salt: Any) -> Any:
    """Value of nodes[0], exact if inside its window, else a bound on that side.

    nodes [_MAX_DEPTH] is the stack in place of recursion, actions [_MAX_DEPTH] the path.
    """
    if _open(nodes[0], state, table, salt):
        return np.int64(nodes[0]["value"])
    sides, depth = np.int64(state["sides"]), 0
    while True:
        node = nodes[depth]
        if node["moves"] == 0 or node["alpha"] >= node["beta"]:
            _store(node, table)
            if depth == 0:
                return np.int64(node["value"])
            depth -= 1
            _improve(nodes[depth], np.int64(node["value"]) + node["gain"], actions[depth])
            continue
        action = _next_move(node, sides, side)
        actions[depth] = action
        nodes[depth + 1] = node
        child = nodes[depth + 1]
        _take(child, state, action, side)
        child["alpha"] -= child["gain"]
        child["beta"] -= child["gain"]
        if _open(child, state, table, salt):
            _improve(node, np.int64(child["value"]) + child["gain"], action)
        else:
            depth += 1


@kernel
def _home_in(
    nodes: Any, actions: Any, root: Any, state: Any, side: Any, table: Any, salt: Any, guess: Any
) -> Any:
    """The exact value of `root`, by zero-width windows that close in on it (MTD(f))."""
    low, high = np.int64(0), np.int64(root["left"])
    while low < high:
        beta = max(guess, low + 1)
        nodes[0] = root
        nodes[0]["alpha"], nodes[0]["beta"] = beta - 1, beta
        guess = _search(nodes, actions, state, side, table, salt)
        if guess < beta:
            high = guess
        else:
            low = guess
    return low


@kernel
def _reaches(
    nodes: Any, actions: Any, child: Any, state: Any, side: Any, table: Any, salt: Any, value: Any
) -> Any:
    """True if the value of `child` and what the action before it won are at least `value`."""
    nodes[0] = child
    nodes[0]["alpha"] = value - 1 - child["gain"]
    nodes[0]["beta"] = value - child["gain"]
    found = _search(nodes, actions, state, side, table, salt)
    return found + child["gain"] >= value


@kernel
def _root_actions(root: Any) -> Any:
    """All legal cards and swaps of the root, as a set."""
    legal = root["hands"][root["current_player"]]
    for action in range(EXCHANGE_SEVEN, FIRST_SIGNAL):
        if swap_card_one(root, action) >= 0:
            legal |= bit(action)
    return legal


@kernel
def _solve(states: Any, nodes: Any, actions: Any, table: Any, values: Any, best: Any) -> None:
    root, child = nodes[_MAX_DEPTH], nodes[_MAX_DEPTH + 1]
    for i in range(len(states)):
        state = states[i]
        values[i], best[i] = 0, 0
        if state["current_player"] < 0:
            continue
        _set_root(state, root)
        side = np.int64(state["current_player"]) % np.int64(state["sides"])
        guess = np.int64(root["left"]) // 2
        value = _home_in(nodes, actions, root, state, side, table, i, guess)
        values[i] = value
        legal = _root_actions(root)
        while legal:
            action = lowest(legal)
            legal &= legal - 1
            nodes[_MAX_DEPTH + 1] = root
            _take(child, state, action, side)
            if _reaches(nodes, actions, child, state, side, table, i, value):
                best[i] |= bit(action)


@kernel
def _action_values(states: Any, nodes: Any, actions: Any, table: Any, values: Any) -> None:
    root, child = nodes[_MAX_DEPTH], nodes[_MAX_DEPTH + 1]
    for i in range(len(states)):
        state = states[i]
        values[i] = -1
        if state["current_player"] < 0:
            continue
        _set_root(state, root)
        side = np.int64(state["current_player"]) % np.int64(state["sides"])
        guess = np.int64(root["left"]) // 2
        legal = _root_actions(root)
        while legal:
            action = lowest(legal)
            legal &= legal - 1
            nodes[_MAX_DEPTH + 1] = root
            _take(child, state, action, side)
            gain = np.int64(child["gain"])
            rest = _home_in(nodes, actions, child, state, side, table, i, guess - gain)
            guess = gain + rest
            values[i, action] = guess


def _workspace(states: States) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[Any]]:
    """The search's stack, its path, and a transposition table to match the longest position."""
    if (states["observer"] >= 0).any():
        raise ValueError("solve needs full states: an info state (observer >= 0) hides cards")
    left = 0
    if len(states):
        tricks = int((states["num_tricks"] - states["trick"]).max())
        left = tricks * int(states["players"].max())
    bits = min(left + _TABLE_BITS, _MOST_TABLE_BITS)
    return (
        np.zeros(_MAX_DEPTH + 2, _NODE),
        np.zeros(_MAX_DEPTH, np.int64),
        np.zeros(1 << bits, _ENTRY),
    )


def solve(states: States) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """Exact values and best actions of full states [N].

    values, int16 [N]: the card points that the side to act still takes, of those not yet won
    (cards on the table included), if it and all others play their best; 0 where the game is over.
    The other side takes the rest, so a point more is a margin of two more. best, int64 [N]: the set
    of actions that reach the value, bit `action` (cards and swaps). With three players the value is
    that of the seat to act against the coalition of the other two: an assumption. A match counts
    as its current deal. ValueError if an info state is among them.
    """
    workspace = _workspace(states)
    values, best = np.zeros(len(states), np.int16), np.zeros(len(states), np.int64)
    _solve(states, *workspace, values, best)
    return values, best


def action_values(states: States) -> NDArray[np.int16]:
    """The value of `solve` after each action, int16 [N, 43]; -1 where an action is not legal.

    It includes what the action itself wins, so the best entry of a row is the value of `solve`.
    """
    values = np.zeros((len(states), FIRST_SIGNAL), np.int16)
    _action_values(states, *_workspace(states), values)
    return values


def mistakes(states: States, actions: NDArray[np.int64]) -> NDArray[np.int16]:
    """What each action [N] (a card or a swap) cost in the full state before it, int16 [N].

    Card points that the side to act gives away against best play by all; 0 for a best action.
    """
    values = action_values(states)
    costs: NDArray[np.int16] = values.max(axis=1) - values[np.arange(len(states)), actions]
    return costs
