"""The PettingZoo environment, for agents `player_0`, `player_1` ... (docs/environment.md).

The environment only translates between `Table` and the AEC protocol.
"""

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from pettingzoo import AECEnv
from pettingzoo.utils import wrappers

from briscola_env.envs.render import RENDER_MODES, check_render_mode, render_text
from briscola_env.envs.table import Observation, Table, whole_action


class BriscolaAECEnv(AECEnv[str, Observation, Any]):
    """Briscola for PettingZoo, without wrappers: an illegal action raises and changes nothing.

    rules: the fields of `Rules` by name, such as `players=4`.
    reward: `points`: after each trick, each side's card points less the mean of the other sides',
    over the points in the deck; `win`: +1 or -1 (three players: +1 and -1/2) at the end, 0 drawn.
    show_points: `hidden`, `own`, `all`: whose card points are observed before the deal is over.
    frame: `table`; or, in all that is observed and in the actions, `trump_first`: suit 0 and the
    trump suit change places; or `canonical`: trump, then the other suits in an order of the hand.
    recent_tricks: how many of the latest finished tricks the planes show card by card.
    observation: `planes`, or `tokens` for the sequence of actions beside them.
    render_mode: None, `ansi` (text is returned) or `human` (text is printed at every step).

    ValueError (InvalidRulesError for rules) names a keyword or value that is not allowed.
    """

    metadata = {
        "name": "briscola_v0",
        "is_parallelizable": False,
        "render_modes": list(RENDER_MODES),
        "render_fps": 2,
    }

    def __init__(
        self,
        *,
        reward: str = "points",
        show_points: str = "hidden",
        frame: str = "table",
        recent_tricks: int = 0,
        observation: str = "planes",
        render_mode: str | None = None,
        **rules: Any,
    ) -> None:
        super().__init__()
        check_render_mode(render_mode)
        self.render_mode = render_mode
        self._table = Table(reward, show_points, frame, recent_tricks, observation, **rules)
        self.rules = self._table.rules
        self.features = self._table.encoder.features
        self.possible_agents = [f"player_{seat}" for seat in range(self.rules.players)]
        self.observation_spaces = {a: self._table.observation_space() for a in self.possible_agents}
        self.action_spaces = {a: self._table.action_space() for a in self.possible_agents}
        self.state_space = self._table.state_space()
        self._seats: dict[str, int] = {}  # empty before the first reset
        self._begin([])

    def observation_space(self, agent: str) -> Space[Observation]:
        """The space of that agent's observations, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Space[Any]:
        """The space of that agent's actions, always the same object."""
        return self.action_spaces[agent]

    # --------------------------------------------------------------------------------------- play

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Deal a new episode.

        seed: a whole number from which this episode and all further ones follow, until the next
        seed. options: `dealer`, a seat, and `deck`, the ids of all cards in play in the order in
        which they are dealt, for the (first) deal. ValueError, with nothing changed, otherwise.
        """
        self._table.reset(seed, options)
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._begin(self.possible_agents)
        self._after_step()

    def _begin(self, agents: list[str]) -> None:
        """Forget the last episode; these agents live."""
        self.agents = list(agents)
        self.rewards = dict.fromkeys(agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(agents, 0.0)
        self.terminations = dict.fromkeys(agents, False)
        self.truncations = dict.fromkeys(agents, False)
        self.infos = {agent: {} for agent in agents}
        self.agent_selection = self.possible_agents[0]
        self._skip_agent_selection: str | None = None  # type: ignore[assignment]

    def step(self, action: Any) -> None:
        """Take an action of `agent_selection`; None for an agent whose episode is over.

        IllegalActionError (a ValueError) names the action, what is allowed and the position as that
        agent sees it; then nothing has changed. A finished agent's other action: ValueError.
        """
        agent = self.agent_selection
        if agent not in self.terminations:
            raise ValueError("nobody is to act: reset() comes first")
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        shares = self._table.step(whole_action(action))
        self._cumulative_rewards[agent] = 0.0
        if shares is None:
            self.rewards = dict.fromkeys(self.agents, 0.0)
        else:
            sides = len(shares)
            self.rewards = {name: shares[seat % sides] for name, seat in self._seats.items()}
            self._accumulate_rewards()
        self.infos[agent] = {}
        self._after_step()

    def _after_step(self) -> None:
        """Select the agent to act, or end the episode for all."""
        seat = self._table.current_player
        if seat >= 0:
            agent = self.agent_selection = self.possible_agents[seat]
            self.infos[agent] = {"action_mask": self._table.mask}
        else:
            truncated = self._table.truncated
            self.terminations = dict.fromkeys(self.agents, not truncated)
            self.truncations = dict.fromkeys(self.agents, truncated)
            self.agent_selection = self.agents[0]
            self._describe_end()
        if self.render_mode == "human":
            self.render()

    def _describe_end(self) -> None:
        self.infos = {
            agent: {"action_mask": np.zeros_like(self._table.mask), **self._table.result()}
            for agent in self.agents
        }

    # --------------------------------------------------------------------------------------- show

    def observe(self, agent: str) -> Observation:
        """What that agent sees now, in new arrays; any agent at any time, without side effects.

        `observation` int8 [size] of 0 and 1, see `features`; `action_mask` int8 [num_actions], all
        0 unless the agent is to move; `tokens` int16 [T, 3] if asked for.
        """
        try:
            seat = self._seats[agent]
        except KeyError:
            raise ValueError(
                f"nothing to observe for {agent!r}: reset() comes first, then there are "
                + ", ".join(self.possible_agents)
            ) from None
        return self._table.observe(seat)

    def state(self) -> NDArray[np.int8]:
        """Everything but the random state as int8 of 0 and 1, for centralised critics.

        Hands by seat (40 places each), the stock in the order in which it will be drawn (40 places
        a card), then the features of an observation of `player_0` with nothing withheld.
        """
        self._require_reset()
        return self._table.state_vector()

    def render(self) -> str | None:
        """The table with all hands as text: returned in mode `ansi`, printed in mode `human`."""
        if self.render_mode is None:
            gymnasium.logger.warn(
                "render() does nothing without a render_mode: choose 'ansi' or 'human' when the "
                "environment is made"
            )
            return None
        self._require_reset()
        text = render_text(self._table.states[0])
        if self.render_mode == "ansi":
            return text
        print(text, end="\n\n")
        return None

    def _require_reset(self) -> None:
        if not self._seats:
            raise ValueError("nothing is dealt yet: reset() comes first")

    def close(self) -> None:
        """Nothing is held open."""

    # --------------------------------------------------------------------------------------- save

    def get_state(self) -> dict[str, Any]:
        """The position, the rewards not yet read and the seeds, as a copy for `set_state`."""
        self._require_reset()
        return {
            "table": self._table.get_state(),
            "agents": list(self.agents),
            "agent_selection": self.agent_selection,
            "rewards": dict(self.rewards),
            "cumulative_rewards": dict(self._cumulative_rewards),
            "terminations": dict(self.terminations),
            "truncations": dict(self.truncations),
        }

    def set_state(self, saved: Mapping[str, Any]) -> None:
        """Go back to what `get_state` saved here or in another environment with these rules.

        `saved` is not changed. ValueError if its rules are others. Call it on `raw_env()` or
        `env().unwrapped`, and observe before the next step: PettingZoo's wrappers remember the
        last observation.
        """
        self._table.set_state(saved["table"])
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._begin(saved["agents"])
        self.rewards = dict(saved["rewards"])
        self._cumulative_rewards = dict(saved["cumulative_rewards"])
        self.terminations = dict(saved["terminations"])
        self.truncations = dict(saved["truncations"])
        self.agent_selection = saved["agent_selection"]
        if self._table.current_player < 0:
            self._describe_end()
        elif self.agents:
            agent = self.possible_agents[self._table.current_player]
            self.infos[agent] = {"action_mask": self._table.mask}

    def clone(self) -> "BriscolaAECEnv":
        """An environment in which the same game goes on independently.

        Much cheaper than `copy.deepcopy`: what never changes, and the spaces, are shared.
        """
        other = copy.copy(self)
        other._table = self._table.clone()
        other.set_state(self.get_state())
        return other


class _TerminateIllegal(wrappers.TerminateIllegalWrapper):  # type: ignore[type-arg]
    """PettingZoo's wrapper, which before 1.25 kept the agent of an illegal move over a reset."""

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """See AECEnv.reset."""
        vars(self).pop("agent_selection", None)
        vars(self).pop("_skip_agent_selection", None)
        super().reset(seed=seed, options=options)


def env(**keywords: Any) -> wrappers.OrderEnforcingWrapper:  # type: ignore[type-arg]
    """`BriscolaAECEnv` in PettingZoo's usual wrappers; keywords as there.

    An illegal action ends the episode with reward -1 for its agent and 0 for the others, an action
    outside the space is an AssertionError.
    """
    wrapped = _TerminateIllegal(BriscolaAECEnv(**keywords), illegal_reward=-1)
    return wrappers.OrderEnforcingWrapper(wrappers.AssertOutOfBoundsWrapper(wrapped))
