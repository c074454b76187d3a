"""Many games in one array, for those who write their own learner (docs/selfplay.md).

`Games` steps N games with one call and shows each seat to act what it knows, as arrays. The cards
are those of the other environments: game i is the single environment with its seed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS
from briscola_env.checks import check_one_of, whole_number
from briscola_env.dealing import deal, deal_one
from briscola_env.encoding import Encoder, action_at_table, encode_one, reorder_mask, suit_order
from briscola_env.engine import is_legal_one, legal_actions, returns, step_one
from briscola_env.envs.table import REWARDS, check_reset_options, fresh_seed
from briscola_env.information import info_state, info_state_one
from briscola_env.jit import kernel
from briscola_env.rng import DEAL_STREAM, child_seed, deal_seeds
from briscola_env.rules import IllegalActionError, Rules
from briscola_env.state import GAME_STATE, States, format_state, new_states


@kernel
def first_illegal(states: Any, rows: Any, actions: Any, frame: Any) -> Any:
    """The first k for which game rows[k] goes on and actions[k] is not legal in it, -1 if none."""
    for k in range(len(rows)):
        state = states[rows[k]]
        action = action_at_table(np.int64(actions[k]), suit_order(state, frame))
        if state["current_player"] >= 0 and not is_legal_one(state, action):
            return k
    return -1


@kernel
def _take(
    states: Any, rows: Any, actions: Any, frame: Any, at_end: Any, scale: Any, rewards: Any
) -> None:
    """Take actions[k] in game rows[k], and add what it earns to its row of `rewards` [N, players].

    at_end: an episode's winner earns 1; else a trick's winner its points times `scale`.
    """
    for k in range(len(rows)):
        state = states[rows[k]]
        if state["current_player"] < 0:
            continue
        players, sides = np.int64(state["players"]), np.int64(state["sides"])
        action = action_at_table(np.int64(actions[k]), suit_order(state, frame))
        ends_trick = action < NUM_CARDS and state["table_count"] + 1 == players
        step_one(state, action)
        side, amount = np.int64(-1), 1.0
        if at_end:
            side = np.int64(state["winner"])
        elif ends_trick:
            side, amount = np.int64(state["last_winner"]) % sides, state["last_points"] * scale
        for seat in range(players if side >= 0 else 0):
            rewards[rows[k], seat] += amount if seat % sides == side else -amount / (sides - 1)


@kernel
def _deal_again(
    states: Any, which: Any, base_seeds: Any, episodes: Any, episode_seeds: Any, decisions: Any
) -> None:
    """Deal the next episode in the games marked in `which`, bool [N]."""
    for i in range(len(states)):
        if which[i]:
            episode_seeds[i] = child_seed(base_seeds[i], episodes[i])
            episodes[i] += 1
            decisions[i] = 0
            deal_one(states[i], child_seed(episode_seeds[i], DEAL_STREAM), -1)


@kernel
def _masks(states: Any, seats: Any, frame: Any, masks: Any) -> None:
    """Legal actions of `seats`, 0 for a seat that is not to move."""
    legal_actions(states, masks)
    for i in range(len(states)):
        if seats[i] != states[i]["current_player"]:
            for action in range(masks.shape[1]):
                masks[i, action] = False
        elif frame > 0 and seats[i] >= 0:
            reorder_mask(masks, i, suit_order(states[i], frame))


@kernel
def _observe(
    states: Any,
    seats: Any,
    info: Any,
    frame: Any,
    reburied: Any,
    messages: Any,
    match_wins: Any,
    show_points: Any,
    recent_tricks: Any,
    out: Any,
    masks: Any,
) -> None:
    """Features and masks of `seats` (-1: zeros); `info` [1] is scratch that stays in the cache."""
    known = info[0]
    for i in range(len(states)):
        if seats[i] < 0:
            for place in range(out.shape[1]):
                out[i, place] = 0
        else:
            info[0] = states[i]
            info_state_one(states[i], seats[i], known)
            encode_one(
                known, frame, reburied, messages, match_wins, show_points, recent_tricks, i, out
            )
    _masks(states, seats, frame, masks)


class Games:
    """N games that are stepped together.

    num_games: N. auto_reset: deal the next episode at once in a game that is over; else it stays as
    it is until `reset`. reward, show_points, frame, recent_tricks, rules: as in `BriscolaAECEnv`.
    ValueError (InvalidRulesError for rules) names a keyword or value that is not allowed.

    states: records [N]. seats: int64 [N], who is to act, -1 where a game is over. episode_seeds:
    uint64 [N]. decisions: int64 [N], actions taken in each game's episode.
    """

    def __init__(
        self,
        num_games: int,
        *,
        auto_reset: bool = False,
        reward: str = "points",
        show_points: str = "hidden",
        frame: str = "table",
        recent_tricks: int = 0,
        **rules: Any,
    ) -> None:
        check_one_of("reward", reward, REWARDS)
        self.num_games = whole_number("num_games", num_games, 1)
        self.rules = Rules.from_dict(rules)
        self.encoder = Encoder(self.rules, frame, show_points, recent_tricks)
        self.auto_reset = auto_reset
        self.states: States = new_states(self.rules, num_games)
        self.episode_seeds = np.zeros(num_games, np.uint64)
        self.decisions = np.zeros(num_games, np.int64)
        self._base_seeds: NDArray[np.uint64] | None = None
        self._episodes = np.zeros(num_games, np.int64)
        self._at_end = reward == "win"
        self._scale = 1 / max(self.rules.deck_points, 1)
        self._info: States = np.empty(1, GAME_STATE)

    @property
    def seats(self) -> NDArray[np.int64]:
        """Who is to act, int64 [N]; -1 where a game is over."""
        return self.states["current_player"].astype(np.int64)

    @property
    def returns(self) -> NDArray[np.int16]:
        """Card points of each seat's side in the deal so far, int16 [N, players]."""
        out = np.empty((self.num_games, self.rules.players), np.int16)
        returns(self.states, out)
        return out

    def reset(
        self,
        seed: int | Sequence[int] | None = None,
        which: NDArray[np.bool_] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Deal the next episode in every game, or in those marked in `which`, bool [N].

        seed: game i has the episodes of seed + i, or of seed[i], from the first one on; without it
        they go on. options: `dealer` and `deck`, see `BriscolaAECEnv.reset`.
        """
        which = np.ones(self.num_games, np.bool_) if which is None else np.asarray(which, np.bool_)
        dealer, deck = check_reset_options(self.rules, options or {})
        if seed is not None or self._base_seeds is None:
            self._seed(fresh_seed() if seed is None else seed)
        assert self._base_seeds is not None
        _deal_again(
            self.states, which, self._base_seeds, self._episodes, self.episode_seeds, self.decisions
        )
        if dealer >= 0 or deck is not None:
            rows = np.flatnonzero(which)
            chosen, seeds = self.states[rows], np.empty(len(rows), np.uint64)
            deal_seeds(self.episode_seeds[rows], seeds)
            decks = None if deck is None else np.tile(deck, (len(rows), 1))
            deal(chosen, seeds, np.full(len(rows), dealer), decks)
            self.states[rows] = chosen

    def _seed(self, seed: int | Sequence[int]) -> None:
        seeds = [seed + i for i in range(self.num_games)] if isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_games:
            raise ValueError(f"seed: {len(seeds)} seeds for {self.num_games} games")
        wrapped = [whole_number("seed", number, 0) % 2**64 for number in seeds]
        self._base_seeds = np.array(wrapped, np.uint64)
        self._episodes[:] = 0

    def step(self, actions: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Take an action of the seat to act in every game; finished games ignore theirs.

        actions: whole numbers [N], in the frame. Returns what the action earned every seat, float32
        [N, players], and which games it ended, bool [N]; with `auto_reset` these are dealt again
        already, and `states` shows the new episode, `returns` included.
        IllegalActionError names the game, the action and the position; then nothing has changed.
        """
        actions = self.checked(actions)
        rows = np.arange(self.num_games)
        wrong = first_illegal(self.states, rows, actions, self.encoder.frame_index)
        if wrong >= 0:
            raise self.illegal(wrong, actions[wrong])
        rewards = np.zeros((self.num_games, self.rules.players), np.float32)
        playing = self.states["current_player"] >= 0
        self.take(rows, actions, rewards)
        over = playing & (self.states["current_player"] < 0)
        if self.auto_reset and over.any():
            self.reset(which=over)
        return rewards, over

    def checked(self, actions: NDArray[Any]) -> NDArray[np.int64]:
        """Actions as int64 [N]; IllegalActionError if they are not N whole numbers."""
        actions = np.asarray(actions)
        if actions.shape != (self.num_games,) or actions.dtype.kind not in "iu":
            raise IllegalActionError(
                f"actions {actions.dtype} {list(actions.shape)}: whole numbers "
                f"[{self.num_games}] are asked for"
            )
        return actions.astype(np.int64, copy=False)

    def illegal(self, game: int, action: int) -> IllegalActionError:
        """The error for an illegal action in a game, with what the seat to act sees."""
        one = slice(game, game + 1)
        known = np.empty(1, GAME_STATE)
        info_state(self.states[one], self.seats[one], known)
        return IllegalActionError(
            f"game {game}: player_{self.seats[game]} may not take action {action}\n"
            + format_state(known[0])
        )

    def take(
        self,
        rows: NDArray[np.int64],
        actions: NDArray[np.int64],
        rewards: NDArray[np.float32],
        framed: bool = True,
    ) -> None:
        """Take unchecked actions [K] in the games `rows` [K], adding to `rewards` [N, players].

        framed: the actions are in the frame of the observations, else at the table.
        """
        _take(
            self.states,
            rows,
            actions,
            self.encoder.frame_index if framed else 0,
            self._at_end,
            self._scale,
            rewards,
        )
        self.decisions[rows] += 1

    def observe(
        self,
        seats: NDArray[np.int64] | None = None,
        out: tuple[NDArray[np.int8], NDArray[np.bool_]] | None = None,
    ) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """What the seats to act (or `seats` [N]) see, in new arrays or in `out`.

        Features, int8 [N, size] (`encoder.features`), and legal actions, bool [N, num_actions], all
        False for a seat that is not to move; both in the frame. Rows of seat -1 are 0.
        """
        features, masks = out or (
            np.empty((self.num_games, self.encoder.size), np.int8),
            np.empty((self.num_games, self.rules.num_actions), np.bool_),
        )
        shown = self.seats if seats is None else seats
        _observe(self.states, shown, self._info, *self.encoder.arguments, features, masks)
        return features, masks

    def masks(self, seats: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
        """The legal actions alone, as in `observe`."""
        masks = np.empty((self.num_games, self.rules.num_actions), np.bool_)
        shown = self.seats if seats is None else seats
        _masks(self.states, shown, self.encoder.frame_index, masks)
        return masks

    def info_states(self, seats: NDArray[np.int64] | None = None) -> States:
        """What the seats to act (or `seats` [N]) know, as records [N] for a `Policy`."""
        infos = np.empty(self.num_games, GAME_STATE)
        info_state(self.states, np.maximum(self.seats if seats is None else seats, 0), infos)
        return infos
