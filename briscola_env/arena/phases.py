"""Where points are won: deals replayed and taken apart by trick, leading and following.

In the last tricks of two players nothing is hidden, so that every card can be held against exact
play (`policies.endgame`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.arena.play import CHUNK_GAMES, Deals, deal_episodes
from briscola_env.cards import NUM_CARDS, POINTS_OF, STRENGTH_OF, SUIT_OF, THREE
from briscola_env.engine import beats, step_one
from briscola_env.jit import bit, kernel, lowest
from briscola_env.policies.endgame import is_open_one, lead_points_one, set_points_one
from briscola_env.rules import Rules
from briscola_env.state import MAX_PLAYERS

COUNTS = (
    "tricks",  # tricks played
    "won",  # of these, won
    "points_won",  # card points in the tricks won
    "points_lost",  # card points in the tricks lost
    "trumps",  # trumps played
    "trumps_lost",  # of these, into tricks lost
    "trump_points",  # card points in tricks won by a trump
    "carichi_lost",  # aces and threes played into tricks lost
    "open_cards",  # cards played with everything known: the last tricks of two players
    "mistakes",  # of these, worse than exact play
    "mistake_points",  # card points that they cost against exact play from there on
)
_TRICKS, _WON, _POINTS_WON, _POINTS_LOST, _TRUMPS, _TRUMPS_LOST, _TRUMP_POINTS = range(7)
_CARICHI_LOST, _OPEN_CARDS, _MISTAKES, _MISTAKE_POINTS = range(7, 11)


@dataclass(frozen=True)
class Phases:
    """Means a game for one side of each of two policies.

    counts: float [2, tricks, 2, len(COUNTS)]: policy (0 and 1, as in `match_seating`), number of
    the trick, following (0) or leading (1), and what COUNTS says. A side leads when one of its
    seats does. With two sides the sum of points_won less that of points_lost is the margin; with
    three, what is lost is shared by two and counts half. sides: of the table.
    """

    counts: NDArray[np.float64]
    sides: int

    def of(self, policy: int, leading: int | None, name: str, trick: int | None = None) -> float:
        """One of the COUNTS; in sum over following and leading, or over the tricks, for None."""
        values = self.counts[policy, :, :, COUNTS.index(name)]
        values = values if trick is None else values[trick : trick + 1]
        return float(values.sum() if leading is None else values[:, leading].sum())

    def margin(self, policy: int, leading: int | None, trick: int | None = None) -> float:
        """Card points won less the mean of what the other sides got in the same tricks."""
        won, lost = (
            self.of(policy, leading, name, trick) for name in ("points_won", "points_lost")
        )
        return won - lost / (self.sides - 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, by policy, following or leading, and name: a list by trick."""
        return {
            who: {
                how: {
                    name: self.counts[policy, :, leading, k].round(6).tolist()
                    for k, name in enumerate(COUNTS)
                }
                for leading, how in enumerate(("following", "leading"))
            }
            for policy, who in enumerate(("policy", "opponent"))
        }


@kernel
def _rest(firsts: Any, seconds: Any, trump: Any) -> Any:
    """Card points that the leader takes of the tricks that are left, by exact play."""
    if firsts == 0:
        return 0
    return lead_points_one(firsts, seconds, trump, set_points_one(firsts | seconds))


@kernel
def _after_trick(led: Any, reply: Any, leads: Any, follows: Any, trump: Any) -> Any:
    """Card points of the leader from a trick and what follows; hands: without these two cards."""
    if beats(reply, led, trump):
        return set_points_one(leads | follows) - _rest(follows, leads, trump)
    return POINTS_OF[led] + POINTS_OF[reply] + _rest(leads, follows, trump)


@kernel
def _open_points(state: Any, card: Any) -> Any:
    """Card points that the seat to act still takes if it plays `card` and all goes on exactly."""
    seat, trump = np.int64(state["current_player"]), state["trump"]
    mine = state["hands"][seat] & ~bit(card)
    theirs = state["hands"][1 - seat]
    if state["table_count"] > 0:
        led = np.int64(state["table"][0])
        points = np.int64(POINTS_OF[led]) + POINTS_OF[card] + set_points_one(mine | theirs)
        return points - _after_trick(led, card, theirs, mine, trump)
    worst, replies = 1000, theirs
    while replies:
        reply = lowest(replies)
        replies &= replies - 1
        worst = min(worst, _after_trick(card, reply, mine, theirs & ~bit(reply), trump))
    return worst


@kernel
def _judge(state: Any, action: Any, counts: Any) -> None:
    """Hold a card of the open end game against the best one; counts: [len(COUNTS)]."""
    best, cards = -1, state["hands"][state["current_player"]]
    while cards:
        best = max(best, _open_points(state, lowest(cards)))
        cards &= cards - 1
    cost = best - _open_points(state, action)
    counts[_OPEN_CARDS] += 1
    counts[_MISTAKES] += 1 if cost > 0 else 0
    counts[_MISTAKE_POINTS] += cost


@kernel
def _count_trick(state: Any, leader: Any, cards: Any, own: Any, counts: Any) -> None:
    """Book a trick that has just ended; cards: in the order played. counts: [2, 2, len(COUNTS)]."""
    players, sides = np.int64(state["players"]), np.int64(state["sides"])
    winner, points = np.int64(state["last_winner"]), np.int64(state["last_points"])
    best = cards[(winner - leader + players) % players]
    for side in range(sides):
        role, leading = 0 if side == own else 1, 1 if leader % sides == side else 0
        row = counts[role, leading]
        row[_TRICKS] += 1
        if winner % sides == side:
            row[_WON] += 1
            row[_POINTS_WON] += points
            row[_TRUMP_POINTS] += points if SUIT_OF[best] == state["trump"] else 0
        else:
            row[_POINTS_LOST] += points
    for place in range(players):
        card, side = cards[place], (leader + place) % players % sides
        lost = winner % sides != side
        role, leading = 0 if side == own else 1, 1 if leader % sides == side else 0
        row = counts[role, leading]
        if SUIT_OF[card] == state["trump"]:
            row[_TRUMPS] += 1
            row[_TRUMPS_LOST] += lost
        if STRENGTH_OF[card] >= THREE:
            row[_CARICHI_LOST] += lost


@kernel
def _count(states: Any, histories: Any, owns: Any, counts: Any) -> None:
    """Replay games, states [N] before the first action; counts: int64 [2, tricks, 2, COUNTS].

    owns: the side of policy 0 in each game.
    """
    cards = np.empty(MAX_PLAYERS, np.int64)
    for i in range(len(states)):
        state = states[i]
        for k in range(histories.shape[1]):
            action = np.int64(histories[i, k])
            if action >= NUM_CARDS:
                step_one(state, action)
            elif action >= 0:
                trick, leader = np.int64(state["trick"]), np.int64(state["leader"])
                cards[state["table_count"]] = action
                if is_open_one(state):
                    role = 0 if state["current_player"] == owns[i] else 1
                    leading = 1 if state["table_count"] == 0 else 0
                    _judge(state, action, counts[role, trick, leading])
                step_one(state, action)
                if state["table_count"] == 0:
                    _count_trick(state, leader, cards, owns[i], counts[:, trick])


def by_phase(deals: Deals, rules: Rules) -> Phases:
    """Take apart deals that were played with `history` in the seating of `match_seating`."""
    if deals.history is None:
        raise ValueError("by_phase: the deals were played without their history")
    counts = np.zeros((2, rules.num_tricks, 2, len(COUNTS)), np.int64)
    for side, histories in enumerate(deals.history):
        for first in range(0, deals.decks, CHUNK_GAMES):
            part = slice(first, first + CHUNK_GAMES)
            states = deal_episodes(rules, deals.seeds[part])
            _count(states, histories[part], np.full(len(states), side), counts)
    games = deals.decks * rules.sides * np.array([1, rules.sides - 1])  # of one side each
    return Phases(counts / games[:, None, None, None], rules.sides)
