"""One game an environment, by RLlib's own runner: nothing of a deal is lost where it is cut."""

from collections import defaultdict

import numpy as np
import pytest
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

from tests.rllib.plain import plain_config
from tests.rllib.runs import small_config


@pytest.mark.parametrize("fragment", [7, 37])
@pytest.mark.parametrize("players", [2, 3, 4])
def test_rewards_of_a_deal_in_fragments_sum_to_its_margins(players, fragment):
    config = small_config(players)
    settings = plain_config(config, 0, fragment).debugging(seed=None)
    runner = MultiAgentEnvRunner(config=settings, worker_index=1)
    earned, points = defaultdict(float), {}
    steps = 0
    while len(points) < 8:
        for part in runner.sample():
            steps += len(part)
            for agent, seen in part.agent_episodes.items():
                earned[part.id_, agent] += seen.get_return()
            if part.is_done:
                points[part.id_] = part.agent_episodes["player_0"].infos.data[-1]["points"]
    assert steps % fragment == 0
    sides = config.table.sides
    for deal, by_side in points.items():
        own = np.array(by_side[:sides], float)
        margins = own - (own.sum() - own) / (sides - 1)
        for seat in range(players):
            got = earned[deal, f"player_{seat}"] * config.table.deck_points
            assert got == pytest.approx(margins[seat % sides], abs=1e-3)
