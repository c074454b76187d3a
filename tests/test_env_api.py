"""The environments as PettingZoo and Gymnasium want them: their own tests, registries, pickles."""

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, render_test, seed_test
from pettingzoo.test.state_test import test_state as check_state
from pettingzoo.test.state_test import test_state_space as check_state_space
from pettingzoo.utils import BaseWrapper

import briscola_env
from briscola_env import briscola_v0
from briscola_env.envs.single import BriscolaEnv
from briscola_env.policies import RandomPolicy
from tests.env_tables import TABLES, advance, as_bytes, games, legal, trace, turns

ROOT = Path(__file__).parent.parent

all_tables = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
both = pytest.mark.parametrize("make", [briscola_v0.env, briscola_v0.raw_env], ids=["env", "raw"])

# What PettingZoo's api_test says of environments with an action mask that are not its own.
expected_warnings = [
    # It wants observations to be bare arrays, but exempts its own environments with a mask by name.
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array"),
    pytest.mark.filterwarnings("ignore:Observation space for each agent probably should be"),
    # At the end of the game no action is legal, and the mask says so.
    pytest.mark.filterwarnings("ignore:Action mask numpy array is all zeros"),
]


def expecting_these(test: Any) -> Any:
    for mark in expected_warnings:
        test = mark(test)
    return test


class Flat(BaseWrapper):  # type: ignore[misc, type-arg]
    """Only the vector of features, for learners that know no Dict; the mask is in `infos`."""

    def observe(self, agent: str) -> Any:
        return super().observe(agent)["observation"]

    def observation_space(self, agent: str) -> Any:
        return super().observation_space(agent)["observation"]


# ------------------------------------------------------------------------ PettingZoo's own tests


@expecting_these
@both
@all_tables
def test_pettingzoo_s_api_test_passes(make: Any, table: dict[str, Any]) -> None:
    api_test(make(**table), num_cycles=200)


@both
def test_a_wrapper_that_flattens_observations_passes_the_api_test_without_a_warning(
    make: Any,
) -> None:
    api_test(Flat(make(players=3)), num_cycles=200)


@both
@all_tables
def test_pettingzoo_s_seed_test_passes(make: Any, table: dict[str, Any]) -> None:
    seed_test(lambda: make(**table), num_cycles=100)


@both
@all_tables
def test_pettingzoo_s_render_test_passes(make: Any, table: dict[str, Any]) -> None:
    def create(render_mode: str) -> Any:
        return make(**table, render_mode=render_mode)

    create.metadata = make().metadata  # type: ignore[attr-defined]
    render_test(create)


@all_tables
def test_pettingzoo_s_state_tests_pass(table: dict[str, Any]) -> None:
    env = briscola_v0.env(**table)
    check_state_space(env)
    check_state(env, num_cycles=10)


@all_tables
def test_gymnasium_s_check_env_passes(table: dict[str, Any]) -> None:
    made = gymnasium.make("Briscola-v0", **table, illegal_action="terminate", seat="random")
    check_env(made.unwrapped)


def test_gymnasium_s_wrappers_have_nothing_to_say() -> None:
    env = gymnasium.make("Briscola-v0", players=4, opponent=["greedy", RandomPolicy()])
    for seed in range(3):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            action = legal(observation["action_mask"])[0]
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        assert info["winner"] in (0, 1, None)


def test_gymnasium_s_vector_environment_runs_copies_with_different_deals() -> None:
    envs = gymnasium.make_vec("Briscola-v0", num_envs=3, vectorization_mode="sync", players=3)
    observations, info = envs.reset(seed=5)
    assert observations["observation"].shape[0] == 3
    assert len({row.tobytes() for row in observations["observation"]}) == 3
    for _ in range(30):
        mask = observations["action_mask"]
        observations, *_, info = envs.step(mask.argmax(axis=1))
    assert "action_mask" in info


# ------------------------------------------------------------------------------- names, metadata


@both
def test_metadata_and_name_are_complete(make: Any) -> None:
    env = make(players=6)
    assert env.metadata["name"] == "briscola_v0"
    assert env.metadata["is_parallelizable"] is False
    assert env.metadata["render_modes"] == ["ansi", "human"]
    assert env.metadata["render_fps"] > 0
    assert str(env) == "briscola_v0"
    assert env.possible_agents == [f"player_{seat}" for seat in range(6)]
    assert env.max_num_agents == 6


def test_the_wrapped_environment_enforces_the_order_of_calls() -> None:
    with pytest.raises(AttributeError):
        _ = briscola_v0.env().agents
    with pytest.raises(AssertionError):
        briscola_v0.env().step(0)


def test_render_modes_do_what_they_say(capsys: pytest.CaptureFixture[str]) -> None:
    env = briscola_v0.raw_env(render_mode="ansi", players=4)
    env.reset(seed=0)
    lines = env.render().splitlines()
    assert [line.split()[-5] for line in lines if ">" in line] == [env.agent_selection]
    assert capsys.readouterr().out == ""
    env = briscola_v0.raw_env(render_mode="human")
    env.reset(seed=0)
    assert "trump" in capsys.readouterr().out
    env.step(legal(env.last()[0]["action_mask"])[0])
    assert "trump" in capsys.readouterr().out
    assert env.render() is None
    assert "trump" in capsys.readouterr().out
    env = briscola_v0.raw_env()
    env.reset(seed=0)
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None


# ---------------------------------------------------------------------------------------- spaces


@all_tables
def test_spaces_contain_all_that_is_observed(table: dict[str, Any]) -> None:
    env = briscola_v0.raw_env(**table)
    for seed in range(games(60)):
        env.reset(seed=seed)
        for agent, *_ in turns(env, np.random.default_rng(seed)):
            assert env.action_space(agent).n == env.rules.num_actions
            for other in env.possible_agents:
                assert env.observation_space(other).contains(env.observe(other))


def test_observations_are_an_int8_dict_and_tokens_are_asked_for() -> None:
    for table in TABLES.values():
        space = briscola_v0.raw_env(**table).observation_space("player_0")
        expected = {"observation", "action_mask"}
        if table.get("observation") == "tokens":
            expected.add("tokens")
            assert space["tokens"].dtype == np.int16
            assert space["tokens"].shape[1] == 3
        assert set(space.keys()) == expected
        assert space["observation"].dtype == space["action_mask"].dtype == np.int8
        assert len(space["observation"].shape) == len(space["action_mask"].shape) == 1


# --------------------------------------------------------------------------------- copies, pickles

COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: pickle.loads(cloudpickle.dumps(env)),
}


@both
@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES)
@all_tables
def test_a_copy_in_mid_trick_goes_on_with_the_same_game(
    table: dict[str, Any], how: Callable[[Any], Any], make: Any
) -> None:
    env = make(**table)
    env.reset(seed=9)
    advance(env, 5)
    twin = how(env)
    rest = trace(twin)
    assert trace(env) == rest
    for again in (env, twin):
        again.reset()
    assert trace(env) == trace(twin)


@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES)
def test_a_copy_of_the_single_environment_goes_on_with_the_same_game(
    how: Callable[[Any], Any],
) -> None:
    env = BriscolaEnv(players=4, opponent="greedy", frame="trump_first")
    observation, _ = env.reset(seed=9)
    observation, *_ = env.step(legal(observation["action_mask"])[0])
    twin = how(env)
    while True:
        action = legal(observation["action_mask"])[-1]
        step, same = env.step(action), twin.step(action)
        assert as_bytes(step) == as_bytes(same)
        observation = step[0]
        if step[2]:
            break
    assert as_bytes(env.reset()) == as_bytes(twin.reset())


# ------------------------------------------------------------------------------ other processes


def run(code: str, folder: Path, **environ: str) -> str:
    """What a fresh interpreter prints in another folder, warnings being errors."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_fresh_process_makes_the_gymnasium_environment_by_its_full_name(tmp_path: Path) -> None:
    code = (
        "import gymnasium; env = gymnasium.make('briscola_env:Briscola-v0', players=2, "
        "opponent='greedy', seat='random'); env.reset(seed=1); print(env.unwrapped)"
    )
    assert "Briscola" in run(code, tmp_path)


def test_a_fresh_process_makes_the_pettingzoo_environment_from_its_registry(tmp_path: Path) -> None:
    code = "import pettingzoo, briscola_env"
    if hasattr(pettingzoo, "make"):  # from 1.27 on
        code += "; print(pettingzoo.make('aec', 'briscola-v0', players=4))"
        assert run(code, tmp_path) == "briscola_v0"
    else:
        assert run(code, tmp_path) == ""


def test_the_import_is_light_and_needs_no_extra(tmp_path: Path) -> None:
    code = (
        "import sys, briscola_env; "
        "heavy = {'numba', 'torch', 'stable_baselines3', 'ray', 'pygame', 'pyspiel'}; "
        "print(sorted(heavy & sys.modules.keys())); "
        "from briscola_env import briscola_v0; from briscola_env.envs import single; "
        "print(sorted((heavy - {'numba'}) & sys.modules.keys()))"
    )
    assert run(code, tmp_path).splitlines() == ["[]", "[]"]


def test_games_do_not_depend_on_the_process(tmp_path: Path) -> None:
    code = (
        "import hashlib; from briscola_env import briscola_v0; "
        "from tests.env_tables import TABLES, trace\n"
        "digest = hashlib.sha256()\n"
        "for table in TABLES.values():\n"
        "    env = briscola_v0.raw_env(**table)\n"
        "    env.reset(seed=0)\n"
        "    digest.update(repr(trace(env)).encode())\n"
        "print(digest.hexdigest())"
    )
    assert len({run(code, tmp_path, PYTHONHASHSEED=seed) for seed in ("0", "1")}) == 1


def play_elsewhere(pickled: bytes, folder: str) -> list[Any]:
    """In another process: build the environment in another folder, and play."""
    os.chdir(folder)
    env = cloudpickle.loads(pickled)()
    if isinstance(env, pettingzoo.AECEnv):
        env.reset(seed=3)
        return trace(env)
    return [as_bytes(env.reset(seed=3)), as_bytes(env.step(env.unwrapped.action_masks().argmax()))]


def test_spawned_workers_build_the_environments_and_play_the_same_games(tmp_path: Path) -> None:
    creators = [
        lambda: briscola_v0.env(players=3),
        lambda: gymnasium.make("briscola_env:Briscola-v0", players=4, opponent="greedy"),
    ]
    work = [(cloudpickle.dumps(creator), str(tmp_path)) for creator in creators]
    here = os.getcwd()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        there = pool.starmap(play_elsewhere, work)
    try:
        assert there == [play_elsewhere(*item) for item in work]
    finally:
        os.chdir(here)


def test_the_package_says_its_version_and_what_it_raises() -> None:
    assert f'\nversion = "{briscola_env.__version__}"\n' in (ROOT / "pyproject.toml").read_text()
    with pytest.raises(briscola_env.InvalidRulesError, match="players=5"):
        briscola_env.Rules(players=5)
