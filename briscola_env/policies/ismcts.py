"""`ismcts:N`: single-observer information-set Monte Carlo tree search.

Cowling, Powley, Whitehouse, "Information set Monte Carlo tree search", IEEE Transactions on
Computational Intelligence and AI in Games 4(2), 2012. Every iteration samples a world and walks
down one tree whose edges are actions; only actions legal in that world are available, and UCB
counts how often each was. A node belongs to a sequence of public actions: what the observer will
draw is not told apart.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS
from briscola_env.engine import step_one
from briscola_env.jit import bit, kernel, lowest, popcount
from briscola_env.policies.endgame import is_open_one
from briscola_env.policies.expert import expert_move_one, expert_weights
from briscola_env.policies.search import (
    DEFAULT_OPTIONS,
    SEARCH_OPTIONS,
    legal_set_one,
    margin_one,
    opinion_one,
    play_out_one,
    sample_one,
    settled_one,
)
from briscola_env.rng import child_seed, random_below
from briscola_env.rules import FIRST_SIGNAL
from briscola_env.state import MAX_SIDES, States

# One edge of the tree with the node below it; place 0 is the root.
_TREE_NODE = np.dtype(
    [
        ("action", np.int64),  # that leads here
        ("parent", np.int64),
        ("child", np.int64),  # the newest child; 0 if there is none
        ("sibling", np.int64),  # the next older child of the same parent; 0 behind the last
        ("side", np.int64),  # of the seat that took the action
        ("visits", np.int64),
        ("available", np.int64),  # visits of the parent in whose worlds the action was legal
        (
            "opinion",
            np.float64,
        ),  # of a child of the root: the expert's worth, less that of the best
        ("total", np.float64),  # sum of margins of `side`, in card points
    ]
)


@kernel
def _best_child(tree: Any, node: Any, legal: Any, exploration: Any) -> Any:
    """The child among legal actions with the highest UCB, and the legal actions without a child."""
    best, chosen, child, untried = -1e18, 0, tree[node]["child"], legal
    while child > 0:
        edge = tree[child]
        action = bit(edge["action"])
        if legal & action != 0:
            untried &= ~action
            edge["available"] += 1
            visits = edge["visits"]
            bound = edge["total"] / visits + exploration * np.sqrt(
                np.log(edge["available"]) / visits
            )
            if bound > best:
                best, chosen = bound, child
        child = edge["sibling"]
    return chosen, untried


@kernel
def _grow(tree: Any, size: Any, node: Any, action: Any, side: Any) -> None:
    """A new child at place `size`."""
    edge = tree[size]
    edge["action"], edge["parent"], edge["side"] = action, node, side
    edge["sibling"] = tree[node]["child"]
    edge["child"], edge["visits"], edge["total"] = 0, 0, 0.0
    edge["available"] = 1
    tree[node]["child"] = size


@kernel
def _child_of(tree: Any, node: Any, action: Any) -> Any:
    """The child that an action leads to, 0 if there is none."""
    child = tree[node]["child"]
    while child > 0 and tree[child]["action"] != action:
        child = tree[child]["sibling"]
    return child


@kernel
def _choose(world: Any, tree: Any, node: Any, weights: Any, options: Any) -> Any:
    """An action at a node below the root: the expert's while the node is new, then by UCB.

    Actions without a child come first, in random order.
    """
    best, untried = _best_child(tree, node, legal_set_one(world), options["exploration"])
    if tree[node]["visits"] < options["trust"]:
        return expert_move_one(world, weights)
    if untried == 0:
        return tree[best]["action"]
    for _ in range(random_below(world, popcount(untried))):
        untried &= untried - 1
    return lowest(untried)


@kernel
def _iterate(
    world: Any,
    tree: Any,
    root: Any,
    size: Any,
    deals: Any,
    weights: Any,
    options: Any,
    scores: Any,
) -> Any:
    """One iteration in one world from the node `root` on: select, expand, play out, count.

    Returns the tree's new size.
    """
    node, grown = root, False
    sides = np.int64(world["sides"])
    while not grown and world["current_player"] >= 0 and world["deals"] == deals:
        if is_open_one(world):
            break
        action = _choose(world, tree, node, weights, options)
        child = _child_of(tree, node, action)
        if child == 0:
            _grow(tree, size, node, action, world["current_player"] % sides)
            child, grown = size, True
            size += 1
        node = child
        step_one(world, action)
    play_out_one(world, deals, weights, scores)
    while node > 0:
        tree[node]["visits"] += 1
        tree[node]["total"] += margin_one(scores, sides, tree[node]["side"])
        node = tree[node]["parent"]
    return size


@kernel
def _grow_root(tree: Any, info: Any, actions: Any, weights: Any, values: Any) -> None:
    """The root and a child for each of `actions` [A], in order, at the places 1..A."""
    opinion = np.zeros(len(actions))
    opinion_one(info, actions, weights, values, opinion)
    side = np.int64(info["current_player"]) % np.int64(info["sides"])
    tree[0]["child"] = 0
    for a in range(len(actions)):
        _grow(tree, a + 1, 0, actions[a], side)
        tree[a + 1]["opinion"] = opinion[a] - opinion.max()


@kernel
def _root_child(tree: Any, actions: Any, options: Any) -> Any:
    """The child of the root with the highest UCB; its children are at the places 1..actions."""
    level, visits = 0.0, 0
    for child in range(1, actions + 1):
        level += tree[child]["total"]
        visits += tree[child]["visits"]
    level /= max(visits, 1)
    best, chosen, prior = -1e18, 1, options["prior"]
    for child in range(1, actions + 1):
        edge = tree[child]
        seen = edge["visits"] + prior
        mean = (edge["total"] + prior * (level + edge["opinion"])) / seen
        bound = mean + options["exploration"] * np.sqrt(np.log(visits + 1.0) / seen)
        if bound > best:
            best, chosen = bound, child
    return chosen


@kernel
def _ismcts_one(
    info: Any,
    actions: Any,
    seed: Any,
    iterations: Any,
    weights: Any,
    options: Any,
    worlds: Any,
    tree: Any,
) -> Any:
    """The action with most visits.

    Visit k of every action of the root is in the same world k, so that luck is shared; worlds
    [iterations + 2] keeps them behind two records to work in.
    """
    values, scores = np.zeros(NUM_CARDS), np.zeros(MAX_SIDES, np.int16)
    _grow_root(tree, info, actions, weights, values)
    size, sampled, world = len(actions) + 1, 0, worlds[0]
    for _ in range(iterations):
        child = _root_child(tree, len(actions), options)
        visits = tree[child]["visits"]
        if visits == sampled:
            sample_one(info, child_seed(seed, visits), weights, options, worlds, values)
            worlds[2 + sampled] = worlds[0]
            sampled += 1
        worlds[0] = worlds[2 + visits]
        step_one(world, tree[child]["action"])
        size = _iterate(world, tree, child, size, info["deals"], weights, options, scores)
    return actions[np.argmax(tree["visits"][1 : len(actions) + 1])]


@kernel
def _ismcts(
    infos: Any,
    legal: Any,
    seeds: Any,
    iterations: Any,
    weights: Any,
    options: Any,
    tree: Any,
    out: Any,
) -> None:
    worlds = infos[:1].repeat(iterations + 2)
    for i in range(len(infos)):
        info = infos[i]
        out[i] = settled_one(info, legal[i])
        if out[i] < 0:
            actions = np.flatnonzero(legal[i, :FIRST_SIGNAL])
            row = weights[info["players"]]
            out[i] = _ismcts_one(info, actions, seeds[i], iterations, row, options[0], worlds, tree)


class IsmctsPolicy:
    """Information-set tree search; see the module.

    iterations: a move. options: SEARCH_OPTIONS in order.
    """

    def __init__(
        self, iterations: int, options: tuple[float, int, float, float, float] = DEFAULT_OPTIONS
    ) -> None:
        if iterations < 1:
            raise ValueError(f"ismcts:{iterations}: at least one iteration a move is needed")
        self.name = f"ismcts:{iterations}"
        self.iterations = iterations
        self.options = np.array([options], SEARCH_OPTIONS)
        self.weights = expert_weights()

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        actions = np.empty(len(legal), np.int64)
        tree = np.zeros(self.iterations + 1 + FIRST_SIGNAL, _TREE_NODE)
        _ismcts(
            info_states,
            legal,
            seeds,
            self.iterations,
            self.weights,
            self.options,
            tree,
            actions,
        )
        return actions
