"""The Gymnasium environment: one learner at the table, policies on the other seats.

It steps the same `Table` as the PettingZoo environment: the same seed deals the same cards.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from briscola_env.engine import legal_actions
from briscola_env.envs.render import RENDER_MODES, check_render_mode, render_text
from briscola_env.envs.table import Observation, Table, whole_action
from briscola_env.policies import Policy, make_policy
from briscola_env.policies.base import cheats
from briscola_env.rng import SEAT_STREAM, child_seed, decision_seeds, number_below
from briscola_env.rules import IllegalActionError, Rules

ILLEGAL_ACTIONS = ("raise", "terminate")
ILLEGAL_REWARD = -1.0

Player = str | Policy
"""Who plays a seat: the name of a policy, or a policy."""


class BriscolaEnv(gymnasium.Env[Observation, Any]):
    """Briscola for a single learner; what it observes is what `BriscolaAECEnv` shows its seat.

    opponent: who plays against the learner: a policy, the name of one, or a list of them for the
    opponents in turn order from the learner. partner: the same for its partners (4 and 6 players;
    default `random`). seat: the learner's, or `random`: drawn for each episode.
    illegal_action: `raise` an IllegalActionError with nothing changed, or `terminate` the episode
    with reward -1.
    reward, show_points, frame, recent_tricks, observation, render_mode, rules: as in
    `BriscolaAECEnv`; the picture shows what the learner sees.

    The reward of a step is all that the learner's side earns until the learner is to act again.
    ValueError (InvalidRulesError for rules) names a keyword or value that is not allowed.
    """

    metadata = {"render_modes": list(RENDER_MODES), "render_fps": 2}

    def __init__(
        self,
        *,
        opponent: Player | Sequence[Player] = "random",
        partner: Player | Sequence[Player] | None = None,
        seat: int | str = 0,
        illegal_action: str = "raise",
        reward: str = "points",
        show_points: str = "hidden",
        frame: str = "table",
        recent_tricks: int = 0,
        observation: str = "planes",
        render_mode: str | None = None,
        **rules: Any,
    ) -> None:
        check_render_mode(render_mode)
        self.render_mode = render_mode
        self._table = Table(reward, show_points, frame, recent_tricks, observation, **rules)
        self.rules = self._table.rules
        self.features = self._table.encoder.features
        check_learner(self.rules, seat, illegal_action)
        self.observation_space = self._table.observation_space()
        self.action_space = self._table.action_space()
        self.seat = -1
        """The learner's seat in this episode; -1 before the first reset."""
        self._chosen_seat = seat
        self._terminates = illegal_action == "terminate"
        self._show_points = show_points
        self._policies = seat_policies(self.rules, opponent, partner)
        self._done = True

    # --------------------------------------------------------------------------------------- play

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Deal a new episode and play on to the learner's first turn; seeds, options: as the AEC's.

        info: `seat`, the learner's, and `action_mask`.
        """
        super().reset(seed=seed)
        self._table.reset(seed, options)
        if isinstance(self._chosen_seat, int):
            self.seat = self._chosen_seat
        else:
            seat_seed = child_seed(np.uint64(self._table.episode_seed), SEAT_STREAM)
            self.seat = int(number_below(np.uint64(seat_seed), self.rules.players))
        self._done = False
        self._play_others()
        return self._show()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take the learner's action and play on to its next turn, or to the end of the episode.

        info: `seat` and `action_mask`; at the end also `winner` (a side, -1 if drawn), `points`
        (of each side in the last deal), in a match `wins`; after an illegal action that terminated,
        `illegal_action` instead. The sides are numbered seat % number of sides.
        """
        # A policy that raised has left the game at another seat's turn.
        if self._done or self._table.current_player != self.seat:
            raise gymnasium.error.ResetNeeded("the episode is over, or none has begun: reset()")
        index = whole_action(action)
        try:
            shares = self._table.step(index)
        except IllegalActionError:
            if not self._terminates:
                raise
            self._done = True
            observation, info = self._show()
            return observation, ILLEGAL_REWARD, True, False, {**info, "illegal_action": index}
        reward = self._own(shares) + self._play_others()
        self._done = self._table.current_player < 0
        truncated = self._table.truncated
        observation, info = self._show()
        return observation, reward, self._done and not truncated, truncated, info

    def _own(self, shares: list[float] | None) -> float:
        """The learner's part of the rewards by side."""
        return 0.0 if shares is None else shares[self.seat % len(shares)]

    def _play_others(self) -> float:
        """Let the policies act until the learner's turn; what its side earned meanwhile."""
        table, reward = self._table, 0.0
        while table.current_player not in (self.seat, -1):
            relative = (table.current_player - self.seat) % self.rules.players
            policy = self._policies[relative - 1]
            try:
                reward += self._own(table.step(self._ask(policy)))
            except IllegalActionError as error:
                raise IllegalActionError(f"policy {policy.name!r}: {error}") from None
        return reward

    def _ask(self, policy: Policy) -> int:
        """The action that a policy chooses for the seat to act, from what that seat knows."""
        table = self._table
        legal = np.empty((1, self.rules.num_actions), np.bool_)
        legal_actions(table.states, legal)
        seeds = np.array([table.episode_seed], np.uint64)
        decision_seeds(seeds, np.array([table.current_player]), np.array([table.decisions]), seeds)
        actions = policy.act(table.info_states(table.current_player), legal, seeds)
        return table.to_frame(whole_action(actions[0]))

    # --------------------------------------------------------------------------------------- show

    def _show(self) -> tuple[Observation, dict[str, Any]]:
        """Observation and info of the learner."""
        observation = self._table.observe(self.seat)
        info: dict[str, Any] = {
            "seat": self.seat,
            "action_mask": observation["action_mask"].copy(),
        }
        if self._table.current_player < 0:
            info.update(self._table.result())
            # Gymnasium's vector environments put numbers into arrays, where None has no place.
            info["winner"] = -1 if info["winner"] is None else info["winner"]
        if self.render_mode == "human":
            self.render()
        return observation, info

    def action_masks(self) -> NDArray[np.bool_]:
        """The learner's legal actions, bool [num_actions], as sb3-contrib's MaskablePPO asks."""
        mask: NDArray[np.bool_] = self._table.mask.astype(np.bool_)
        return mask

    def render(self) -> str | None:
        """What the learner sees as text: returned in mode `ansi`, printed in mode `human`."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() does nothing without a render_mode: choose 'ansi' or 'human' when the "
                "environment is made"
            )
            return None
        if self.seat < 0:
            raise gymnasium.error.ResetNeeded("nothing is dealt yet: reset() comes first")
        text = render_text(self._table.info_states(self.seat)[0], self._show_points)
        if self.render_mode == "ansi":
            return text
        print(text, end="\n\n")
        return None


def check_learner(rules: Rules, seat: int | str, illegal_action: str) -> None:
    """ValueError for a seat or a way with illegal actions that does not exist."""
    if illegal_action not in ILLEGAL_ACTIONS:
        allowed = ", ".join(map(repr, ILLEGAL_ACTIONS))
        raise ValueError(f"illegal_action={illegal_action!r}: allowed are {allowed}")
    if seat != "random" and (type(seat) is not int or seat not in range(rules.players)):
        seats = f"a seat of 0..{rules.players - 1}"
        raise ValueError(f"seat={seat!r}: {seats}, or 'random', is allowed")


def seat_policies(
    rules: Rules,
    opponent: Player | Sequence[Player],
    partner: Player | Sequence[Player] | None,
) -> list[Policy]:
    """The policies of the seats 1 .. players - 1 places after the learner's; names are resolved.

    ValueError for too many or too few, or for what is no policy.
    """
    partners = [seat for seat in range(1, rules.players) if seat % rules.sides == 0]
    opponents = [seat for seat in range(1, rules.players) if seat % rules.sides != 0]
    if partner is not None and not partners:
        raise ValueError(f"partner={partner!r}: players={rules.players} have no partners")
    chosen: dict[int, Player] = {}
    for name, given, seats in (
        ("opponent", opponent, opponents),
        ("partner", "random" if partner is None else partner, partners),
    ):
        players: list[Any] = [given] * len(seats)
        if isinstance(given, Sequence) and not isinstance(given, str):
            players = list(given)
        if len(players) != len(seats):
            raise ValueError(f"{name}={given!r}: a list needs {len(seats)} of them")
        for player in players:
            if not isinstance(player, str) and not callable(getattr(player, "act", None)):
                raise ValueError(f"{name}={player!r}: a policy or the name of one is allowed")
        chosen.update(zip(seats, players, strict=True))
    named = {player for player in chosen.values() if isinstance(player, str)}
    made = {name: make_policy(name, rules) for name in named}
    for name, policy in made.items():
        if cheats(policy):
            raise ValueError(f"policy {name!r} sees every card: it cannot play in an environment")
    return [
        made[player] if isinstance(player, str) else player
        for player in (chosen[seat] for seat in range(1, rules.players))
    ]
