"""The ids of the registries, with every option as a keyword, in processes that know nothing yet."""

import inspect
import json
import multiprocessing
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
import pytest

from briscola_env import Rules, briscola_v0
from briscola_env.envs.single import BriscolaEnv
from briscola_env.envs.vector import BriscolaVectorEnv
from tests.env_tables import as_bytes, trace

ROOT = Path(__file__).parent.parent

RULES = {
    "players": 4,
    "removed_two": None,
    "cards": None,
    "hand_size": 3,
    "match_wins": 2,
    "max_deals": 5,
    "rebury": "once",
    "rebury_position": "random",
    "exchange_seven": True,
    "exchange_two": True,
    "withdraw": "deuce",
    "show_partner": "both",
    "signals": "conventional",
    "signals_from_trick": 2,
    "signal_audience": "table",
}
SHOWN = {"reward": "win", "observation": "tokens", "frame": "canonical", "show_points": "own"}
SHOWN |= {"recent_tricks": 2}
LEARNER = {"opponent": "greedy", "partner": ["random"], "seat": "random"}
LEARNER |= {"illegal_action": "terminate"}

AEC = {**RULES, **SHOWN, "render_mode": "ansi"}
SINGLE = {**AEC, **LEARNER}
VECTOR = {**RULES, **SHOWN, **LEARNER, "autoreset_mode": "same_step", "copy": False}

ID, AEC_ID = "briscola_env:Briscola-v0", "briscola-v0"


@pytest.mark.parametrize(
    ("make", "keywords"),
    [(briscola_v0.raw_env, AEC), (BriscolaEnv, SINGLE), (BriscolaVectorEnv, VECTOR)],
)
def test_every_option_is_among_the_keywords(make: Any, keywords: dict[str, Any]) -> None:
    parameters = inspect.signature(make).parameters.values()
    named = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert named | {field.name for field in fields(Rules)} == set(keywords)


def play(env: Any) -> list[Any]:
    """All that a learner sees in an episode of lowest legal actions."""
    observation, info = env.reset(seed=7)
    seen, over = [as_bytes(observation), as_bytes(info)], False
    while not over:
        observation, reward, terminated, truncated, info = env.step(
            int(observation["action_mask"].argmax())
        )
        seen.append([as_bytes(observation), reward, terminated, truncated, as_bytes(info)])
        over = terminated or truncated
    return seen


def play_batch(env: Any) -> list[Any]:
    """All that a batch of learners sees in forty steps of lowest legal actions."""
    observation, _ = env.reset(seed=7)
    seen = []
    for _ in range(40):
        observation, rewards, *_ = env.step(observation["action_mask"].argmax(axis=1))
        seen.append([as_bytes(dict(sorted(observation.items()))), as_bytes(rewards)])
    return seen


def play_all(env: Any) -> list[Any]:
    """All that every agent sees in an episode."""
    env.reset(seed=7)
    return trace(env)


def by_id(kind: str) -> list[Any]:
    """Make an environment by its id, as a user does, and play."""
    if kind == "aec":
        import briscola_env  # noqa: F401

        return play_all(pettingzoo.make("aec", AEC_ID, **AEC))
    if kind == "single":
        return play(gymnasium.make(ID, **SINGLE))
    return play_batch(gymnasium.make_vec(ID, num_envs=3, **VECTOR))


def directly(kind: str) -> list[Any]:
    """The same without the registries."""
    if kind == "aec":
        return play_all(briscola_v0.env(**AEC))
    if kind == "single":
        return play(BriscolaEnv(**SINGLE))
    return play_batch(BriscolaVectorEnv(3, **VECTOR))


KINDS = ["single", "vector"]
if hasattr(pettingzoo, "make"):  # PettingZoo has a registry from 1.27 on
    KINDS.append("aec")


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_process_makes_every_environment_by_its_id(kind: str, tmp_path: Path) -> None:
    names = {"aec": "AEC", "single": "SINGLE", "vector": "VECTOR"}
    keywords = globals()[names[kind]]
    make = {
        "aec": f"import briscola_env, pettingzoo; env = pettingzoo.make('aec', {AEC_ID!r}, **k)",
        "single": f"import gymnasium; env = gymnasium.make({ID!r}, **k)",
        "vector": f"import gymnasium; env = gymnasium.make_vec({ID!r}, num_envs=3, **k)",
    }[kind]
    code = f"import json; k = json.loads({json.dumps(keywords)!r}); {make}; env.reset(seed=7); "
    code += "print(env.unwrapped.rules)"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == str(Rules(**RULES))


def test_spawned_workers_make_them_by_their_ids_and_play_the_same_games() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.map(by_id, KINDS)
    assert there == [directly(kind) for kind in KINDS]


def test_gymnasium_s_own_spawned_workers_play_the_same_games() -> None:
    envs = gymnasium.make_vec(
        ID, 2, "async", vector_kwargs={"context": "spawn", "shared_memory": False}, **SINGLE
    )
    observations, info = envs.reset(seed=[7, 8])
    singles = [BriscolaEnv(**SINGLE) for _ in range(2)]
    for i, env in enumerate(singles):
        own, facts = env.reset(seed=7 + i)
        for name in own:
            np.testing.assert_array_equal(observations[name][i], own[name])
        assert facts["seat"] == info["seat"][i]
    actions = observations["action_mask"].argmax(axis=1)
    observations, rewards, *_ = envs.step(actions)
    for i, env in enumerate(singles):
        own, reward, *_ = env.step(int(actions[i]))
        for name in own:
            np.testing.assert_array_equal(observations[name][i], own[name])
        assert reward == rewards[i]
    envs.close()
