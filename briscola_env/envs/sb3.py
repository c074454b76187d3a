"""Stable-Baselines3's `VecEnv` over the batched games: no Python loop over environments.

from briscola_env.envs.sb3 import BriscolaVecEnv
model = MaskablePPO("MultiInputPolicy", BriscolaVecEnv(1024, opponent="greedy"))
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.envs.vector import BriscolaVectorEnv

try:
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import VecEnv
except ImportError:
    raise ImportError("BriscolaVecEnv needs SB3: pip install 'briscola-env[sb3]'") from None


class BriscolaVecEnv(VecEnv):
    """`num_envs` games for one learner each; keywords as in `BriscolaVectorEnv` but for its modes.

    Masks are served as MaskablePPO asks for them, through `env_method("action_masks")`. The infos
    of finished episodes hold `terminal_observation`, `TimeLimit.truncated` and, as SB3's Monitor
    would write it, `episode`; all others are empty.
    """

    def __init__(self, num_envs: int, **keywords: Any) -> None:
        self.games = BriscolaVectorEnv(num_envs, autoreset_mode="same_step", **keywords)
        super().__init__(
            num_envs, self.games.single_observation_space, self.games.single_action_space
        )
        self._actions = np.zeros(num_envs, np.int64)
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self._start = time.monotonic()

    def reset(self) -> dict[str, NDArray[Any]]:
        """Deal in every game, from the seed of `seed()` if there was one; the observations."""
        seeds = None if self._seeds[0] is None else [int(seed or 0) for seed in self._seeds]
        observation, _ = self.games.reset(seed=seeds)
        self._reset_seeds()
        self._returns[:] = 0
        self._lengths[:] = 0
        return observation

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keep the actions [N] for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Observations, rewards [N], dones [N] and infos; finished games are dealt again."""
        observation, rewards, terminated, truncated, info = self.games.step(self._actions)
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(dones):
            infos[i] = {
                "terminal_observation": info["final_obs"][i],
                "TimeLimit.truncated": bool(truncated[i] and not terminated[i]),
                "episode": {
                    "r": round(float(self._returns[i]), 6),
                    "l": int(self._lengths[i]),
                    "t": round(time.monotonic() - self._start, 6),
                },
            }
        self._returns[dones] = 0
        self._lengths[dones] = 0
        return observation, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """Nothing is held open."""

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """`action_masks` only: one mask, bool [num_actions], for each game asked for."""
        if method_name != "action_masks":
            raise AttributeError(f"env_method({method_name!r}): only 'action_masks' is served")
        return list(self.games.action_masks()[self._rows(indices)])

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the batched environment, the same for each game asked for."""
        return [getattr(self.games, attr_name)] * len(self._rows(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Not possible: the games share all settings."""
        raise AttributeError(f"set_attr({attr_name!r}): the games of a batch share all settings")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Only as if in a Monitor: the infos are what it would write."""
        return [wrapper_class is Monitor] * len(self._rows(indices))

    def _rows(self, indices: int | Iterable[int] | None) -> Sequence[int]:
        return list(self._get_indices(indices))
