"""Study decks: the whole tree of a small deck of two players, and exact exploitability in it.

A deck of six or eight cards can be played in all ways there are. The tree is compact: hands are
unordered, one chance node deals hands, face-up card and stock, and a card that must be played is no
decision. An information set is all that a seat has seen, in order (perfect recall). Seat 0 leads
the first trick.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, permutations
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import format_cards
from briscola_env.dealing import deal
from briscola_env.engine import legal_actions, step
from briscola_env.information import info_state
from briscola_env.policies.base import Policy
from briscola_env.policies.endgame import exact_cards
from briscola_env.policies.exact import ExactEndgame
from briscola_env.rng import child_seeds
from briscola_env.rules import STUDY_DECKS, InvalidRulesError, Rules
from briscola_env.state import GAME_STATE, States, new_states

MOST_DEALS = 1_000_000
"""The most ways to deal and play a deck that are walked; each takes about a kilobyte."""

_DEALER, _LEADER = 1, 0
_ROWS = 8192  # information sets that a policy is asked about at once


@dataclass(frozen=True)
class Level:
    """All positions after the same number of actions; children stand together, in order.

    The children of position i are the positions first[i] .. first[i + 1] - 1 of the next level, one
    for each legal action, ascending; where there are none, the deal is over.
    """

    seat: NDArray[np.int8]  # [N] to act; -1 when the deal is over
    infoset: NDArray[np.int64]  # [N]; -1 where there is no choice
    first: NDArray[np.int64]  # [N + 1]
    margin: NDArray[np.int16]  # [N] card points of the leader less the other's, so far
    action: NDArray[np.int8]  # [N] the one that led here; -1 in the first level
    choice: NDArray[np.int64]  # [N] its number among all choices; -1 if there was none

    @property
    def parents(self) -> NDArray[np.int64]:
        """Of each position of the next level, its parent in this one."""
        return np.repeat(np.arange(len(self.seat)), np.diff(self.first))


@dataclass(frozen=True)
class GameTree:
    """Every way to deal and play a study deck.

    Information sets are numbered level by level, so that those of a level stand together; so are
    choices, the legal actions of an information set in ascending order.
    """

    rules: Rules
    levels: tuple[Level, ...]
    worlds: NDArray[np.int64]  # [W, cards] decks as they are dealt, equally likely; the first level
    info_states: States  # [I] what the seat to act knows
    legal: NDArray[np.bool_]  # [I, num_actions]

    @cached_property
    def first_choice(self) -> NDArray[np.int64]:
        """Number of the first choice of each information set, and of all choices: [I + 1]."""
        return np.append(0, self.legal.sum(axis=1).cumsum())

    @property
    def num_deals(self) -> int:
        """Ways to deal and play: leaves of the tree."""
        return sum(int((level.seat < 0).sum()) for level in self.levels)


def build_tree(rules: Rules) -> GameTree:
    """The tree of one deal; InvalidRulesError, with the reason, if the deck is too large for that.

    Six cards take milliseconds; eight, with hands of three, some seconds and half a gigabyte.
    """
    rules = rules.single_deal()
    _require_small(rules)
    worlds = np.array(list(_worlds(rules)))
    states = new_states(rules, len(worlds))
    deal(states, np.zeros(len(worlds), np.uint64), np.full(len(worlds), _DEALER), worlds)
    views = [
        _numbered(states["hands"][:, seat] * 64 + states["initial_face_up"]) for seat in range(2)
    ]
    action = choice = np.full(len(worlds), -1)
    levels, infos, masks, sets, choices = [], [], [], 0, 0
    while len(states):
        legal = np.empty((len(states), rules.num_actions), np.bool_)
        legal_actions(states, legal)
        counts = legal.sum(axis=1)
        seats = states["current_player"].astype(np.int64)
        infoset = np.full(len(states), -1)
        deciding = np.flatnonzero(counts > 1)
        if len(deciding):
            seen = np.choose(seats[deciding], [view[deciding] for view in views])
            _, one, infoset[deciding] = np.unique(
                2 * seen + seats[deciding], return_index=True, return_inverse=True
            )
            infos.append(np.empty(len(one), GAME_STATE))
            info_state(states[deciding[one]], seats[deciding[one]], infos[-1])
            masks.append(legal[deciding[one]])
        first = np.append(0, counts.cumsum())
        margin = states["scores"][:, 0] - states["scores"][:, 1]
        level = Level(
            seats.astype(np.int8),
            np.where(infoset < 0, -1, infoset + sets),
            first,
            margin,
            action.astype(np.int8),
            choice,
        )
        levels.append(level)
        rows, action = np.nonzero(legal)
        choice = np.full(len(rows), -1)
        if len(deciding):
            starts = choices + np.append(0, masks[-1].sum(axis=1).cumsum())
            chosen = infoset[rows] >= 0
            places = np.arange(len(rows)) - first[rows]
            choice[chosen] = starts[infoset[rows[chosen]]] + places[chosen]
            sets, choices = sets + len(masks[-1]), int(starts[-1])
        states = states[rows]
        hands = states["hands"].copy()
        step(states, action)
        for seat in range(2):
            # 0 = nothing, else one more than the card: at most one card comes into a hand.
            drawn = np.frexp(states["hands"][:, seat] & ~hands[:, seat])[1].astype(np.int64)
            views[seat] = _numbered((views[seat][rows] * 64 + action) * 64 + drawn)
    return GameTree(rules, tuple(levels), worlds, np.concatenate(infos), np.concatenate(masks))


def _numbered(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Equal keys, equal numbers from 0 on."""
    numbers: NDArray[np.int64] = np.unique(keys, return_inverse=True)[1]
    return numbers


def _require_small(rules: Rules) -> None:
    """InvalidRulesError unless the tree of these rules can be walked."""
    if rules.players != 2 or rules.rebury != "off":
        raise InvalidRulesError(
            f"players={rules.players}, rebury={rules.rebury!r}: exact exploitability is for "
            "two players with rebury='off'"
        )
    size, hand = len(rules.deck), rules.hand_size
    deals = factorial(size) // factorial(hand) ** 2  # orders of the deck, hands unordered
    deals *= hand ** (2 * (rules.num_tricks - hand)) * factorial(hand) ** 2
    if hand == 1:
        raise InvalidRulesError("hand_size=1: there is nothing to choose")
    if deals > MOST_DEALS:
        raise InvalidRulesError(
            f"exact exploitability walks every deal: {size} cards with hand_size={hand} can be "
            f"dealt and played in 10^{len(str(deals)) - 1} ways, at most {MOST_DEALS:,} are "
            f"walked; take a study deck ({', '.join(STUDY_DECKS)}), or measure a lower bound "
            "with --minutes"
        )


def _worlds(rules: Rules) -> Iterator[list[int]]:
    """Every deck, as it is dealt, but for the order within the hands."""
    for leaders in combinations(rules.deck, rules.hand_size):
        rest = [card for card in rules.deck if card not in leaders]
        for others in combinations(rest, rules.hand_size):
            hands = [card for pair in zip(leaders, others, strict=True) for card in pair]
            for stock in permutations(card for card in rest if card not in others):
                yield [*hands, *stock]


# ----------------------------------------------------------------------------- a policy in the tree


def policy_probabilities(tree: GameTree, policy: Policy, seed: int = 0) -> NDArray[np.float64]:
    """How likely a policy is to take each choice of the tree: [choices].

    A policy with a method `probabilities(info_states, legal)`, as networks and `random` have it, is
    taken at its word, and an exact end game is played exactly. Any other policy is asked as by
    `policy_actions`. ValueError if its probabilities are none.
    """
    return _in_parts(tree, policy, seed, _probabilities)


def policy_actions(tree: GameTree, policy: Policy, seed: int = 0) -> NDArray[np.float64]:
    """1 for the choice that `policy.act` takes in each information set, else 0: [choices].

    If it draws lots, they are drawn once for each information set, from `seed`.
    """
    return _in_parts(tree, policy, seed, _actions)


def has_probabilities(policy: Any) -> bool:
    """True if a policy, its exact end game aside, says how likely it is to take each action."""
    return hasattr(policy.policy if isinstance(policy, ExactEndgame) else policy, "probabilities")


def _in_parts(tree: GameTree, policy: Policy, seed: int, ask: Any) -> NDArray[np.float64]:
    seeds = np.empty(len(tree.legal), np.uint64)
    child_seeds(np.uint64(seed), 0, seeds)
    parts = []
    for start in range(0, len(seeds), _ROWS):
        part = slice(start, start + _ROWS)
        legal = tree.legal[part]
        table = ask(policy, tree.info_states[part], legal, seeds[part])
        totals = np.where(legal, table, 0).sum(axis=1, keepdims=True)
        if table.shape != legal.shape or (table < 0).any() or not np.allclose(totals, 1, atol=1e-4):
            raise ValueError(
                f"policy {policy.name!r}: what it answers are not probabilities of legal actions"
            )
        parts.append((table / totals)[legal])
    return np.concatenate(parts)


def _probabilities(
    policy: Any, infos: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
) -> NDArray[np.float64]:
    if isinstance(policy, ExactEndgame):
        cards = exact_cards(infos)
        table = _one_hot(cards, legal.shape)
        rest = cards < 0
        if rest.any():
            table[rest] = _probabilities(policy.policy, infos[rest], legal[rest], seeds[rest])
        return table
    if has_probabilities(policy):
        return np.asarray(policy.probabilities(infos, legal), np.float64)
    return _actions(policy, infos, legal, seeds)


def _actions(
    policy: Policy, infos: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
) -> NDArray[np.float64]:
    return _one_hot(policy.act(infos, legal, seeds), legal.shape)


def _one_hot(actions: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    table = np.zeros(shape)
    chosen = np.flatnonzero(actions >= 0)
    table[chosen, actions[chosen]] = 1
    return table


# ----------------------------------------------------------------------------------- best responses


@dataclass(frozen=True)
class Exploitability:
    """What can be won against a policy that plays both seats, in card points a deal.

    value: margin of the leader of the first trick when the policy plays itself. best_responses:
    margins of the best response in the leader's seat and in the other one.
    """

    value: float
    best_responses: tuple[float, float]

    @property
    def exploitability(self) -> float:
        """Mean margin of a best response over both seats; 0 in an equilibrium.

        OpenSpiel's `exploitability` is the same number, its `nash_conv` twice that.
        """
        return sum(self.best_responses) / 2


def exploitability(tree: GameTree, probabilities: NDArray[np.float64]) -> Exploitability:
    """How much a best response wins against a policy, given as `policy_probabilities` does."""
    leader, other = (_best_response(tree, probabilities, seat) for seat in range(2))
    return Exploitability(_self_play(tree, probabilities), (leader, other))


def _reaches(
    tree: GameTree, probabilities: NDArray[np.float64], but: int
) -> Iterator[NDArray[np.float64]]:
    """By level: how likely each position is if the seat `but` (-1: nobody) plays towards it."""
    reach = np.full(len(tree.worlds), 1 / len(tree.worlds))
    yield reach
    for level, below in pairwise(tree.levels):
        drawn = (below.choice >= 0) & (level.seat[level.parents] != but)
        reach = reach[level.parents]
        reach[drawn] *= probabilities[below.choice[drawn]]
        yield reach


def _self_play(tree: GameTree, probabilities: NDArray[np.float64]) -> float:
    """The leader's expected margin when the policy plays both seats."""
    reaches = _reaches(tree, probabilities, but=-1)
    return sum(
        float((reach * level.margin)[level.seat < 0].sum())
        for reach, level in zip(reaches, tree.levels, strict=True)
    )


def _best_response(tree: GameTree, probabilities: NDArray[np.float64], seat: int) -> float:
    """The expected margin of a best response in this seat.

    From the last level to the first: a position is worth what follows it, weighed by how likely
    the other seat and the deal make it; of an information set the choice worth most is taken.
    """
    sign = 1 if seat == _LEADER else -1
    reaches = list(_reaches(tree, probabilities, but=seat))
    worth = np.empty(0)
    for depth in reversed(range(len(tree.levels))):
        level, parents = tree.levels[depth], tree.levels[depth].parents
        kept = np.ones(len(parents), np.bool_)
        own = np.flatnonzero(level.seat[parents] == seat)
        if len(own):
            choices = tree.levels[depth + 1].choice[own]
            chosen = choices >= 0
            kept[own[chosen]] = _best_choices(tree, choices[chosen], worth[own[chosen]])
        following = np.bincount(parents[kept], worth[kept], len(level.seat))
        worth = np.where(level.seat < 0, sign * reaches[depth] * level.margin, following)
    return float(worth.sum())


def _best_choices(
    tree: GameTree, choices: NDArray[np.int64], worths: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """Which of the children are led to by the best choice of their information set."""
    totals = np.bincount(choices, worths, tree.first_choice[-1])
    starts = tree.first_choice[:-1]
    best = np.maximum.reduceat(totals, starts)
    is_best = np.flatnonzero(totals == np.repeat(best, np.diff(tree.first_choice)))
    chosen = is_best[np.searchsorted(is_best, starts)]  # the first of equals
    picked = np.zeros(len(totals), np.bool_)
    picked[chosen] = True
    return picked[choices]


# ----------------------------------------------------------------------------------------- EFG file


def infoset_numbers(tree: GameTree) -> NDArray[np.int64]:
    """Number of each information set among those of its seat, from 1 on, as in the EFG file."""
    numbers = np.empty(len(tree.legal), np.int64)
    for seat in range(2):
        own = tree.info_states["observer"] == seat
        numbers[own] = np.arange(1, own.sum() + 1)
    return numbers


def to_efg(tree: GameTree) -> str:
    """The tree in Gambit's extensive-form format, for OpenSpiel's C++ solvers and for Gambit.

    Choices are labelled by their place in the information set, 0, 1, ...; a node's name is the card
    or swap that led to it. Payoffs are margins in card points.
    """
    worlds = [format_cards(world) for world in tree.worlds]
    chance = " ".join(f'"{world}" 1/{len(worlds)}' for world in worlds)
    lines = ['EFG 2 R "Briscola" { "leader" "other" }', f'c "" 1 "" {{ {chance} }} 0']
    numbers, counts = infoset_numbers(tree).tolist(), np.diff(tree.first_choice).tolist()
    labels = [" ".join(f'"{k}"' for k in range(count)) for count in range(max(counts) + 1)]
    fields = ("seat", "infoset", "first", "margin", "action")
    levels = [[getattr(level, name).tolist() for name in fields] for level in tree.levels]
    waiting = [(0, row) for row in reversed(range(len(worlds)))]
    outcome = 0
    while waiting:
        depth, row = waiting.pop()
        seat, infoset, first, margin, action = levels[depth]
        name = worlds[row] if depth == 0 else tree.rules.action_name(action[row])
        if seat[row] < 0:
            outcome += 1
            lines.append(f't "{name}" {outcome} "" {{ {margin[row]} {-margin[row]} }}')
            continue
        waiting += [(depth + 1, child) for child in reversed(range(*first[row : row + 2]))]
        if infoset[row] >= 0:
            number, count = numbers[infoset[row]], counts[infoset[row]]
            lines.append(f'p "{name}" {seat[row] + 1} {number} "" {{ {labels[count]} }} 0')
    return "\n".join(lines) + "\n"
