"""Every row for the other libraries: `python -m benchmarks.peers NAME` prints one as JSON.

Each library is imported only by its own rows. Where a choice had to be made, it is the one that is
faster for them.
"""

import logging
import warnings
from functools import partial
from random import Random
from typing import Any

from benchmarks.aec import aec_run
from benchmarks.timing import Rows, command_line, rate

GAMES = 4096

# --------------------------------------------------------------------------------- OpenSpiel, C++


def _play(state: Any, rng: Random, until_dealt: bool = False) -> int:
    """Random actions to the end, or only until the cards are dealt; how many players' actions."""
    plies = 0
    while not state.is_terminal():
        chance = state.is_chance_node()
        if until_dealt and not chance:
            break
        actions = state.legal_actions()
        state.apply_action(actions[int(rng.random() * len(actions))])
        plies += not chance
    return plies


def _rollouts(name: str) -> float:
    """Whole random playouts in C++, from dealt positions: dealing is not in their time.

    `RandomRolloutEvaluator` has no method for Python, so a tree search of a single simulation calls
    it: that simulation is nothing but its rollouts from the root. How long a playout is on average
    is counted beforehand on random games played from Python, from the same positions.
    """
    import pyspiel

    positions, sample, rollouts = 20, 50, 500
    game, rng = pyspiel.load_game(name), Random(1)
    states = [game.new_initial_state() for _ in range(positions)]
    for state in states:
        _play(state, rng, until_dealt=True)
    plies = sum(_play(state.clone(), rng) for state in states for _ in range(sample)) / sample
    evaluator = pyspiel.RandomRolloutEvaluator(rollouts, 1)
    bot = pyspiel.MCTSBot(game, evaluator, 1.0, 1, 100, False, 1, False)

    def run() -> int:
        for state in states:
            bot.mcts_search(state)
        return round(plies * rollouts)

    return rate(run)


# ------------------------------------------------------------------------- OpenSpiel, from Python


def _observed(name: str, dealing: bool) -> float:
    """Games stepped from Python with the numpy observer of the seat to act; players' actions.

    dealing: as in our rows; otherwise a game starts as a copy of a dealt position.
    """
    import pyspiel
    from open_spiel.python.observation import make_observation

    game, rng = pyspiel.load_game(name), Random(1)
    observer, uniform = make_observation(game), rng.random
    dealt = game.new_initial_state()
    _play(dealt, rng, until_dealt=True)

    def run() -> int:
        plies = 0
        for _ in range(20):
            state = game.new_initial_state() if dealing else dealt.clone()
            while not state.is_terminal():
                actions = state.legal_actions()
                if not state.is_chance_node():
                    observer.set_from(state, state.current_player())
                    plies += 1
                state.apply_action(actions[int(uniform() * len(actions))])
        return plies

    return rate(run)


# -------------------------------------------------------------------------------------------- Pgx


def _pgx(name: str) -> float:
    """Jitted and vmapped, with observation and auto-reset, a random action inside."""
    import jax
    import jax.numpy as jnp
    import pgx
    from pgx.experimental import auto_reset

    env, rounds = pgx.make(name), 50
    step = jax.vmap(auto_reset(env.step, env.init))

    def random_action(key: Any, legal: Any) -> Any:
        # One random number a game; jax.random.categorical would draw one for each action.
        left = jnp.floor(jax.random.uniform(key, (GAMES, 1)) * legal.sum(axis=1, keepdims=True))
        return (jnp.cumsum(legal, axis=1) > left).argmax(axis=1)

    def one_round(state: Any, key: Any) -> tuple[Any, None]:
        choose, deal = jax.random.split(key)
        actions = random_action(choose, state.legal_action_mask)
        return step(state, actions, jax.random.split(deal, GAMES)), None

    @jax.jit
    def chunk(state: Any, key: Any) -> Any:
        return jax.lax.scan(one_round, state, jax.random.split(key, rounds))[0]

    key = jax.random.PRNGKey(1)
    states = [jax.jit(jax.vmap(env.init))(jax.random.split(key, GAMES))]

    def run() -> int:
        # Every chunk starts from where the last one ended.
        states[0] = jax.block_until_ready(chunk(states[0], jax.random.PRNGKey(run.chunks)))
        run.chunks += 1
        return rounds * GAMES

    run.chunks = 0
    return rate(run)


# ------------------------------------------------------------------------------ PettingZoo, RLCard


def _pettingzoo(name: str, function: str) -> float:
    from importlib import import_module

    return rate(aec_run(getattr(import_module(f"pettingzoo.classic.{name}"), function)))


def _rlcard(name: str) -> float:
    """Its own loop: `step` returns the next state, with observation and legal actions."""
    import rlcard

    env, uniform = rlcard.make(name, {"seed": 1}), Random(1).random

    def run() -> int:
        steps = 0
        while steps < 500:
            state, _ = env.reset()
            while not env.is_over():
                legal = list(state["legal_actions"])
                state, _ = env.step(legal[int(uniform() * len(legal))])
                steps += 1
        return steps

    return rate(run)


ROWS: Rows = {
    **{f"rollouts_{name}": partial(_rollouts, name) for name in ("oh_hell", "spades", "euchre")},
    "observed_spades": partial(_observed, "spades", True),
    "observed_spades_dealt": partial(_observed, "spades", False),
    **{f"pgx_{name}": partial(_pgx, name) for name in ("leduc_holdem", "kuhn_poker")},
    "tictactoe_env": partial(_pettingzoo, "tictactoe_v3", "env"),
    "tictactoe_raw_env": partial(_pettingzoo, "tictactoe_v3", "raw_env"),
    **{
        f"{name}_env": partial(_pettingzoo, name, "env")
        for name in ("leduc_holdem_v4", "texas_holdem_v4", "texas_holdem_no_limit_v6", "hanabi_v5")
    },
    **{f"rlcard_{name}": partial(_rlcard, name) for name in ("leduc-holdem", "uno", "bridge")},
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of their own spaces
    logging.disable(logging.WARNING)
    command_line(ROWS)
