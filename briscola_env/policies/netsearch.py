"""One-step search over sampled worlds: a network as prior, as model of the others, and as judge.

Every legal action is tried in the same worlds; the others answer by the network until the seat is
to act again, where the critic says what is still to come. With two players an empty stock is solved
instead. The prior decides between what the worlds cannot tell apart.
"""

import numpy as np
from numpy.typing import NDArray

from briscola_env.checkpoint import Checkpoint
from briscola_env.engine import step, trick_margins
from briscola_env.information import sample_worlds
from briscola_env.policies.base import act_where_free, show_turns
from briscola_env.policies.exact import can_solve_end, open_margins
from briscola_env.policies.network import NetworkPolicy, sample_actions
from briscola_env.rules import Rules
from briscola_env.state import States

PRIOR_POINTS = 1.0
"""Card points that one nat of the network's log-probability counts."""

_ROWS = 32  # decisions searched at once: their worlds stay in the cache


class NetworkSearch:
    """The network's policy, improved by looking one move ahead in `worlds` sampled worlds.

    The checkpoint must be for these rules, but for the length of the match (CheckpointError).
    """

    def __init__(self, checkpoint: Checkpoint, rules: Rules, worlds: int, name: str) -> None:
        self.name = name
        self.network = NetworkPolicy(checkpoint, rules, name)
        self.worlds = worlds
        exact = rules.players == 2 or checkpoint.exact_endgame
        self.solves = exact and can_solve_end(rules)

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        return act_where_free(self._search, info_states, legal, seeds, _ROWS)

    def _search(
        self, infos: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """The best action of each of a few decisions."""
        prior = np.log(np.maximum(self.network.probabilities(infos, legal), 1e-9))
        scores = np.where(legal, PRIOR_POINTS * prior, -np.inf)
        worlds, luck = sample_worlds(infos, seeds, self.worlds)
        rows, moves = np.nonzero(legal)
        seats = np.repeat(infos["observer"][rows].astype(np.int64), self.worlds)
        margins = self._look_ahead(
            worlds[rows].ravel(), np.repeat(moves, self.worlds), seats, luck[rows].ravel()
        )
        scores[rows, moves] += margins.reshape(len(rows), self.worlds).mean(axis=1)
        best: NDArray[np.int64] = scores.argmax(axis=1)
        return best

    def _look_ahead(
        self,
        states: States,
        moves: NDArray[np.int64],
        seats: NDArray[np.int64],
        luck: NDArray[np.uint64],
    ) -> NDArray[np.float64]:
        """Margins [K], in card points, that `seats` may expect from moves in full states."""
        each = np.arange(len(states))
        margins, open_game = np.zeros(len(states)), np.ones(len(states), np.bool_)
        acting, choices = each, moves
        while acting.size:
            before = states["trick"].copy()
            moved = states[acting]
            step(moved, choices)
            states[acting] = moved
            ended = np.flatnonzero(states["trick"] > before)
            if ended.size:
                margins[ended] += trick_margins(states[ended])[np.arange(len(ended)), seats[ended]]
            if self.solves:
                empty = states["trick"] >= states["draws"]
                known = ended[(empty & (states["current_player"] >= 0))[ended]]
                if known.size:
                    ahead = open_margins(states[known])
                    margins[known] += ahead[np.arange(len(known)), seats[known]]
                    open_game[known] = False
            open_game &= states["current_player"] >= 0
            acting = np.flatnonzero(open_game & (states["current_player"] != seats))
            choices = self._answers(states, acting, luck)
        rest = np.flatnonzero(open_game)
        margins[rest] += self.network.values(states[rest], seats[rest])
        return margins

    def _answers(
        self, states: States, rows: NDArray[np.int64], luck: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """What the others do: samples of the network's policy from what each of them knows."""
        infos = np.empty(len(rows), states.dtype)
        legal = np.empty((len(rows), int(states["num_actions"][0])), np.bool_)
        seats = np.empty(len(rows), np.int64)
        show_turns(states, rows, infos, legal, seats)
        logits, mask = self.network.logits(infos, legal)
        actions, log_probs = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
        # The place in the deal tells one answer's luck from the next.
        seeds = luck[rows] + infos["history_length"].astype(np.uint64)
        sample_actions(logits.numpy(), mask.numpy(), seeds, actions, log_probs)
        return self.network.encoder.to_table(infos, actions)
