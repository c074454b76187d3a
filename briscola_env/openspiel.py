"""Briscola as a game of OpenSpiel's: importing this module registers `briscola`.

    import pyspiel
    import briscola_env.openspiel
    game = pyspiel.load_game("briscola(players=4)")

A Python game over our engine: its states hold one game record, and chance deals one card a node, at
the start and whenever cards are drawn. Seat 0 leads the first trick. It needs open_spiel, which is
installed by itself (docs/openspiel.md).
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS, SUITS, cards_of, format_card, format_cards
from briscola_env.dealing import deal
from briscola_env.encoding import Encoder
from briscola_env.engine import legal_actions, step
from briscola_env.information import info_state
from briscola_env.rules import PLAYER_COUNTS, STUDY_DECKS, InvalidRulesError, Rules
from briscola_env.state import GAME_STATE, new_states
from briscola_env.study import GameTree, infoset_numbers, to_efg

try:
    import pyspiel
except ImportError:
    raise ImportError("this game needs OpenSpiel: pip install open_spiel") from None

FULL_DECK = "full"
_CHANCE, _TERMINAL = pyspiel.PlayerId.CHANCE, pyspiel.PlayerId.TERMINAL

# Chance is in OpenSpiel's hands: what our generator would draw within a deal is left out.
_OPTIONS = {
    field.name: field.default
    for field in fields(Rules)
    if field.name in ("players", "show_partner")
    or field.name.startswith(("exchange", "withdraw", "signal"))
}
"""The fields of `Rules` that are parameters of the game, beside `deck`."""

_GAME_TYPE = pyspiel.GameType(
    short_name="briscola",
    long_name="Briscola",
    dynamics=pyspiel.GameType.Dynamics.SEQUENTIAL,
    chance_mode=pyspiel.GameType.ChanceMode.EXPLICIT_STOCHASTIC,
    information=pyspiel.GameType.Information.IMPERFECT_INFORMATION,
    utility=pyspiel.GameType.Utility.ZERO_SUM,
    reward_model=pyspiel.GameType.RewardModel.TERMINAL,
    max_num_players=max(PLAYER_COUNTS),
    min_num_players=min(PLAYER_COUNTS),
    provides_information_state_string=True,
    provides_information_state_tensor=True,
    provides_observation_string=True,
    provides_observation_tensor=True,
    parameter_specification={**_OPTIONS, "deck": FULL_DECK},
)


class BriscolaGame(pyspiel.Game):
    """The game for one kind of table.

    params: `deck` (`full`, or a study deck's name) and the fields of `Rules` that a single deal
    without reburying has. ValueError names what is wrong.
    """

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        options = dict(params or {})
        deck = options.pop("deck", FULL_DECK)
        if deck != FULL_DECK and deck not in STUDY_DECKS:
            names = ", ".join((FULL_DECK, *STUDY_DECKS))
            raise InvalidRulesError(f"deck={deck!r}: there are {names}")
        self.rules = Rules(**options, **STUDY_DECKS.get(deck, {}))
        points = self.rules.deck_points
        info = pyspiel.GameInfo(
            num_distinct_actions=self.rules.num_actions,
            max_chance_outcomes=NUM_CARDS,
            num_players=self.rules.players,
            min_utility=-points / (self.rules.sides - 1),
            max_utility=points,
            utility_sum=0.0,
            max_game_length=self.rules.max_history,
        )
        super().__init__(_GAME_TYPE, info, dict(params or {}))

    def new_initial_state(self) -> "BriscolaState":
        """Nothing is dealt yet."""
        return BriscolaState(self)

    def make_py_observer(
        self, iig_obs_type: Any = None, params: Mapping[str, Any] | None = None
    ) -> "BriscolaObserver":
        """See `BriscolaObserver`; without a type, an observation without perfect recall."""
        return BriscolaObserver(
            self.rules, iig_obs_type or pyspiel.IIGObservationType(perfect_recall=False), params
        )

    def max_chance_nodes_in_history(self) -> int:
        """Every card in play is dealt or drawn once; the face-up card only dealt."""
        return len(self.rules.deck)


class BriscolaState(pyspiel.State):
    """A position. A play that ends a trick waits until chance has named the cards then drawn."""

    def __init__(self, game: BriscolaGame) -> None:
        super().__init__(game)
        self.rules = game.rules
        self.dealt: list[int] = []  # cards in the order of the deal, while it lasts
        self.record = new_states(self.rules, 1)  # stock: cards not drawn yet, in no real order
        self.waiting = -1  # the play that ends the trick, until the draws are named
        self.named = 0  # how many draws are
        self.hands: list[int] = []  # sets by seat: the hands first dealt
        self.draws: list[list[int]] = [[] for _ in range(self.rules.players)]  # by seat

    def current_player(self) -> int:
        """Seat to act, CHANCE or TERMINAL."""
        if not self.hands or self.waiting >= 0:
            return int(_CHANCE)
        seat = int(self.record["current_player"][0])
        return seat if seat >= 0 else int(_TERMINAL)

    def is_terminal(self) -> bool:
        """True when all cards are played."""
        return self.current_player() == int(_TERMINAL)

    def _legal_actions(self, player: int) -> list[int]:
        if player != self.current_player():
            return []
        legal = np.empty((1, self.rules.num_actions), np.bool_)
        legal_actions(self.record, legal)
        return [int(action) for action in np.flatnonzero(legal[0])]

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Cards that may come next, all equally likely."""
        if self.hands:
            left = int(self.record["stock_count"][0]) - self.named
            cards = sorted(int(card) for card in self.record["stock"][0, :left])
        else:
            cards = [card for card in self.rules.deck if card not in self.dealt]
        return [(card, 1 / len(cards)) for card in cards]

    def _apply_action(self, action: int) -> None:
        if not self.hands:
            self._deal(action)
        elif self.waiting >= 0:
            self._name_draw(action)
        else:
            self._act(action)

    def _deal(self, card: int) -> None:
        self.dealt.append(card)
        players = self.rules.players
        if len(self.dealt) > players * self.rules.hand_size:
            rest = [other for other in self.rules.deck if other not in self.dealt]
            decks = np.array([self.dealt + rest])
            deal(self.record, np.zeros(1, np.uint64), np.array([players - 1]), decks)
            self.hands = [int(hand) for hand in self.record["hands"][0, :players]]

    def _act(self, action: int) -> None:
        record = self.record[0]
        ends_trick = action < NUM_CARDS and record["table_count"] == self.rules.players - 1
        if ends_trick and record["stock_count"] > 0:
            self.waiting, self.named = action, 0
        else:
            self._step(action)

    def _name_draw(self, card: int) -> None:
        """Bring the card to where it will be drawn; with the last of the draws the trick ends."""
        stock, count = self.record["stock"][0], int(self.record["stock_count"][0])
        place, drawn = int(np.flatnonzero(stock == card)[0]), count - 1 - self.named
        stock[place], stock[drawn] = stock[drawn], stock[place]
        self.named += 1
        if self.named == min(self.rules.players, count):
            action, self.waiting = self.waiting, -1
            self._step(action)

    def _step(self, action: int) -> None:
        before = self.record["hands"][0].copy()
        step(self.record, np.array([action]))
        if action < NUM_CARDS:
            for seat in range(self.rules.players):
                self.draws[seat] += cards_of(int(self.record["hands"][0, seat] & ~before[seat]))

    def returns(self) -> list[float]:
        """Card points of the own side less the mean of the other sides'; 0 until the end."""
        sides, seats = self.rules.sides, range(self.rules.players)
        if not self.is_terminal():
            return [0.0 for _ in seats]
        scores = self.record["scores"][0, :sides].astype(float)
        margins = scores - (scores.sum() - scores) / (sides - 1)
        return [float(margins[seat % sides]) for seat in seats]

    def _action_to_string(self, player: int, action: int) -> str:
        if player == _CHANCE:
            return f"deal {format_card(action)}"
        return self.rules.action_name(action)

    def view(self, player: int) -> Any:
        """What a seat knows, records [1]; a play that waits is not in it yet."""
        view = np.empty(1, GAME_STATE)
        info_state(self.record, np.array([player]), view)
        return view

    def acts(self, record: Any) -> list[tuple[int, int]]:
        """(seat, action) of all that was done, in order, as a record has it; and what waits."""
        count = record["history_length"]
        seats, actions = (record[name][:count].tolist() for name in ("history_seat", "history"))
        acts = list(zip(seats, actions, strict=True))
        if self.waiting >= 0:
            acts.append((int(record["current_player"]), self.waiting))
        return acts

    def acts_text(self, record: Any) -> str:
        """The same as text: `0:Ac 1:3d`."""
        return " ".join(f"{seat}:{self.rules.action_name(act)}" for seat, act in self.acts(record))

    def __str__(self) -> str:
        """All cards, and all that was done."""
        if not self.hands:
            return f"dealt {format_cards(self.dealt)}"
        parts = [f"face up {format_card(self.record['initial_face_up'][0])}"]
        for seat, hand in enumerate(self.hands):
            drawn = format_cards(self.draws[seat])
            parts.append(f"{seat} dealt {format_cards(cards_of(hand))} drew {drawn}")
        return "; ".join([*parts, f"done {self.acts_text(self.record[0])}"])


class BriscolaObserver:
    """What a seat sees, in OpenSpiel's form: `tensor`, its named pieces in `dict`, and a string.

    The pieces are those of our `Encoder` (docs/environment.md), all card points shown, and
    `player`. With perfect recall there are also `dealt` [40], the hand; `turned` [40], the card
    that fixed trump; `draws` [draws, 40], the cards drawn in order; and `acts` [most actions of a
    deal, players + actions], who did what. Before the deal is done nobody sees anything.
    ValueError for other views than a single seat's, and for params.
    """

    def __init__(self, rules: Rules, iig_obs_type: Any, params: Mapping[str, Any] | None) -> None:
        if params:
            raise ValueError(f"observation parameters {dict(params)}: there are none")
        single = iig_obs_type.private_info == pyspiel.PrivateInfoType.SINGLE_PLAYER
        if not (iig_obs_type.public_info and single):
            raise ValueError(f"{iig_obs_type}: only what a single seat sees, all of it, is given")
        self._perfect_recall = iig_obs_type.perfect_recall
        self._encoder = Encoder(rules, show_points="all")
        planes = [
            (feature.name, feature.stop - feature.start) for feature in self._encoder.features
        ]
        pieces = [("player", rules.players), *planes]
        if self._perfect_recall:
            draws = rules.num_tricks - rules.hand_size
            width = rules.players + rules.num_actions
            pieces += [("dealt", NUM_CARDS), ("turned", NUM_CARDS), ("draws", draws * NUM_CARDS)]
            pieces += [("acts", rules.max_history * width)]
        pieces = [(name, size) for name, size in pieces if size]
        self.tensor = np.zeros(sum(size for _, size in pieces), np.float32)
        self.dict: dict[str, NDArray[np.float32]] = {}
        start = 0
        for name, size in pieces:
            self.dict[name] = self.tensor[start : start + size]
            start += size
        for name, columns in (("draws", NUM_CARDS), ("acts", rules.players + rules.num_actions)):
            if name in self.dict:
                self.dict[name] = self.dict[name].reshape(-1, columns)

    def set_from(self, state: BriscolaState, player: int) -> None:
        """Fill `tensor` with what a seat sees of a position."""
        self.tensor.fill(0)
        self.dict["player"][player] = 1
        if not state.hands:
            return
        view = state.view(player)
        seen = self._encoder.encode(view)[0]
        start = state.rules.players
        self.tensor[start : start + len(seen)] = seen
        if self._perfect_recall:
            self.dict["dealt"][cards_of(state.hands[player])] = 1
            self.dict["turned"][view["initial_face_up"]] = 1
            for row, card in enumerate(state.draws[player]):
                self.dict["draws"][row, card] = 1
            for row, (seat, action) in enumerate(state.acts(view[0])):
                self.dict["acts"][row, [seat, state.rules.players + action]] = 1

    def string_from(self, state: BriscolaState, player: int) -> str:
        """What a seat sees of a position, as text."""
        if not state.hands:
            return f"seat {player}"
        view, seats = state.view(player)[0], range(state.rules.players)
        known = [
            f"{seat} holds {format_cards(cards_of(int(cards)))}"
            for seat, cards in zip(seats, view["known"] | view["team_known"], strict=False)
            if cards and seat != player
        ]
        if self._perfect_recall:
            parts = [
                f"dealt {format_cards(cards_of(state.hands[player]))}",
                f"face up {format_card(view['initial_face_up'])}",
                f"drew {format_cards(state.draws[player])}",
                f"done {state.acts_text(view)}",
            ]
        else:
            parts = [
                f"hand {format_cards(cards_of(int(view['hands'][player])))}",
                f"trump {SUITS[view['trump']]}",
                f"face up {format_card(view['face_up']) if view['face_up'] >= 0 else '-'}",
                f"led by {view['leader']} {format_cards(view['table'][: view['table_count']])}",
                *(
                    f"{seat} played {format_cards(cards_of(view['played'][seat]))}"
                    for seat in seats
                ),
                f"points {' '.join(str(points) for points in view['scores'][: state.rules.sides])}",
            ]
        return "; ".join([f"seat {player}", *parts, *known])


# ------------------------------------------------------------------------------------- study decks


def load_tree(tree: GameTree) -> Any:
    """The compact tree of a study deck as OpenSpiel's `efg_game`, for its C++ solvers."""
    return pyspiel.load_efg_game(to_efg(tree))


def _information_states(tree: GameTree) -> list[str]:
    """By information set: the string by which `efg_game` knows it."""
    seats = tree.info_states["observer"].tolist()
    numbers = infoset_numbers(tree).tolist()
    return [f"{seat}-{seat}-{number}-" for seat, number in zip(seats, numbers, strict=True)]


def to_policy(tree: GameTree, probabilities: NDArray[np.float64]) -> Any:
    """What `study.policy_probabilities` gives, as a TabularPolicy for `load_tree`."""
    first, values = tree.first_choice, probabilities.tolist()
    names = _information_states(tree)
    return pyspiel.TabularPolicy(
        {name: list(enumerate(values[first[i] : first[i + 1]])) for i, name in enumerate(names)}
    )


def from_policy(tree: GameTree, policy: Any) -> NDArray[np.float64]:
    """The probabilities [choices] of a TabularPolicy for `load_tree`."""
    table = policy.policy_table()
    return np.array(
        [
            probability
            for name in _information_states(tree)
            for _, probability in sorted(table[name])
        ]
    )


pyspiel.register_game(_GAME_TYPE, BriscolaGame)
