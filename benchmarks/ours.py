"""Every row for this package: `python -m benchmarks.ours NAME` prints one as JSON."""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from benchmarks.aec import aec_run
from benchmarks.kernels import STAGES, deal_all, playouts, random_columns, steps
from benchmarks.timing import Rows, Run, command_line, rate
from briscola_env import Rules, briscola_v0
from briscola_env.encoding import Encoder
from briscola_env.envs.batch import Games
from briscola_env.state import GAME_STATE, new_states

GAMES = 4096
VECTOR_ENVS = 1024
STEPS = 50  # of all games, in a chunk of work
NO_ACTIONS = np.empty(0, np.int64)


class Seeds:
    """Seeds that do not repeat, for the kernels."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> np.uint64:
        self.last += 1
        return np.uint64(0x9E3779B97F4A7C15 * self.last % 2**64)


def _playouts(players: int) -> float:
    states, seeds = new_states(Rules(players=players), 1), Seeds()
    return rate(lambda: int(playouts(states, 5_000, seeds.next())))


def batch(players: int) -> tuple[Any, ...]:
    """Dealt games, and what the kernels need to show them: info, arguments, out, masks."""
    rules = Rules(players=players)
    states = new_states(rules, GAMES)
    deal_all(states, Seeds().next())
    encoder = Encoder(rules)
    out = np.zeros((GAMES, encoder.size), np.int8)
    masks = np.zeros((GAMES, rules.num_actions), np.bool_)
    info = np.zeros(1, GAME_STATE)
    return states, info, encoder.arguments, out, masks


def _random_steps(players: int) -> float:
    """The action is chosen inside the kernel: one call for all steps of a chunk."""
    (states, *shown), seeds = batch(players), Seeds()

    def run() -> int:
        steps(states, NO_ACTIONS, STEPS, len(STAGES), seeds.next(), *shown)
        return STEPS * GAMES

    return rate(run)


def _given_steps(players: int) -> float:
    """A loop in Python: actions from the masks (in the time too), then one call for the step."""
    (states, *shown), seeds = batch(players), Seeds()
    steps(states, NO_ACTIONS, 1, len(STAGES), seeds.next(), *shown)
    masks, actions = shown[-1].view(np.int64), np.empty(GAMES, np.int64)

    def run() -> int:
        for _ in range(STEPS):
            random_columns(masks, seeds.next(), actions)
            steps(states, actions, 1, len(STAGES), seeds.next(), *shown)
        return STEPS * GAMES

    return rate(run)


def _games(players: int) -> float:
    """The same by `Games`, which checks the actions and returns new arrays."""
    games = Games(GAMES, auto_reset=True, players=players)
    games.reset(seed=1)
    masks, seeds, actions = [games.masks()], Seeds(), np.empty(GAMES, np.int64)

    def run() -> int:
        for _ in range(STEPS):
            random_columns(masks[0].view(np.int64), seeds.next(), actions)
            games.step(actions)
            masks[0] = games.observe()[1]
        return STEPS * GAMES

    return rate(run)


def vector_run(mode: str) -> Run:
    """`gymnasium.make_vec` against a random opponent; a step of one environment counts one."""
    envs = gymnasium.make_vec("Briscola-v0", VECTOR_ENVS, vectorization_mode=mode)
    observation, _ = envs.reset(seed=1)
    masks, seeds = [observation["action_mask"]], Seeds()
    actions, rounds = np.empty(VECTOR_ENVS, np.int64), 1 if mode == "sync" else STEPS

    def run() -> int:
        for _ in range(rounds):
            random_columns(np.ascontiguousarray(masks[0]).view(np.int64), seeds.next(), actions)
            masks[0] = envs.step(actions)[0]["action_mask"]
        return rounds * VECTOR_ENVS

    return run


_FIRST_GAME = """
import json, time
start = time.perf_counter()
import briscola_env
imported = time.perf_counter()
from briscola_env import briscola_v0
env = briscola_v0.raw_env()
env.reset(seed=1)
for agent in env.agent_iter():
    observation, _, terminated, truncated, _ = env.last()
    over = terminated or truncated
    env.step(None if over else int(observation["action_mask"].argmax()))
print(json.dumps([imported - start, time.perf_counter() - start]))
"""


def _new_process(cache: str | None) -> tuple[float, float]:
    """Seconds by the clock until the package is imported, and until one AEC game is over."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    command = [sys.executable, "-c", _FIRST_GAME]
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    imported, played = json.loads(done.stdout)
    return imported, played


def _import() -> float:
    return _new_process(None)[0]


def _first_game_warm() -> float:
    _new_process(None)  # fills the cache if it is not filled yet
    return _new_process(None)[1]


def _first_game_empty() -> float:
    with tempfile.TemporaryDirectory() as cache:
        return _new_process(cache)[1]


ROWS: Rows = {
    **{f"playouts_{n}": partial(_playouts, n) for n in (2, 6)},
    **{f"random_steps_{n}": partial(_random_steps, n) for n in (2, 6)},
    **{f"given_steps_{n}": partial(_given_steps, n) for n in (2, 6)},
    **{f"games_{n}": partial(_games, n) for n in (2, 6)},
    "raw_env": lambda: rate(aec_run(briscola_v0.raw_env)),
    "env": lambda: rate(aec_run(briscola_v0.env)),
    "vector": lambda: rate(vector_run("vector_entry_point")),
    "sync": lambda: rate(vector_run("sync")),
    "import": _import,
    "first_game_warm": _first_game_warm,
    "first_game_empty": _first_game_empty,
}

if __name__ == "__main__":
    command_line(ROWS)
