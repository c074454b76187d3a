"""One game as an environment shows it: what PettingZoo's and Gymnasium's environment share.

A `Table` holds the record of one game and says what a seat observes, which actions are legal, what
an action earns each side, and from which seed each episode is dealt. The environments translate
this into their protocols.
"""

import copy
import operator
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS, cards_of, format_cards
from briscola_env.checks import check_one_of, whole_number
from briscola_env.dealing import deal
from briscola_env.encoding import (
    Encoder,
    action_at_table,
    encode_one,
    reorder_mask,
    suit_order,
)
from briscola_env.engine import is_legal_one, legal_actions_one, step_one
from briscola_env.information import info_state, info_state_one
from briscola_env.jit import inlined_kernel, kernel
from briscola_env.rng import child_seed, deal_seeds
from briscola_env.rules import IllegalActionError, Rules
from briscola_env.state import GAME_STATE, States, format_state, new_states

REWARDS = ("points", "win")
OBSERVATIONS = ("planes", "tokens")
INT8 = np.dtype(np.int8)  # NumPy takes a dtype faster than a type
ILLEGAL = -2  # instead of a seat: the action was not legal and nothing has changed

Observation = dict[str, NDArray[Any]]


@inlined_kernel
def mask_one(state: Any, frame: Any, row: Any, masks: Any) -> None:
    """Legal actions of the seat to act into that row of `masks`, in the frame; 0 if it is over."""
    legal_actions_one(state, row, masks)
    if frame > 0:
        reorder_mask(masks, row, suit_order(state, frame))


@kernel
def _mask(games: Any, frame: Any, mask: Any) -> None:
    mask_one(games[0], frame, 0, mask.reshape((1, len(mask))))


@kernel
def _play(games: Any, action: Any, frame: Any, mask: Any) -> Any:
    """Take an action if it is legal, and write the legal actions of the next seat into `mask`.

    Returns the seat to act (-1: the game is over, ILLEGAL: nothing has changed, nor the mask), the
    side that won the trick that the action ended (-1 if it ended none), and the card points of that
    trick.
    """
    state = games[0]
    action = action_at_table(action, suit_order(state, frame))
    if not is_legal_one(state, action):
        return np.int64(ILLEGAL), np.int64(-1), np.int64(0)
    ends_trick = action < NUM_CARDS and state["table_count"] + 1 == state["players"]
    step_one(state, action)
    mask_one(state, frame, 0, mask.reshape((1, len(mask))))
    side, points = np.int64(-1), np.int64(0)
    if ends_trick:
        side = np.int64(state["last_winner"]) % np.int64(state["sides"])
        points = np.int64(state["last_points"])
    return np.int64(state["current_player"]), side, points


@kernel
def _observe(games: Any, seat: Any, arguments: Any, out: Any, mask: Any) -> None:
    """What `seat` knows of games[0] into games[1] and, as features, into `out`; its legal actions.

    arguments: those of the encoder as an array; an array is unpacked faster than six numbers.
    """
    known = games[1]
    games[1] = games[0]
    info_state_one(games[0], seat, known)
    frame, reburied = arguments[0], arguments[1] != 0
    messages, match_wins = arguments[2], arguments[3]
    show_points, recent_tricks = arguments[4], arguments[5]
    row = out.reshape((1, len(out)))
    encode_one(known, frame, reburied, messages, match_wins, show_points, recent_tricks, 0, row)
    if seat == known["current_player"]:
        mask_one(games[0], frame, 0, mask.reshape((1, len(mask))))
    else:
        mask[:] = 0


def observation_space(encoder: Encoder, observation: str) -> Space[Observation]:
    """A new space of what a seat observes, as one of OBSERVATIONS; ValueError for another.

    Its attribute `briscola` holds its encoder's arguments and digest as plain values.
    """
    check_one_of("observation", observation, OBSERVATIONS)
    rules = encoder.rules
    spaces: dict[str, Any] = {
        "observation": Box(0, 1, (encoder.size,), np.int8),
        "action_mask": Box(0, 1, (rules.num_actions,), np.int8),
    }
    if observation == "tokens":
        highest = [rules.num_actions - 1, rules.players - 1, rules.num_tricks - 1]
        high = np.tile(np.array(highest, np.int16), (rules.max_history, 1))
        spaces["tokens"] = Box(np.full_like(high, -1), high, dtype=np.int16)
    space = Dict(spaces)
    # Learners save their spaces: so a saved model says what it was trained on.
    space.briscola = {  # type: ignore[attr-defined]
        "layout_digest": encoder.digest,
        "rules": rules.to_dict(),
        "frame": encoder.frame,
        "show_points": encoder.show_points,
        "recent_tricks": encoder.recent_tricks,
    }
    return cast(Space[Observation], space)


def fresh_seed() -> int:
    """A seed from the operating system, for whoever gives none."""
    return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])


def check_reset_options(
    rules: Rules, options: Mapping[str, Any]
) -> tuple[int, NDArray[np.int64] | None]:
    """The dealer's seat (-1: by lot) and the deck, if given; ValueError as in `Table.reset`."""
    # PettingZoo's api_test passes the key "options", to see that reset takes options at all.
    unknown = [key for key in options if key not in ("dealer", "deck", "options")]
    if unknown:
        raise ValueError(f"unknown reset option {unknown[0]!r}: allowed are 'dealer', 'deck'")
    dealer, deck = options.get("dealer"), options.get("deck")
    if dealer is not None:
        dealer = whole_number("dealer", dealer, 0, rules.players - 1)
    if deck is not None:
        try:
            cards = list(deck)
        except TypeError:
            raise ValueError(f"deck={deck!r}: a list of card ids is allowed") from None
        deck = np.array([whole_number("deck", card, 0, NUM_CARDS - 1) for card in cards], np.int64)
        if sorted(deck.tolist()) != list(rules.deck):
            raise ValueError(
                f"deck={format_cards(deck)}: allowed are the {len(rules.deck)} cards in "
                "play, each once, in the order in which they are dealt"
            )
    return -1 if dealer is None else dealer, deck


def whole_action(action: Any) -> int:
    """An action as an int; IllegalActionError if it is not a whole number."""
    try:
        return operator.index(action)
    except TypeError:
        raise IllegalActionError(f"action {action!r} is not a whole number") from None


class Table:
    """One game, how it is shown and rewarded, and the seeds of its episodes.

    keywords: the fields of `Rules`, by name. reward: `points`, after each trick, or `win`, at the
    end of the episode. show_points, frame, recent_tricks: see `Encoder`. observation: `planes`, or
    `tokens` for the sequence of actions beside them. ValueError names a keyword or value that is
    not allowed.
    """

    def __init__(
        self,
        reward: str,
        show_points: str,
        frame: str,
        recent_tricks: int,
        observation: str,
        **keywords: Any,
    ) -> None:
        check_one_of("reward", reward, REWARDS)
        check_one_of("observation", observation, OBSERVATIONS)
        self.rules = Rules.from_dict(keywords)
        self.encoder = Encoder(self.rules, frame, show_points, recent_tricks)
        self._games: States = new_states(self.rules, 2)  # the game, and scratch of the kernels
        self.mask = np.zeros(self.rules.num_actions, np.int8)
        """Legal actions of the seat to act, int8 [num_actions] in the frame; new at every step."""
        self.current_player = -1
        self.decisions = 0
        self.base_seed: int | None = None
        self.episodes = 0
        self.episode_seed = 0
        self._reward = reward
        self._tokens = observation == "tokens"
        self._frame = self.encoder.frame_index
        self._size, self._num_actions = self.encoder.size, self.rules.num_actions
        self._arguments = np.array(self.encoder.arguments, np.int64)
        self._points_scale = 1 / max(self.rules.deck_points, 1)

    @property
    def states(self) -> States:
        """The game as an array of one record; writing into it changes the game."""
        return self._games[:1]

    # ------------------------------------------------------------------------------------- spaces

    def observation_space(self) -> Space[Observation]:
        """A new space of what a seat observes: see `observe`."""
        return observation_space(self.encoder, "tokens" if self._tokens else "planes")

    def action_space(self) -> Discrete:
        """A new space of the actions 0 .. num_actions - 1."""
        return Discrete(self.rules.num_actions)

    def state_space(self) -> Box:
        """A new space of `state_vector`."""
        planes = NUM_CARDS * (self.rules.players + self._stock_places)
        return Box(0, 1, (planes + self.encoder.size,), np.int8)

    @property
    def _stock_places(self) -> int:
        """Most face-down cards that the stock ever holds."""
        return len(self.rules.deck) - self.rules.players * self.rules.hand_size - 1

    # -------------------------------------------------------------------------------------- reset

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Deal the next episode: number 0, 1, ... of those that belong to the last `seed` given.

        options: `dealer`, a seat, and `deck`, all card ids in play in the order in which they are
        dealt, both of the first deal. ValueError, with nothing changed, for another key or value.
        """
        dealer, deck = check_reset_options(self.rules, options or {})
        if seed is not None:
            self.base_seed = whole_number("seed", seed, 0) % 2**64
            self.episodes = 0
        elif self.base_seed is None:
            self.base_seed = fresh_seed()
        self.episode_seed = int(child_seed(np.uint64(self.base_seed), self.episodes))
        self.episodes += 1
        seeds = np.array([self.episode_seed], np.uint64)
        deal_seeds(seeds, seeds)
        deal(self.states, seeds, np.array([dealer]), None if deck is None else deck[None])
        self.decisions = 0
        self._read()

    def _read(self) -> None:
        """Take over what the record says."""
        self.current_player = int(self.states["current_player"][0])
        self.mask = self._legal()

    # --------------------------------------------------------------------------------------- play

    def step(self, action: int) -> list[float] | None:
        """Take an action of the seat to act; the rewards by side, or None if it earns nothing.

        IllegalActionError names the action and what is allowed; then nothing has changed.
        """
        mask = np.empty(self._num_actions, INT8)
        if not 0 <= action < self._num_actions:
            raise self._illegal(action)
        seat, side, points = _play(self._games, action, self._frame, mask)
        if seat == ILLEGAL:
            raise self._illegal(action)
        self.mask = mask
        self.current_player = seat
        self.decisions += 1
        if self._reward == "win":
            return self._shares(self.winner, 1.0) if seat < 0 else None
        return self._shares(side, points * self._points_scale) if points > 0 else None

    def _shares(self, winner: int | None, amount: float) -> list[float] | None:
        """Rewards by side if `winner` gains `amount`, less the mean of what the others gain."""
        if winner is None:
            return None
        sides = self.rules.sides
        return [amount if side == winner else -amount / (sides - 1) for side in range(sides)]

    def to_frame(self, action: int) -> int:
        """An action at the table in the frame of the seat to act."""
        return int(self.encoder.to_frame(self.states, np.array([action]))[0])

    def _legal(self) -> NDArray[np.int8]:
        """The legal actions of the seat to act, int8 [num_actions] in the frame, a new array."""
        legal: NDArray[np.int8] = np.empty(self._num_actions, INT8)
        _mask(self._games, self._frame, legal)
        return legal

    def _illegal(self, action: int) -> IllegalActionError:
        """The error for an action that the seat to act may not take, with what that seat sees."""
        actions = np.arange(self.rules.num_actions)
        cards = self.encoder.to_table(self.states.repeat(len(actions)), actions)
        named = {
            framed: f"{framed} ({self.rules.action_name(card)})"
            for framed, card in enumerate(cards.tolist())
        }
        # self.mask may be in the caller's hands: look again.
        allowed = ", ".join(named[int(legal)] for legal in np.flatnonzero(self._legal()))
        return IllegalActionError(
            f"player_{self.current_player} may not take action {named.get(action, action)}: "
            f"allowed are {allowed}\n{format_state(self.info_states(self.current_player)[0])}"
        )

    # --------------------------------------------------------------------------------------- show

    def observe(self, seat: int) -> Observation:
        """What `seat` observes now, in new arrays.

        `observation` int8 [size]; `action_mask` int8 [num_actions], all 0 unless it is to move; and
        `tokens` int16 [T, 3] if asked for.
        """
        out, mask = np.empty(self._size, INT8), np.empty(self._num_actions, INT8)
        _observe(self._games, seat, self._arguments, out, mask)
        observation: Observation = {"observation": out, "action_mask": mask}
        if self._tokens:
            observation["tokens"] = self.encoder.encode_tokens(self._games[1:])[0]
        return observation

    def info_states(self, seat: int) -> States:
        """What `seat` knows as a new array of one record."""
        infos = np.empty(1, GAME_STATE)
        info_state(self.states, np.array([seat]), infos)
        return infos

    def state_vector(self) -> NDArray[np.int8]:
        """Everything but the random state, int8 of 0 and 1, see docs/environment.md.

        Each seat's hand (40 places by card), the stock in the order in which it will be drawn (40
        places a card), then the features of seat 0 as if nothing were withheld from it; all in the
        frame of seat 0.
        """
        state, players = self.states[0], self.rules.players
        planes = np.zeros((players + self._stock_places, NUM_CARDS), np.int8)
        for seat in range(players):
            planes[seat, list(cards_of(state["hands"][seat]))] = 1
        stock = state["stock"][: state["stock_count"]][::-1]
        for place, card in enumerate(stock.tolist(), start=players):
            planes[place, card] = 1
        seen = self.states.copy()
        seen["observer"] = 0
        planes = self.encoder.columns_to_frame(seen.repeat(len(planes)), planes)
        encoder = Encoder(self.rules, self.encoder.frame, "all", self.encoder.recent_tricks)
        return np.concatenate([planes.ravel(), encoder.encode(seen)[0]])

    # ------------------------------------------------------------------------------------- result

    @property
    def winner(self) -> int | None:
        """The side that won the episode; None while it lasts, or if it is drawn."""
        winner = int(self.states["winner"][0])
        return None if winner < 0 else winner

    @property
    def truncated(self) -> bool:
        """True if the match was cut off by `max_deals`: only then is a finished match drawn."""
        return self.current_player < 0 and self.rules.match_wins > 0 and self.winner is None

    def result(self) -> dict[str, Any]:
        """The facts about a finished episode that go into `info`."""
        sides = self.rules.sides
        result: dict[str, Any] = {
            "winner": self.winner,
            "points": tuple(self.states["last_scores"][0, :sides].tolist()),
        }
        if self.rules.match_wins:
            result["wins"] = tuple(self.states["wins"][0, :sides].tolist())
        return result

    # --------------------------------------------------------------------------------------- save

    def get_state(self) -> dict[str, Any]:
        """Everything that the game and the episodes after it depend on, as a copy."""
        return {
            "rules": self.rules,
            "states": self.states.copy(),
            "decisions": self.decisions,
            "base_seed": self.base_seed,
            "episodes": self.episodes,
            "episode_seed": self.episode_seed,
        }

    def set_state(self, saved: Mapping[str, Any]) -> None:
        """Go back to what `get_state` saved; ValueError if that was at a table of other rules."""
        if saved["rules"] != self.rules:
            raise ValueError(
                f"a state of {saved['rules']} cannot be set at a table of {self.rules}"
            )
        self.states[:] = saved["states"]
        self.decisions = saved["decisions"]
        self.base_seed = saved["base_seed"]
        self.episodes = saved["episodes"]
        self.episode_seed = saved["episode_seed"]
        self._read()

    def clone(self) -> "Table":
        """A table at which the same game goes on independently."""
        other = copy.copy(self)
        other._games = self._games.copy()
        other.mask = self.mask.copy()
        return other
