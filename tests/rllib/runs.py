"""Small runs for the tests, and a deal played again from an episode."""

import numpy as np

from briscola_env.dealing import deal
from briscola_env.encoding import Encoder
from briscola_env.engine import legal_actions, returns, step
from briscola_env.information import info_state
from briscola_env.rng import deal_seeds
from briscola_env.state import GAME_STATE, new_states
from training.config import load_config
from training.rllib_ppo import DEFAULTS, make_config
from training.rllib_runner import DealRunner

SMALL = ("network.actor=[16]", "network.critic=[16]", "minibatch=256", "precision=float32")


def small_config(players=2, deals=16, *changes):
    table = (f"rules.players={players}", f"deals={deals}")
    return load_config(None, [*DEFAULTS, *SMALL, *table, *changes])


def make_runner(config, index=1, weights=None, number=0):
    """A runner in this process, with its module's own weights or others."""
    runner = DealRunner(config=make_config(config, 0), worker_index=index)
    weights = runner.module.get_state() if weights is None else weights
    runner.set_state({"rl_module": weights, "weights_seq_no": number})
    return runner


def seed_of(episode):
    return int(episode.id_[:16], 16)


def replay(config, episode):
    """Check every decision of an episode against the engine; each seat's margin, card points."""
    rules = config.table
    encoder = Encoder(rules, config.frame, config.show_points)
    states, cards = new_states(rules, 1), np.empty(1, np.uint64)
    deal_seeds(np.array([seed_of(episode)], np.uint64), cards)
    deal(states, cards)
    legal, infos = np.empty((1, rules.num_actions), bool), np.empty(1, GAME_STATE)
    parts = [episode.agent_episodes[f"player_{seat}"] for seat in range(rules.players)]

    def shown(seat, slot):
        info_state(states, np.array([seat]), infos)
        seen = parts[seat].observations.data
        np.testing.assert_array_equal(seen["observation"][slot], encoder.encode(infos)[0])
        return seen["action_mask"][slot]

    for time in range(len(episode)):
        seat = int(states["current_player"][0])
        slot = episode.env_t_to_agent_t[f"player_{seat}"][time]
        legal_actions(states, legal)
        mask = shown(seat, slot)
        np.testing.assert_array_equal(mask, encoder.columns_to_frame(states, legal)[0])
        action = parts[seat].actions.data[slot]
        assert mask[action]
        step(states, encoder.to_table(states, np.array([action])))
    assert states["current_player"][0] == -1
    for seat, part in enumerate(parts):
        assert not shown(seat, len(part)).any()
    points = np.empty((1, rules.players), np.int16)
    returns(states, points)
    side_points = points[0, : rules.sides].astype(float)
    others = (side_points.sum() - side_points) / (rules.sides - 1)
    return (side_points - others)[np.arange(rules.players) % rules.sides]
