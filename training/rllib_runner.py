"""What RLlib needs to learn from whole deals: a module with masks, a runner, the learner's batch.

RLlib's own runner steps each game by itself through Python objects. `DealRunner` plays many deals
in step through `Games` and returns each as a `MultiAgentEpisode`; `DealsToBatch` makes one batch of
them for PPO, with no loop over steps. `training.rllib_ppo` puts them together.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import COMPONENT_RL_MODULE
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env import INPUT_ENV_SPACES
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import (
    EPISODE_LEN_MEAN,
    NUM_AGENT_STEPS_SAMPLED,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
    NUM_MODULE_STEPS_SAMPLED,
    NUM_MODULE_STEPS_SAMPLED_LIFETIME,
    WEIGHTS_SEQ_NO,
)

from briscola_env.envs.batch import Games
from briscola_env.policies.network import ActorCritic, masked_log_probs, sample_actions
from briscola_env.rng import child_seed, child_seeds, decision_seeds
from training.rollout import advantages, slots_per_seat

LEARNER = "learner"
MARGIN = "margin_against_snapshots"  # card points a deal of a learner's seat


class MaskedActorCritic(TorchRLModule, ValueFunctionAPI):
    """Our network as an RLModule; an illegal action has probability 0.

    Observations are those of the environments: `observation`, int8 [N, size], and `action_mask`,
    int8 [N, num_actions]. model_config: `network`, what an `ActorCritic` takes, and `precision`,
    the name of the torch dtype in which its bodies run.
    """

    def setup(self) -> None:
        """Build the network."""
        self.network = ActorCritic(**self.model_config["network"])

    def _autocast(self, observations: torch.Tensor) -> torch.autocast:
        precision = getattr(torch, self.model_config["precision"])
        reduced = precision != torch.float32
        return torch.autocast(observations.device.type, precision, enabled=reduced)

    def _forward(self, batch: dict[str, Any], **_: Any) -> dict[str, Any]:
        observations, mask = (batch[Columns.OBS][key] for key in ("observation", "action_mask"))
        with self._autocast(observations):
            logits = self.network.logits(observations)
        return {Columns.ACTION_DIST_INPUTS: masked_log_probs(logits, mask.bool())}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> torch.Tensor:
        """Expected sum of the rewards still to come, float32 [N]."""
        observations = batch[Columns.OBS]["observation"]
        with self._autocast(observations):
            return self.network.values(observations)


class DealRunner(EnvRunner, Checkpointable):
    """Plays whole deals, many in step, each seat by the module that `policy_mapping_fn` names.

    config: `num_envs_per_env_runner` deals are played in step; `env_config` holds `games`, keywords
    of `Games`, and `reward_points`, the card points that make a reward of 1. An episode's id is its
    deal's seed in hexadecimal. Seeds follow from the config's, the runner's index, the number of
    the weights and of the deals played with these: two runners never deal the same cards, nor does
    one that was restarted or resumed.
    """

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        settings = self.config.env_config
        self.games = Games(self.config.num_envs_per_env_runner, **settings["games"])
        self._reward_points = settings["reward_points"]
        self._agents = [f"player_{seat}" for seat in range(self.games.rules.players)]
        spec = self.config.get_multi_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module = spec.build()
        self._weights_seq_no = 0
        self._has_weights = False
        self._dealt = 0

    def assert_healthy(self) -> None:
        """Nothing can be missing once the constructor has returned."""

    def get_spaces(self) -> dict[str, Any]:
        """Spaces of the agents and of every module: they are all the same."""
        spaces = (self.config.observation_space, self.config.action_space)
        return {INPUT_ENV_SPACES: spaces, **dict.fromkeys(self.config.policies, spaces)}

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
    ) -> list[MultiAgentEpisode]:
        """Whole deals: at least so many plays or deals, by default what the config asks for.

        explore: draw actions from the policy, else take the most probable ones. RuntimeError as
        long as no weights have come: a restarted runner would else go on with a fresh network;
        RLlib restores a runner that fails, and sends them.
        """
        if not self._has_weights:
            raise RuntimeError("this runner has not been sent any weights yet")
        if num_timesteps is None and num_episodes is None:
            num_episodes = self.games.num_games
            if self.config.batch_mode == "truncate_episodes":
                fragment = self.config.get_rollout_fragment_length(self.worker_index)
                num_timesteps = fragment * self.games.num_games
        explore = self.config.explore if explore is None else explore
        episodes: list[MultiAgentEpisode] = []
        steps = 0
        while len(episodes) < (num_episodes or 0) or steps < (num_timesteps or 0):
            played = self._play(explore)
            episodes += played
            steps += sum(map(len, played))
        self._count(episodes)
        return episodes

    def _play(self, explore: bool) -> list[MultiAgentEpisode]:
        """One deal in every game, from its first card to its last."""
        games = self.games
        n, players, actions = games.num_games, games.rules.players, games.rules.num_actions
        games.reset(self._deal_seeds())
        episodes = [
            MultiAgentEpisode(
                f"{seed:016x}", agent_to_module_mapping_fn=self.config.policy_mapping_fn
            )
            for seed in games.episode_seeds.tolist()
        ]
        modules = np.array([[e.module_for(agent) for agent in self._agents] for e in episodes])
        shape = (n, players, slots_per_seat(games.encoder))
        seen = (n, players, shape[2] + 1)  # the end of the deal is seen too
        played = _Played(
            np.zeros((*seen, games.encoder.size), np.int8),
            np.zeros((*seen, actions), np.int8),
            np.zeros(shape, np.int64),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
            np.zeros((*shape, actions), np.float32),
            np.zeros(shape, np.int64),
            np.zeros(shape[:2], np.int64),
        )
        scale = games.rules.deck_points / self._reward_points
        every, all_seats = np.arange(n), np.arange(players)
        while (games.seats >= 0).any():
            earned, _ = games.step(self._decide(modules, explore, played))
            # To each seat's last decision: a trick, which alone earns, has one of every seat.
            last = np.maximum(played.counts - 1, 0)
            played.rewards[every[:, None], all_seats, last] += earned * scale
        for seat in all_seats:
            features, _ = games.observe(np.full(n, seat))
            played.observations[every, seat, played.counts[:, seat]] = features
        for deal, episode in enumerate(episodes):
            self._fill(episode, played, deal)
        return episodes

    def _decide(
        self, modules: NDArray[np.str_], explore: bool, played: "_Played"
    ) -> NDArray[np.int64]:
        """An action in every game that goes on, [N]; it is noted in `played`."""
        games = self.games
        rows = np.flatnonzero(games.seats >= 0)
        seats = games.seats[rows]
        features, legal = (array[rows] for array in games.observe())
        log_chances = np.empty(legal.shape, np.float32)
        asked = modules[rows, seats]
        for name in np.unique(asked):
            mine = asked == name
            batch = {
                "observation": torch.from_numpy(features[mine]),
                "action_mask": torch.from_numpy(legal[mine]),
            }
            with torch.inference_mode():
                out = self.module[name].forward_exploration({Columns.OBS: batch})
            log_chances[mine] = out[Columns.ACTION_DIST_INPUTS].numpy()
        luck, log_probs = np.empty(len(rows), np.uint64), np.empty(len(rows), np.float32)
        chosen = np.empty(len(rows), np.int64)
        decision_seeds(games.episode_seeds[rows], seats, games.decisions[rows], luck)
        sample_actions(log_chances, legal, luck, chosen, log_probs)
        if not explore:
            chosen = log_chances.argmax(axis=1)
        place = (rows, seats, played.counts[rows, seats])
        played.observations[place] = features
        played.masks[place] = legal
        played.actions[place] = chosen
        played.log_probs[place] = log_probs
        played.log_chances[place] = log_chances
        played.times[place] = games.decisions[rows]
        played.counts[rows, seats] += 1
        actions = np.zeros(games.num_games, np.int64)
        actions[rows] = chosen
        return actions

    def _fill(self, episode: MultiAgentEpisode, played: "_Played", deal: int) -> None:
        """Make the episode what RLlib's runner would have made of that deal, as arrays."""
        episode.env_t = int(played.counts[deal].sum())
        episode.is_terminated = True
        for seat, agent in enumerate(self._agents):
            made = int(played.counts[deal, seat])
            steps = [MultiAgentEpisode.SKIP_ENV_TS_TAG] * episode.env_t + [made]
            for slot, time in enumerate(played.times[deal, seat, :made].tolist()):
                steps[time] = slot
            episode.env_t_to_agent_t[agent] = InfiniteLookbackBuffer(steps)
            observations = {
                "observation": played.observations[deal, seat, : made + 1],
                "action_mask": played.masks[deal, seat, : made + 1],
            }
            outputs = {
                Columns.ACTION_LOGP: played.log_probs[deal, seat, :made],
                Columns.ACTION_DIST_INPUTS: played.log_chances[deal, seat, :made],
            }
            episode.agent_episodes[agent] = SingleAgentEpisode(
                observations=InfiniteLookbackBuffer(observations),
                infos=InfiniteLookbackBuffer([{}] * (made + 1)),
                actions=InfiniteLookbackBuffer(played.actions[deal, seat, :made]),
                rewards=InfiniteLookbackBuffer(played.rewards[deal, seat, :made]),
                extra_model_outputs={
                    name: InfiniteLookbackBuffer(array) for name, array in outputs.items()
                },
                terminated=True,
                agent_id=agent,
                module_id=episode.module_for(agent),
                multi_agent_episode_id=episode.id_,
            )

    def _deal_seeds(self) -> list[int]:
        """Seeds of the next deals, one for each game."""
        seed = np.uint64(self.config.seed or 0)
        for number in (self.worker_index or 0, self._weights_seq_no, self._dealt):
            seed = np.uint64(child_seed(seed, number))
        self._dealt += 1
        seeds = np.empty(self.games.num_games, np.uint64)
        child_seeds(seed, 0, seeds)
        return seeds.tolist()

    # ------------------------------------------------------------------------------------- metrics

    def _count(self, episodes: Sequence[MultiAgentEpisode]) -> None:
        """Log how much was played: a step is a decision, never the sight of the end."""
        log = self.metrics.log_value
        by_agent, by_module = Counter[str](), Counter[str]()
        for episode in episodes:
            for agent, part in episode.agent_episodes.items():
                by_agent[agent] += len(part)
                by_module[part.module_id] += len(part)
        steps = by_agent.total()
        log(NUM_ENV_STEPS_SAMPLED, steps, reduce="sum")
        log(
            NUM_ENV_STEPS_SAMPLED_LIFETIME,
            steps,
            reduce="lifetime_sum",
            with_throughput=True,
        )
        log(NUM_EPISODES, len(episodes), reduce="sum")
        log(NUM_EPISODES_LIFETIME, len(episodes), reduce="lifetime_sum")
        log(EPISODE_LEN_MEAN, steps / len(episodes), window=1)
        for key, lifetime, counter in (
            (NUM_AGENT_STEPS_SAMPLED, NUM_AGENT_STEPS_SAMPLED_LIFETIME, by_agent),
            (NUM_MODULE_STEPS_SAMPLED, NUM_MODULE_STEPS_SAMPLED_LIFETIME, by_module),
        ):
            for name, count in counter.items():
                log((key, name), count, reduce="sum")
                log((lifetime, name), count, reduce="lifetime_sum")
        margins = [
            part.get_return() * self._reward_points
            for episode in episodes
            if len({part.module_id for part in episode.agent_episodes.values()}) > 1
            for part in episode.agent_episodes.values()
            if part.module_id == LEARNER
        ]
        if margins:
            log(MARGIN, float(np.mean(margins)), window=1)

    def get_metrics(self) -> dict[str, Any]:
        """What was logged since the last call."""
        return self.metrics.reduce()

    # --------------------------------------------------------------------------------------- state

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The modules' weights and their number."""
        if not self._check_component(COMPONENT_RL_MODULE, components, not_components):
            return {}
        modules = self.module.get_state(
            components=self._get_subcomponents(COMPONENT_RL_MODULE, components),
            not_components=self._get_subcomponents(COMPONENT_RL_MODULE, not_components),
            **kwargs,
        )
        return {COMPONENT_RL_MODULE: modules, WEIGHTS_SEQ_NO: self._weights_seq_no}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over weights, of all modules or of some, unless they are older than its own."""
        number = state.get(WEIGHTS_SEQ_NO, 0)
        if COMPONENT_RL_MODULE in state and (number == 0 or number >= self._weights_seq_no):
            weights = state[COMPONENT_RL_MODULE]
            self.module.set_state(
                ray.get(weights) if isinstance(weights, ray.ObjectRef) else weights
            )
            self._has_weights = True
        if number > self._weights_seq_no:
            self._weights_seq_no, self._dealt = number, 0

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[()], dict[str, Any]]:
        """See `Checkpointable`."""
        return (), {"config": self.config}

    def get_checkpointable_components(self) -> list[tuple[str, Checkpointable]]:
        """See `Checkpointable`."""
        return [(COMPONENT_RL_MODULE, self.module)]


@dataclass
class _Played:
    """Deals while they are played, in the encoder's frame."""

    observations: NDArray[np.int8]  # [deal, seat, slot + 1, size]
    masks: NDArray[np.int8]  # [deal, seat, slot + 1, num_actions]
    actions: NDArray[np.int64]  # [deal, seat, slot]
    rewards: NDArray[np.float32]  # [deal, seat, slot], until the seat's next decision
    log_probs: NDArray[np.float32]  # [deal, seat, slot], of the actions
    log_chances: NDArray[np.float32]  # [deal, seat, slot, num_actions], of all
    times: NDArray[np.int64]  # [deal, seat, slot], number of the decision in the deal
    counts: NDArray[np.int64]  # [deal, seat], decisions made


class DealsToBatch(ConnectorV2):
    """The learner's batch from whole deals: only the learner's seats, advantages included.

    It stands in place of all of RLlib's pieces: those add a step to every episode for a value at
    its end, which is 0 here, and go through episodes step by step.
    """

    def __init__(self, gae_lambda: float) -> None:
        super().__init__()
        self.gae_lambda = gae_lambda

    def __call__(
        self, *, rl_module: Any, episodes: Sequence[MultiAgentEpisode], **_: Any
    ) -> dict[str, dict[str, Any]]:
        """Columns of PPO's loss for the learner's module, tensors [steps, ...] on its device."""
        module = rl_module[LEARNER].unwrapped()
        device = next(module.parameters()).device
        parts = [
            part
            for episode in episodes
            for part in episode.agent_episodes.values()
            if part.module_id == LEARNER
        ]
        lengths = np.array([len(part) for part in parts])

        def joined(arrays: Sequence[NDArray[Any]]) -> torch.Tensor:
            return torch.from_numpy(np.concatenate(arrays)).to(device)

        seen = [part.observations.data for part in parts]
        batch = {
            Columns.OBS: {key: joined([obs[key][:-1] for obs in seen]) for key in seen[0]},
            Columns.ACTIONS: joined([part.actions.data for part in parts]),
            **{
                key: joined([part.extra_model_outputs[key].data for part in parts])
                for key in (Columns.ACTION_LOGP, Columns.ACTION_DIST_INPUTS)
            },
        }
        with torch.inference_mode():
            estimates = module.compute_values(batch).cpu().numpy()
        valid = np.arange(lengths.max()) < lengths[:, None]
        values, rewards = np.zeros(valid.shape, np.float32), np.zeros(valid.shape, np.float32)
        values[valid] = estimates
        rewards[valid] = np.concatenate([part.rewards.data for part in parts])
        gains = advantages(rewards, values, valid, self.gae_lambda)[valid]
        batch[Postprocessing.VALUE_TARGETS] = joined([gains + estimates])
        batch[Postprocessing.ADVANTAGES] = joined([(gains - gains.mean()) / (gains.std() + 1e-8)])
        return {LEARNER: batch}
