"""The runner's deals are the engine's, and the learner's batch is RLlib's own."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Dict
from ray.rllib.connectors.learner import AddOneTsToEpisodesAndTruncate, GeneralAdvantageEstimation
from ray.rllib.core.columns import Columns
from ray.rllib.evaluation.postprocessing import Postprocessing
from ray.rllib.models.torch.torch_distributions import TorchCategorical

from briscola_env.rng import child_seed
from tests.rllib.runs import make_runner, replay, seed_of, small_config
from training.rllib_ppo import make_config, module_of
from training.rllib_runner import LEARNER, DealsToBatch

TABLES = {
    2: (),
    3: ("frame=canonical",),
    4: ("rules.exchange_seven=true", "rules.signals=conventional", "rules.rebury=repeat"),
}


def spread(weights, factor=300):
    """The same, with an actor's head whose choices differ: a fresh one is almost even."""
    head = "network.actor_head.weight"
    return {name: {**part, head: part[head] * factor} for name, part in weights.items()}


@pytest.mark.parametrize("fragment", [7, 37])
@pytest.mark.parametrize("players", TABLES)
def test_a_fragment_that_would_cut_a_deal_is_filled_with_whole_ones(players, fragment):
    config = small_config(players, 3, *TABLES[players])
    runner = make_runner(config)
    episodes = [episode for _ in range(4) for episode in runner.sample(num_timesteps=fragment)]
    assert len(episodes) == 12
    steps = 0
    for episode in episodes:
        episode.validate()
        assert episode.is_done
        margins = replay(config, episode)
        earned = [episode.agent_episodes[f"player_{s}"].get_return() for s in range(players)]
        np.testing.assert_allclose(np.array(earned) * config.reward_points, margins, atol=1e-3)
        steps += sum(len(part) for part in episode.agent_episodes.values())
    metrics = runner.get_metrics()
    assert metrics["num_env_steps_sampled"].peek() == steps == sum(map(len, episodes))
    agents = metrics["num_agent_steps_sampled"]
    assert sum(value.peek() for value in agents.values()) == steps
    if players < 4:  # no swaps, no signals
        assert steps == 12 * players * config.table.num_tricks


def test_each_deal_is_dealt_once_by_all_runners_restarted_and_resumed_ones_too():
    config = small_config(2, 50)
    first, second, restarted = (make_runner(config, index) for index in (1, 2, 1))
    restarted.set_state({"weights_seq_no": 7})
    episodes = [e for runner in (first, second, first, second) for e in runner.sample()]
    first.set_state({"weights_seq_no": 6})
    episodes += first.sample() + restarted.sample()
    hands = {
        e.agent_episodes["player_0"].observations.data["action_mask"][0].tobytes()
        + e.agent_episodes["player_0"].observations.data["observation"][0].tobytes()
        for e in episodes
    }
    assert len({e.id_ for e in episodes}) == 300
    assert len(hands) > 290
    # The same seed, runner and weights: the same deals, which a test of a fault depends on.
    again = make_runner(config, 2).sample()
    assert [e.id_ for e in again] == [e.id_ for e in episodes[50:100]]
    np.testing.assert_array_equal(
        again[0].agent_episodes["player_1"].actions.data,
        episodes[50].agent_episodes["player_1"].actions.data,
    )


def test_a_runner_without_weights_refuses_to_play():
    config = small_config()
    runner = make_runner(config)
    runner._has_weights = False
    with pytest.raises(RuntimeError, match="not been sent any weights"):
        runner.sample()
    runner.set_state({"rl_module": {LEARNER: runner.module[LEARNER].get_state()}})
    runner.sample()


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_snapshot_plays_one_side_for_a_whole_deal_with_its_own_weights(players):
    config = small_config(players, 200)
    runner = make_runner(config)
    weights = spread(runner.module.get_state())
    snapshots = [f"snapshot_{i}" for i in range(3)]
    for i, name in enumerate(snapshots):
        head = "network.actor_head.weight"
        weights[name] = {**weights[name], head: np.roll(weights[name][head], i + 1, axis=0)}
    runner.set_state({"rl_module": weights})
    seen, deals = set(), 0
    for episode in runner.sample():
        names = [episode.module_for(f"player_{seat}") for seat in range(players)]
        others = [seat for seat, name in enumerate(names) if name != LEARNER]
        if others:
            deals += 1
            (name,) = {names[seat] for seat in others}
            seen.add(name)
            sides = config.table.sides
            assert others == list(range(others[0], players, sides))
        for part in episode.agent_episodes.values():
            obs = {k: torch.from_numpy(v[:-1]) for k, v in part.observations.data.items()}
            with torch.no_grad():
                out = runner.module[part.module_id].forward_inference({Columns.OBS: obs})
            expected = out[Columns.ACTION_DIST_INPUTS].numpy()
            np.testing.assert_allclose(
                part.extra_model_outputs[Columns.ACTION_DIST_INPUTS].data, expected, atol=1e-4
            )
            np.testing.assert_allclose(
                part.extra_model_outputs[Columns.ACTION_LOGP].data,
                expected[np.arange(len(part)), part.actions.data],
                atol=1e-4,
            )
    assert seen == set(snapshots)
    assert deals == pytest.approx(200 * config.league.past, abs=25)


def test_without_exploration_the_most_probable_action_is_played():
    runner = make_runner(small_config())
    for episode in runner.sample(explore=False):
        for part in episode.agent_episodes.values():
            chances = part.extra_model_outputs[Columns.ACTION_DIST_INPUTS].data
            np.testing.assert_array_equal(part.actions.data, chances.argmax(axis=1))


def test_masked_chances_stay_finite_for_huge_logits_and_one_legal_action():
    runner = make_runner(small_config())
    module = runner.module[LEARNER]
    torch.nn.init.constant_(module.network.actor_head.bias, 0)
    with torch.no_grad():
        module.network.actor_head.bias[::2] = 1e4
        module.network.actor_head.bias[1::2] = -1e4
    size = runner.games.encoder.size
    mask = torch.zeros(3, 40, dtype=torch.int8)
    mask[0, 1], mask[1, :2], mask[2, 1:4:2] = 1, 1, 1
    batch = {
        Columns.OBS: {"observation": torch.zeros(3, size, dtype=torch.int8), "action_mask": mask}
    }
    inputs = module.forward_train(batch)[Columns.ACTION_DIST_INPUTS]
    distribution = TorchCategorical.from_logits(inputs)
    chances = distribution._dist.probs
    assert (chances[mask == 0] == 0).all()
    torch.testing.assert_close(chances.sum(-1), torch.ones(3))
    torch.testing.assert_close(distribution.entropy()[0], torch.tensor(0.0))
    assert set(distribution.sample().tolist()) <= {0, 1, 3}
    distribution.entropy().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())


def test_the_learners_batch_is_what_rllibs_own_pieces_make_of_the_same_deals():
    config = small_config(3, 30, "gae_lambda=0.7")
    runner = make_runner(config)
    episodes = runner.sample()
    ours = DealsToBatch(config.gae_lambda)(rl_module=runner.module, episodes=episodes)[LEARNER]
    settings = make_config(config, 0).learners(add_default_connectors_to_learner_pipeline=True)
    settings._learner_connector = None
    agents = [f"player_{seat}" for seat in range(3)]
    spaces = (Dict(dict.fromkeys(agents, space)) for space in runner.get_spaces()["__env__"])
    pipeline = settings.build_learner_connector(*spaces)
    pipeline.prepend(AddOneTsToEpisodesAndTruncate())
    pipeline.append(GeneralAdvantageEstimation(gamma=1.0, lambda_=config.gae_lambda))
    theirs = pipeline(rl_module=runner.module, batch={}, episodes=episodes)[LEARNER]
    real = theirs.pop(Columns.LOSS_MASK)
    assert len(ours[Columns.ACTIONS]) == int(real.sum())

    def in_order(batch, rows):
        """By what was seen: RLlib goes agent by agent, we go deal by deal."""
        flat = {**batch, **batch[Columns.OBS]}
        seen = [row.tobytes() for row in flat["observation"][rows].numpy().astype(np.int8)]
        assert len(set(seen)) == len(seen)
        order = torch.tensor(sorted(range(len(seen)), key=seen.__getitem__))
        return lambda key: flat[key][rows][order].double()

    mine, other = (
        in_order(ours, torch.ones(len(ours[Columns.ACTIONS]), dtype=bool)),
        in_order(theirs, real),
    )
    for key in (
        "observation",
        "action_mask",
        Columns.ACTIONS,
        Columns.ACTION_LOGP,
        Columns.ACTION_DIST_INPUTS,
        Postprocessing.VALUE_TARGETS,
    ):
        torch.testing.assert_close(mine(key), other(key), atol=1e-5, rtol=1e-5)
    # RLlib scales advantages by the steps that it adds, too.
    gains = other(Postprocessing.ADVANTAGES)
    gains = (gains - gains.mean()) / gains.std(correction=0)
    torch.testing.assert_close(mine(Postprocessing.ADVANTAGES), gains, atol=1e-4, rtol=1e-4)


def test_before_the_first_step_old_and_new_chances_are_equal():
    config = small_config(4, 40)
    runner = make_runner(config)
    runner.set_state({"rl_module": spread(runner.module.get_state(), 100)})
    batch = DealsToBatch(0.9)(rl_module=runner.module, episodes=runner.sample())[LEARNER]
    inputs = runner.module[LEARNER].forward_train(batch)[Columns.ACTION_DIST_INPUTS]
    new = TorchCategorical.from_logits(inputs).logp(batch[Columns.ACTIONS])
    torch.testing.assert_close(
        (new - batch[Columns.ACTION_LOGP]).exp(), torch.ones_like(new), atol=1e-5, rtol=0
    )


def test_the_cast_follows_from_the_deals_seed_alone():
    class Deal:
        id_ = f"{child_seed(np.uint64(1), 2):016x}"

    league = {"sides": 2, "share": 0.5, "pool": 3}
    names = [module_of("player_0", Deal, **league) for _ in range(3)]
    Deal.id_ += "_17"  # the learner numbers episodes so
    assert len({*names, module_of("player_0", Deal, **league)}) == 1
    assert seed_of(Deal) == child_seed(np.uint64(1), 2)
