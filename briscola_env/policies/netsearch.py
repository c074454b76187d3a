"""One-step search over sampled worlds, with a policy as the model of everybody else.

Worlds that agree with what is known are sampled, and count by how well they explain what the others
have played, if they play as the model does. Every action is tried in the same worlds; the others
answer as the model until the seat is to act again, where a network's critic says what is still to
come. The network's own opinion decides between what the worlds cannot tell apart.
"""

import numpy as np
from numpy.typing import NDArray

from briscola_env.checkpoint import Checkpoint
from briscola_env.engine import step
from briscola_env.information import sample_worlds
from briscola_env.policies.base import Policy, act_where_free, show_turns
from briscola_env.policies.beliefs import turn_back
from briscola_env.policies.exact import can_solve_end, open_margins
from briscola_env.policies.network import NetworkPolicy
from briscola_env.rules import Rules
from briscola_env.state import States

PRIOR_POINTS = 1.0
"""Card points that one nat of the network's log-probability counts."""

LEAST_PROBABILITY = 0.01
"""What the network thinks less likely than that is not tried: it would have to win 5 points more
than its choice."""

PLAYS = 6
"""How many of the other sides' latest cards a world has to explain."""

ERROR = 0.03
"""Odds of a card that the model would not have played, to 1 for the one that it would."""

_LEAST_ODDS = 1e-3  # of the likeliest world's: a world with less is not searched
_STATES = 4096  # worlds sampled at once: they stay in the cache


class ModelSearch:
    """The best action on average over `worlds` sampled worlds, the others playing as `model`.

    network: prior and judge; None plays every deal to its end, by the model in all seats. solves:
    whether what comes after the last draw is solved with open hands instead (`open_margins`).
    """

    def __init__(
        self, name: str, model: Policy, network: NetworkPolicy | None, worlds: int, solves: bool
    ) -> None:
        self.name = name
        self.model = model
        self.network = network
        self.worlds = worlds
        self.solves = solves

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        tried = legal
        if self.network:
            tried = self.network.probabilities(info_states, legal) >= LEAST_PROBABILITY
        rows = max(_STATES // self.worlds, 1)
        return act_where_free(self._search, info_states, tried, seeds, rows)

    def _search(
        self, infos: States, tried: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """The best of the actions that are tried, of each of a few decisions."""
        worlds, luck = sample_worlds(infos, seeds, self.worlds)
        odds = self._odds(infos, worlds, luck)
        likely = odds >= _LEAST_ODDS * odds.max(axis=1, keepdims=True)
        weights = np.where(likely, odds, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        rows, moves, places = np.nonzero(tried[:, :, None] & likely[:, None])
        seats = infos["observer"][rows].astype(np.int64)
        margins = self._play_out(worlds[rows, places], moves, seats, luck[rows, places])
        scores = np.where(tried, self._prior(infos, tried, seeds), -np.inf)
        np.add.at(scores, (rows, moves), weights[rows, places] * margins)
        best: NDArray[np.int64] = scores.argmax(axis=1)
        return best

    def _prior(
        self, infos: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.float64]:
        """Card points [N, num_actions] for what the network thinks, or what the model would do."""
        opinion: NDArray[np.floating]
        if self.network:
            opinion = np.log(np.maximum(self.network.probabilities(infos, legal), 1e-9))
        else:
            opinion = np.equal.outer(self.model.act(infos, legal, seeds), range(legal.shape[1]))
        return PRIOR_POINTS * opinion.astype(np.float64)

    def _odds(self, infos: States, worlds: States, luck: NDArray[np.uint64]) -> NDArray[np.float64]:
        """How well full states [N, W] explain what the other sides have played: [N, W], 0..1."""
        pasts = worlds.ravel().copy()
        pasts["observer"] = np.repeat(infos["observer"], self.worlds)
        odds, rows = np.ones(len(pasts)), np.arange(len(pasts))
        for _ in range(PLAYS):
            played = np.empty(len(rows), np.int64)
            turn_back(pasts, rows, played)
            rows, played = rows[played >= 0], played[played >= 0]
            odds[rows[self._ask(pasts, rows, luck.ravel()) != played]] *= ERROR
        return odds.reshape(worlds.shape)

    def _play_out(
        self,
        states: States,
        moves: NDArray[np.int64],
        seats: NDArray[np.int64],
        luck: NDArray[np.uint64],
    ) -> NDArray[np.float64]:
        """Margins [K], in card points, that `seats` may expect of the deal after moves; `states`
        are played on.
        """
        each, sides = np.arange(len(states)), int(states["sides"][0])
        margins, acting, choices = np.zeros(len(states)), each, moves
        while acting.size:
            moved = states[acting]
            step(moved, choices)
            states[acting] = moved
            over = moved["current_player"] < 0
            if self.solves:
                open_hands = (moved["trick"] == moved["draws"]) & (moved["table_count"] == 0)
                rows = acting[open_hands & ~over]
                if rows.size:
                    ahead = open_margins(states[rows])
                    margins[rows] = ahead[np.arange(len(rows)), seats[rows]]
                over |= open_hands
            if self.network:
                judged = ~over & (moved["current_player"] == seats[acting])
                rows = acting[judged]
                margins[rows] = self.network.values(states[rows], seats[rows])
                over |= judged
            acting = acting[~over]
            choices = self._ask(states, acting, luck)
        points = states["scores"][:, :sides].astype(np.float64)
        own = points[each, seats % sides]
        margins += own - (points.sum(axis=1) - own) / (sides - 1)
        return margins

    def _ask(
        self, states: States, rows: NDArray[np.int64], luck: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """What the model does in the games `rows` of full states, from what the seats know."""
        if not rows.size:
            return np.empty(0, np.int64)
        infos, seats = np.empty(len(rows), states.dtype), np.empty(len(rows), np.int64)
        legal = np.empty((len(rows), int(states["num_actions"][0])), np.bool_)
        show_turns(states, rows, infos, legal, seats)
        # The place in the deal tells one choice's luck from the next.
        return self.model.act(infos, legal, luck[rows] + infos["history_length"].astype(np.uint64))


def network_search(checkpoint: Checkpoint, rules: Rules, worlds: int, name: str) -> ModelSearch:
    """A checkpoint's network, improved by looking one move ahead, and itself the model of others.

    The checkpoint must be for these rules, but for the length of the match (CheckpointError).
    """
    network = NetworkPolicy(checkpoint, rules, name)
    solves = (rules.players == 2 or checkpoint.exact_endgame) and can_solve_end(rules)
    return ModelSearch(name, network, network, worlds, solves)
