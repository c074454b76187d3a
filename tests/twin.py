"""The same games played by the engine and by its slow twin, compared after every action.

What a record must hold is written out from the twin, every field of it, the erased ones too.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from briscola_env.cards import cards_of
from briscola_env.dealing import deal
from briscola_env.engine import legal_actions, returns, step
from briscola_env.information import info_state
from briscola_env.rules import Rules
from briscola_env.state import GAME_STATE, format_state, new_states
from tests.naive import FIRST_SIGNAL, HAVE_LOW, SEVEN, SUITS, TWO, VAGUE, NaiveGame, is_carico

Choose = Callable[[Sequence[Any]], Any]  # picks one of several
SEATS, SIDES, CARDS, HISTORY = 6, 3, 40, 84  # room in a record
WORDS = {  # what a record stores as the place in a list
    "rebury": ["off", "once", "repeat"],
    "withdraw": ["off", "deuce", "two_trumps"],
    "show_partner": ["off", "before_first_trick", "before_last_tricks", "both"],
    "signals": ["off", "conventional", "free"],
    "signal_audience": ["team", "table"],
}


class Disagreement(AssertionError):
    """Engine and twin say different things; the message shows the position."""


def bits(cards: Any) -> int:
    """A set of cards as the engine writes it."""
    return sum(1 << card for card in cards)


def padded(values: Sequence[int], size: int, blank: int) -> list[int]:
    """`values`, filled up with `blank`."""
    return [*values, *[blank] * (size - len(values))]


def claim_of_this_turn(game: NaiveGame) -> int:
    """HAVE_LOW, NO_TRUMP or HAVE_CARICO if said since the last card was played, and still news.

    A swap puts down the seven, the two or the lowest trump: after it HAVE_LOW says nothing.
    """
    claim = -1
    for action, _, _ in game.history:
        if action < 40 or (action < FIRST_SIGNAL and claim == HAVE_LOW):
            claim = -1
        elif game.rules.signals == "conventional" and action - FIRST_SIGNAL in VAGUE:
            claim = action - FIRST_SIGNAL
    return claim


def rules_fields(game: NaiveGame) -> dict[str, int]:
    """The part of a record that holds the rules."""
    rules = game.rules
    deck, tricks = rules.deck(), len(rules.deck()) // rules.players
    swaps = rules.exchange_seven or rules.exchange_two or rules.withdraw != "off"
    messages = {"off": 0, "conventional": 26, "free": 8}[rules.signals]
    return {
        "players": rules.players,
        "sides": game.sides,
        "hand_size": rules.hand_size,
        "num_tricks": tricks,
        "draws": tricks - rules.hand_size,
        "num_actions": 43 + messages if messages else 43 if swaps else 40,
        "match_wins": rules.match_wins,
        "max_deals": rules.max_deals,
        "deck": bits(deck),
        "rebury_middle": rules.rebury_position == "middle",
        "exchange_seven": rules.exchange_seven,
        "exchange_two": rules.exchange_two,
        "signals_from_trick": rules.signals_from_trick,
        **{name: words.index(getattr(rules, name)) for name, words in WORDS.items()},
    }


def public_fields(game: NaiveGame) -> dict[str, Any]:
    """What is the same in the full record and in every seat's view of it."""
    return {
        "played": padded([bits(cards) for cards in game.played], SEATS, 0),
        "reburied": bits(game.reburied),
        "scores": padded(game.scores, SIDES, 0),
        "last_scores": padded(game.last_deal_scores, SIDES, -1),
        "last_points": game.last_trick[1],
        "last_winner": game.last_trick[0],
        "deals": game.deals,
        "wins": padded(game.wins, SIDES, 0),
        "winner": -1 if game.winner is None else game.winner,
        "current_player": game.current_player,
        "dealer": game.dealer,
        "leader": game.leader,
        "trick": game.trick,
        "trump": game.trump,
        "face_up": game.face_up,
        "initial_face_up": game.initial_face_up,
        "stock_count": len(game.stock),
        "table": padded([card for _, card in game.table], SEATS, -1),
        "table_count": len(game.table),
        "withdrawn": game.withdrawn,
        "withdrawn_by": game.withdrawn_by,
    }


def heard_fields(history: list[tuple[int, int, int]]) -> dict[str, Any]:
    """The actions of a deal, all of them or those that a seat noticed."""
    return {
        "history_length": len(history),
        "history": padded([action for action, _, _ in history], HISTORY, -1),
        "history_seat": padded([seat for _, seat, _ in history], HISTORY, -1),
    }


def full_fields(game: NaiveGame, rng: int) -> dict[str, Any]:
    """What the engine's own record of `game` must hold; `rng` is the engine's affair."""
    last = {seat: action - FIRST_SIGNAL for action, seat, _ in game.history if action >= 43}
    seats = range(game.players)
    return {
        "hands": padded([bits(hand) for hand in game.full()["hands"]], SEATS, 0),
        "known": padded([bits(cards) for cards in game.known_to_all], SEATS, 0),
        "team_known": padded([bits(cards) for cards in game.known_to_partners], SEATS, 0),
        "rng": rng,
        "stock": padded(game.full()["stock"][::-1], CARDS, -1),
        "signalled": game.signalled,
        "claim": claim_of_this_turn(game),
        "last_message": padded([last.get(seat, -1) for seat in seats], SEATS, -1),
        "reference": padded([game.reference(seat) for seat in seats], SEATS, -1),
        "observer": -1,
        **heard_fields(game.history),
    }


def info_fields(game: NaiveGame, observer: int) -> dict[str, Any]:
    """What `observer` may know of `game`, and nothing else."""
    view, seats = game.view(observer), range(game.players)
    own_side = [game.side(seat) == game.side(observer) for seat in seats]
    hands, known, team = [0] * game.players, [0] * game.players, [0] * game.players
    hands[observer] = bits(view["hand"])
    for seat in seats:
        known[seat] = bits(game.known_to_all[seat])
        team[seat] = bits(game.known_to_partners[seat]) if own_side[seat] else 0
        in_view = bits(view["known"][seat])
        if game.players == 2 and seat != observer and game.face_up == -1:
            known[seat] = in_view  # nothing else is left for the opponent to hold
        if known[seat] | team[seat] != in_view:
            raise Disagreement(f"the twin's view of seat {seat} and its own books differ")
    to_act = game.current_player
    heard = to_act == -1 or game.hears(observer, to_act)
    return {
        "hands": padded(hands, SEATS, 0),
        "known": padded(known, SEATS, 0),
        "team_known": padded(team, SEATS, 0),
        "rng": 0,
        "stock": [-1] * CARDS,
        "signalled": view["signalled"],
        "claim": claim_of_this_turn(game) if heard else -1,
        "last_message": padded(view["last_message"], SEATS, -1),
        "reference": padded(view["reference"], SEATS, -1),
        "observer": observer,
        **heard_fields(view["history"]),
    }


def as_records(rows: list[dict[str, Any]]) -> np.ndarray:
    """Records of GAME_STATE; a field that is missing or unknown is an error."""
    names = GAME_STATE.names
    for row in rows[:1]:
        if set(row) != set(names):
            raise Disagreement(f"fields that one of the two lacks: {set(row) ^ set(names)}")
    return np.array([tuple(row[name] for name in names) for row in rows], GAME_STATE)


def check_records(what: str, expected: np.ndarray, actual: np.ndarray, full: np.ndarray) -> None:
    """Every field of every record; the message shows the first full state that differs."""
    for name in GAME_STATE.names:
        if not np.array_equal(expected[name], actual[name]):
            differs = (expected[name] != actual[name]).reshape(len(full), -1).any(axis=1)
            i = int(np.flatnonzero(differs)[0])
            raise Disagreement(
                f"{what}: {name} of game {i} is {actual[name][i]}, the twin says "
                f"{expected[name][i]}\n{format_state(full[i])}"
            )


def draw_deck(players: int, choose: Choose) -> dict[str, Any]:
    """The full deck, or a study deck, often of few suits so that trumps are many."""
    if choose([True, True, False]):
        return {"removed_two": choose([None, *SUITS])} if players == 3 else {}
    hand_size = choose([1, 2, 3, 4, 5])
    tricks = choose(range(hand_size + 1, min(40 // players, hand_size + 6) + 1))
    size = players * tricks
    suits = choose([count for count in (1, 2, 3, 4) if 10 * count >= size])
    cards = random.Random(choose(range(1000))).sample(range(10 * suits), size)
    return {"hand_size": hand_size, "cards": tuple(cards)}


def draw_options(players: int, choose: Choose) -> dict[str, Any]:
    """Options that can be played, every one of them now and then."""
    options = {"players": players, **draw_deck(players, choose)}
    options["match_wins"] = choose([0, 0, 0, 1, 2, 3])
    options["max_deals"] = max(1, options["match_wins"]) + choose([0, 1, 2, 3])
    deck, size = Rules(**options).deck, len(Rules(**options).deck)
    options["rebury"] = choose(["off", "once", "repeat"])
    options["rebury_position"] = choose(["random", "middle"])
    face_down = size - players * options.get("hand_size", 3) - 1
    if options["rebury"] == "repeat" and face_down // 2 < sum(map(is_carico, deck)):
        options["rebury_position"] = "random"  # else it might never end
    strengths = {card % 10 for card in deck}
    options["exchange_seven"] = SEVEN in strengths and choose([False, True])
    options["exchange_two"] = TWO in strengths and choose([False, True])
    options["withdraw"] = choose(["off", "two_trumps", *(["deuce"] if TWO in strengths else [])])
    if players >= 4:
        options["show_partner"] = choose(WORDS["show_partner"])
        options["signals"] = choose(WORDS["signals"])
        options["signals_from_trick"] = choose([0, 1, size // players - 1])
        options["signal_audience"] = choose(WORDS["signal_audience"])
    return options


class Table:
    """Games by the same rules, in the engine and in the twin at once.

    seeds and dealers (-1: by lot) are one a game; decks, if given, too.
    """

    def __init__(
        self,
        options: dict[str, Any],
        seeds: Sequence[int],
        dealers: Sequence[int],
        decks: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.options, self.rules, self.decks = options, Rules(**options), decks
        self.states = new_states(self.rules, len(seeds))
        deal(
            self.states,
            np.array(seeds, np.uint64),
            np.array(dealers, np.int64),
            None if decks is None else np.array(decks, np.int64),
        )
        self.games = []
        for i, dealer in enumerate(dealers):
            given = int(self.states["dealer"][i]) if dealer == -1 else dealer
            self.games.append(NaiveGame(given, **options))
            self._start_deal(i)
        self.rngs = self.states["rng"].copy()
        self.fixed = rules_fields(self.games[0])

    def _start_deal(self, i: int) -> None:
        """Deal in the twin: the given deck, or else what lies in the engine's record."""
        game, record = self.games[i], self.states[i]
        deck = self.decks[i] if self.decks is not None and game.deals == 0 else None
        chance = self.rules.rebury != "off" and self.rules.rebury_position == "random"
        if deck is not None and not chance:
            game.start_deal(deck)
            return
        dealt = dealt_position(record, game.players)
        check_dealt(dealt, game, deck)
        game.start_deal(dealt=dealt)

    @property
    def over(self) -> bool:
        """True if every game is."""
        return all(game.over for game in self.games)

    def legal(self) -> list[list[int]]:
        """Legal actions of every game, on which both agree."""
        rows = np.ones((len(self.games), self.rules.num_actions), bool)
        legal_actions(self.states, rows)
        result = [np.flatnonzero(row).tolist() for row in rows]
        for i, game in enumerate(self.games):
            if result[i] != game.legal():
                raise Disagreement(
                    f"legal actions of game {i}: {result[i]}, the twin says {game.legal()}\n"
                    f"{format_state(self.states[i])}"
                )
        return result

    def step(self, actions: Sequence[int]) -> None:
        """One action in every game; those that are over must not notice."""
        step(self.states, np.array(actions, np.int64))
        for i, game in enumerate(self.games):
            if game.over:
                continue
            game.act(actions[i])
            if game.awaiting_deal:
                self._start_deal(i)
                self.rngs[i] = self.states["rng"][i]

    def compare(self, seats: Sequence[int]) -> None:
        """The full records, and what `seats` know."""
        public = [{**self.fixed, **public_fields(game)} for game in self.games]
        games = list(zip(public, self.games, self.rngs.tolist(), strict=True))
        rows = [{**fields, **full_fields(game, rng)} for fields, game, rng in games]
        check_records("state", as_records(rows), self.states, self.states)
        infos = np.empty_like(self.states)
        for seat in seats:
            rows = [{**fields, **info_fields(game, seat)} for fields, game, _ in games]
            info_state(self.states, np.full(len(self.games), seat), infos)
            check_records(f"info of seat {seat}", as_records(rows), infos, self.states)
        self._compare_results()

    def _compare_results(self) -> None:
        """Card points by seat, and how the episode ended."""
        points = np.full((len(self.games), self.rules.players), -1, np.int16)
        returns(self.states, points)
        for i, game in enumerate(self.games):
            record = self.states[i]
            over, most = record["current_player"] == -1, max(record["wins"])
            truncated = over and most < self.rules.match_wins  # false for a single deal
            said = (points[i].tolist(), bool(over), bool(truncated))
            if said != (game.returns(), game.over, game.truncated):
                raise Disagreement(f"result of game {i}: {said}\n{format_state(record)}")

    def play(self, rng: random.Random, choices: Sequence[int] = (), all_seats: bool = True) -> int:
        """Play to the end, comparing after every action; returns the number of actions.

        The first actions are taken by `choices`, the others by `rng`, swaps more often than cards.
        all_seats: compare every seat's view, or one seat's, another each time.
        """
        turn, taken = 0, 0
        every = range(self.rules.players)
        self.compare(every)
        while not self.over:
            actions = []
            for legal in self.legal():
                if not legal:
                    actions.append(rng.randrange(self.rules.num_actions))
                    continue
                swaps = [action for action in legal if 40 <= action < FIRST_SIGNAL]
                if turn < len(choices):
                    actions.append(legal[choices[turn] % len(legal)])
                else:
                    actions.append(rng.choice(swaps if swaps and rng.random() < 0.5 else legal))
            taken += sum(not game.over for game in self.games)
            self.step(actions)
            turn += 1
            self.compare(every if all_seats else [rng.randrange(self.rules.players)])
        self.legal()
        return taken


def dealt_position(record: Any, players: int) -> dict[str, Any]:
    """Where the cards lie in a record, for the twin."""
    count = int(record["stock_count"])
    return {
        "hands": [cards_of(record["hands"][seat]) for seat in range(players)],
        "face_up": int(record["face_up"]),
        "stock": [int(card) for card in record["stock"][:count][::-1]],
        "reburied": cards_of(record["reburied"]),
    }


def check_dealt(dealt: dict[str, Any], game: NaiveGame, deck: Sequence[int] | None) -> None:
    """What holds for every deal, whatever chance did: `deck` is the order of the cards if given."""
    rules, face_up, stock = game.rules, dealt["face_up"], dealt["stock"]
    reburied, in_hands = set(dealt["reburied"]), [c for hand in dealt["hands"] for c in hand]
    limit = {"off": 0, "once": 1, "repeat": 8}[rules.rebury]
    stands = not is_carico(face_up) or all(map(is_carico, stock)) or rules.rebury == "off"
    right = (
        sorted([*in_hands, face_up, *stock]) == rules.deck()
        and all(len(hand) == rules.hand_size for hand in dealt["hands"])
        and all(map(is_carico, reburied))
        and reburied <= {face_up, *stock}
        and len(reburied) <= limit
        and (stands or (rules.rebury == "once" and len(reburied) == 1))
    )
    if deck is not None:
        n, first = rules.players, game.dealer + 1
        hands: list[set[int]] = [set() for _ in range(n)]
        for k in range(n * rules.hand_size):
            hands[(first + k) % n].add(deck[k])
        right &= [set(hand) for hand in dealt["hands"]] == hands
        unburied = [c for c in deck[n * rules.hand_size :] if c not in reburied]
        right &= [c for c in [face_up, *stock] if c not in reburied] == unburied
    if not right:
        raise Disagreement(f"no such deal is possible: {dealt} with {rules}")
