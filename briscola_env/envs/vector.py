"""The Gymnasium vector environment: N single environments in one array, behind `make_vec`.

Environment i is `BriscolaEnv` with its own seed, before and after every reset; the other seats'
policies are asked once a step for all the games in which they are to act.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from briscola_env.envs.batch import Games, first_illegal
from briscola_env.envs.single import ILLEGAL_REWARD, Player, check_learner, seat_policies
from briscola_env.envs.table import Observation, observation_space
from briscola_env.jit import kernel
from briscola_env.policies import Policy
from briscola_env.policies.base import show_turns
from briscola_env.rng import SEAT_STREAM, child_seed, decision_seeds, number_below
from briscola_env.state import GAME_STATE, States

Flags = NDArray[np.bool_]


@kernel
def _draw_seats(episode_seeds: Any, players: Any, which: Any, out: Any) -> None:
    """The learner's seat for the marked episodes, into `out`."""
    for i in range(len(which)):
        if which[i]:
            out[i] = number_below(child_seed(episode_seeds[i], SEAT_STREAM), players)


class BriscolaVectorEnv(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """`num_envs` games for one learner each; keywords as in `BriscolaEnv`, and two more.

    autoreset_mode: `next_step` (default): after the end of an episode the next step resets, its
    action is ignored and its reward is 0; `same_step`: the step that ends an episode returns the
    first observation of the next, and the last one in `info["final_obs"]`; `disabled`: the caller
    resets, with `options={"reset_mask": bool [N]}`.
    copy: False returns the same arrays at every step, overwritten.

    observations: as in `BriscolaEnv` with a first axis of N. info: `action_mask` int8 [N, A],
    `seat` int [N]; where an episode has ended `winner` (a side, -1 if drawn) and `points` [N,
    sides], in a match `wins` [N, sides]; `illegal_action` where one was terminated; each with the
    flags `_name` [N] that say where it holds.
    """

    def __init__(
        self,
        num_envs: int = 1,
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
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        copy: bool = True,
        **rules: Any,
    ) -> None:
        self.games = Games(
            num_envs,
            reward=reward,
            show_points=show_points,
            frame=frame,
            recent_tricks=recent_tricks,
            **rules,
        )
        self.rules = self.games.rules
        self.features = self.games.encoder.features
        check_learner(self.rules, seat, illegal_action)
        self.num_envs = num_envs
        self.single_observation_space: Space[Observation] = observation_space(
            self.games.encoder, observation
        )
        self.single_action_space = Discrete(self.rules.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._mode = _autoreset(autoreset_mode)
        self.metadata = {"autoreset_mode": self._mode, "render_modes": []}
        self.seats = np.zeros(num_envs, np.int64)
        """The learner's seat in each game, int64 [N]."""
        self._chosen_seat = seat
        self._terminates = illegal_action == "terminate"
        self._tokens = observation == "tokens"
        self._copy = copy
        self._buffers: tuple[NDArray[np.int8], NDArray[np.bool_]] | None = None
        by_seat = seat_policies(self.rules, opponent, partner)
        self._policies: list[Policy] = list({id(policy): policy for policy in by_seat}.values())
        # Which of them plays the seat that comes k places after the learner's; 0 is the learner.
        places = [[p is policy for p in self._policies].index(True) for policy in by_seat]
        self._policy_of = np.array([-1, *places])
        self._ended = np.zeros(num_envs, np.bool_)
        self._infos: States = np.empty(num_envs, GAME_STATE)  # what the policies are shown

    # --------------------------------------------------------------------------------------- play

    def reset(
        self,
        *,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Deal in every game; seed: of game 0, the others take seed + i; or one for each.

        options: `dealer` and `deck` as in `BriscolaEnv`, for all games; `reset_mask`, bool [N]:
        reset only these. ValueError, with nothing changed, otherwise.
        """
        options = dict(options or {})
        which = np.asarray(options.pop("reset_mask", np.ones(self.num_envs, np.bool_)))
        if which.shape != (self.num_envs,) or which.dtype != np.bool_ or not which.any():
            raise ValueError(
                f"reset_mask {which.dtype} {list(which.shape)}: bool [{self.num_envs}] with at "
                "least one True is allowed"
            )
        self._deal(which, seed, options)
        return self._show(which, {})

    def _deal(
        self,
        which: Flags,
        seed: int | Sequence[int] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        """The next episode in the marked games, played on to the learner's first turn."""
        self.games.reset(seed, which, options)
        if isinstance(self._chosen_seat, int):
            self.seats[which] = self._chosen_seat
        else:
            _draw_seats(self.games.episode_seeds, self.rules.players, which, self.seats)
        self._ended[which] = False
        self._play_others(np.zeros((self.num_envs, self.rules.players), np.float32))

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[Observation, NDArray[np.float64], Flags, Flags, dict[str, Any]]:
        """The learners' actions [N]; observation, reward, terminated, truncated, info.

        IllegalActionError, with nothing changed, names the game, the action and the position.
        """
        actions = self.games.checked(actions)
        resets = self._ended.copy()
        if self._mode is AutoresetMode.DISABLED and resets.any():
            raise ValueError(f"games {np.flatnonzero(resets).tolist()} are over: reset them first")
        illegal = self._illegal(actions, ~resets)
        rewards = np.zeros((self.num_envs, self.rules.players), np.float32)
        rows = np.flatnonzero(~resets & ~illegal)
        self.games.take(rows, actions[rows], rewards)
        self._play_others(rewards)
        own = rewards[np.arange(self.num_envs), self.seats].astype(np.float64)
        own[illegal] = ILLEGAL_REWARD
        over = ~resets & (self.games.states["current_player"] < 0)
        truncated = over & (self.games.states["winner"] < 0) & (self.rules.match_wins > 0)
        terminated = over & ~truncated | illegal
        self._ended = over | illegal
        if resets.any():
            self._deal(resets)
        facts = self._facts(over, illegal, actions)
        if self._mode is AutoresetMode.SAME_STEP and self._ended.any():
            return self._next_episodes(own, terminated, truncated, facts)
        observation, info = self._show(np.ones(self.num_envs, np.bool_), facts)
        return observation, own, terminated, truncated, info

    def _illegal(self, actions: NDArray[np.int64], playing: Flags) -> Flags:
        """Which of the actions are illegal: raises for the first, or flags all."""
        illegal = np.zeros(self.num_envs, np.bool_)
        rows = np.flatnonzero(playing)
        while True:
            k = first_illegal(
                self.games.states, rows, actions[rows], self.games.encoder.frame_index
            )
            if k < 0:
                return illegal
            if not self._terminates:
                raise self.games.illegal(int(rows[k]), int(actions[rows[k]]))
            illegal[rows[k]] = True
            rows = rows[k + 1 :]

    def _play_others(self, rewards: NDArray[np.float32]) -> None:
        """Let the policies act until the learners are to act; adds to `rewards` [N, players]."""
        games, players = self.games, self.rules.players
        while True:
            current = games.seats
            who = self._policy_of[(current - self.seats) % players]
            who[current < 0] = -1
            if (who < 0).all():
                return
            for k, policy in enumerate(self._policies):
                rows = np.flatnonzero(who == k)
                if rows.size:
                    games.take(rows, self._ask(policy, rows), rewards, framed=False)

    def _ask(self, policy: Policy, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """A policy's actions in the games `rows`, at the table; each from what its seat knows."""
        games = self.games
        legal, seats = np.empty((len(rows), self.rules.num_actions), bool), np.empty_like(rows)
        show_turns(games.states, rows, self._infos, legal, seats)
        seeds = games.episode_seeds[rows]
        decision_seeds(seeds, seats, games.decisions[rows], seeds)
        actions = np.asarray(policy.act(self._infos[: len(rows)], legal, seeds), np.int64)
        k = first_illegal(games.states, rows, actions, 0)
        if k >= 0:
            raise games.illegal(int(rows[k]), int(actions[k]))
        return actions

    # --------------------------------------------------------------------------------------- show

    def _observe(self) -> Observation:
        """What the learners see."""
        if not self._copy and self._buffers is None:
            self._buffers = self.games.observe(self.seats)
        features, masks = self.games.observe(self.seats, self._buffers)
        shown: Observation = {"action_mask": masks.view(np.int8), "observation": features}
        if self._tokens:
            infos = self.games.info_states(self.seats)
            shown["tokens"] = self.games.encoder.encode_tokens(infos)
        return shown

    def _show(self, which: Flags, facts: dict[str, Any]) -> tuple[Observation, dict[str, Any]]:
        """Observation, and info of the marked games with facts that hold where their flags say."""
        observation = self._observe()
        own = {"action_mask": observation["action_mask"], "seat": self.seats}
        info = {name: array.copy() for name, array in own.items()}
        flags = {f"_{name}": which.copy() for name in own}
        return observation, {**info, **flags, **facts}

    def action_masks(self) -> NDArray[np.bool_]:
        """The learners' legal actions, bool [N, num_actions], a new array."""
        return self.games.masks(self.seats)

    def _facts(self, over: Flags, illegal: Flags, actions: NDArray[np.int64]) -> dict[str, Any]:
        """The facts about episodes that have just ended."""
        facts: dict[str, Any] = {}
        states, sides = self.games.states, self.rules.sides
        if over.any():
            facts["winner"] = np.where(over, states["winner"], -1)
            facts["points"] = np.where(over[:, None], states["last_scores"][:, :sides], 0)
            if self.rules.match_wins:
                facts["wins"] = np.where(over[:, None], states["wins"][:, :sides], 0)
            facts.update({f"_{name}": over.copy() for name in list(facts)})
        if illegal.any():
            facts["illegal_action"] = np.where(illegal, actions, 0)
            facts["_illegal_action"] = illegal.copy()
        return facts

    def _next_episodes(
        self,
        rewards: NDArray[np.float64],
        terminated: Flags,
        truncated: Flags,
        facts: dict[str, Any],
    ) -> tuple[Observation, NDArray[np.float64], Flags, Flags, dict[str, Any]]:
        """Same-step mode: deal again where an episode has ended, and keep its last observation."""
        ended = self._ended.copy()
        last, final_info = self._show(ended, facts)
        final = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(ended):
            final[i] = {name: array[i].copy() for name, array in last.items()}
        self._deal(ended)
        observation, info = self._show(np.ones(self.num_envs, np.bool_), {})
        info.update(final_obs=final, _final_obs=ended, final_info=final_info, _final_info=ended)
        return observation, rewards, terminated, truncated, info


def _autoreset(mode: str | AutoresetMode) -> AutoresetMode:
    names = {known.name.lower(): known for known in AutoresetMode}
    if isinstance(mode, AutoresetMode):
        return mode
    if mode not in names:
        raise ValueError(f"autoreset_mode={mode!r}: allowed are {', '.join(map(repr, names))}")
    return names[mode]
