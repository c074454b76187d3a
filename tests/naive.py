"""Briscola in plain, slow Python: the engine's twin, from docs/rules.md (numbers: sections)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import combinations, permutations

SUITS = ("coins", "cups", "swords", "batons")
POINTS = (0, 0, 0, 0, 0, 2, 3, 4, 10, 11)  # by strength: 2 4 5 6 7 J H K 3 A
TWO, SEVEN, THREE, ACE = 0, 4, 8, 9  # strengths

EXCHANGE_SEVEN, EXCHANGE_TWO, WITHDRAW, FIRST_SIGNAL = 40, 41, 42, 43
HAVE_J, HAVE_LOW, NO_TRUMP, HAVE_CARICO = 4, 5, 6, 7  # HAVE_A..HAVE_J are 0..4
VAGUE = (HAVE_LOW, NO_TRUMP, HAVE_CARICO)  # they name no single card
MESSAGES = {"off": 0, "conventional": 26, "free": 8}
NEGLIGIBLE = 1e-15  # share of endless reburials that `starting_positions` leaves out
SEEN_BY_ALL = (
    *("trump", "face_up", "initial_face_up", "reburied", "table", "leader", "dealer", "trick"),
    *("trick_winners", "trick_points", "withdrawn", "withdrawn_by", "wins", "deals", "scores"),
    *("last_deal_scores", "last_trick"),
)  # entries of a view that are attributes of the game

Bury = Callable[[int], int]  # number of face-down cards -> index of the reburial


def suit_of(card: int) -> int:
    """0 coins, 1 cups, 2 swords, 3 batons."""
    return card // 10


def strength_of(card: int) -> int:
    """0 (two) .. 9 (ace)."""
    return card % 10


def is_carico(card: int) -> bool:
    """An ace or a three."""
    return strength_of(card) in (THREE, ACE)


def trick_winner(table: list[tuple[int, int]], trump: int) -> int:
    """Seat that takes the trick: strongest trump, else strongest card of the suit led (3)."""
    suits = [suit_of(card) for _, card in table]
    winning_suit = trump if trump in suits else suits[0]
    return max((card, seat) for seat, card in table if suit_of(card) == winning_suit)[1]


def deal_result(scores: list[int]) -> int | None:
    """Side that wins a deal, None for a draw (4); the higher of two scores is over half."""
    best = max(scores)
    return scores.index(best) if scores.count(best) == 1 else None


@dataclass(frozen=True)
class TableRules:
    """What the players agreed on (1, 4, 5). Impossible combinations are refused."""

    players: int = 2
    removed_two: str | None = None
    cards: tuple[int, ...] | None = None
    hand_size: int = 3
    match_wins: int = 0
    max_deals: int = 25
    rebury: str = "off"
    rebury_position: str = "random"
    exchange_seven: bool = False
    exchange_two: bool = False
    withdraw: str = "off"
    show_partner: str = "off"
    signals: str = "off"
    signals_from_trick: int = 1
    signal_audience: str = "team"

    def __post_init__(self) -> None:
        allowed = {
            "players": (2, 3, 4, 6),
            "removed_two": (None, *SUITS),
            "match_wins": (0, 1, 2, 3),
            "rebury": ("off", "once", "repeat"),
            "rebury_position": ("random", "middle"),
            "withdraw": ("off", "deuce", "two_trumps"),
            "show_partner": ("off", "before_first_trick", "before_last_tricks", "both"),
            "signals": tuple(MESSAGES),
            "signal_audience": ("team", "table"),
        }
        for field, values in allowed.items():
            refuse(getattr(self, field) not in values, f"{field} must be one of {values}")
        least = min(self.hand_size, self.max_deals, self.signals_from_trick + 1)
        refuse(least < 1, "hand_size, max_deals: at least 1; signals_from_trick: at least 0")
        with_partner = self.show_partner != "off" or self.signals != "off"
        refuse(self.players < 4 and with_partner, "show_partner, signals: players 4 or 6")
        misplaced = self.players != 3 or self.cards is not None
        refuse(misplaced and self.removed_two is not None, "removed_two: three players, no cards")
        deck, strengths = self.deck(), {strength_of(card) for card in self.deck()}
        refuse(not set(range(40)) >= set(deck), "cards: ids are 0..39")
        refuse(len(set(deck)) != len(deck), "cards: a card is named twice")
        refuse(len(deck) % self.players != 0, "cards must divide among the players")
        refuse(len(deck) <= self.players * self.hand_size, "cards, hand_size: no stock is left")
        refuse(self.exchange_seven and SEVEN not in strengths, "exchange_seven: no sevens in cards")
        needs_two = self.exchange_two or self.withdraw == "deuce"
        refuse(needs_two and TWO not in strengths, "players, cards: no twos for the options")

    def deck(self) -> list[int]:
        """The cards in play, by id (1)."""
        if self.cards is not None:
            return sorted(self.cards)
        twos = [10 * suit + TWO for suit in range(4)]
        one_two = [twos[SUITS.index(self.removed_two or "coins")]]
        removed = {2: [], 3: one_two, 4: [], 6: twos}[self.players]
        return [card for card in range(40) if card not in removed]

    def card_stands(self, face_up: int, stock: Sequence[int], buried_before: bool) -> bool:
        """Whether the card just turned stays (5, rebury); `middle` turns only the upper half."""
        if self.rebury == "off" or not is_carico(face_up):
            return True
        if self.rebury == "once":
            return buried_before
        may_come_up = stock if self.rebury_position == "random" else stock[: len(stock) // 2]
        return all(is_carico(card) for card in may_come_up)


def refuse(impossible: bool, why: str) -> None:
    """Raise ValueError with the message `why` if `impossible`."""
    if impossible:
        raise ValueError(why)


class NaiveGame:
    """One episode: a deal, or a match of deals (4).

    `deck` is dealt from the front. `dealt` is a dealt position instead: a dict with `hands`,
    `face_up`, `stock` (face down, next drawn first) and perhaps `reburied`. Without both the
    first deal is awaited. Options are the fields of `TableRules`.
    """

    def __init__(self, dealer: int, deck=None, *, bury=None, dealt=None, **options) -> None:
        self.rules = TableRules(**options)
        self.players = self.rules.players
        self.sides = 3 if self.players == 3 else 2
        self.dealer = dealer
        self.wins, self.deals = [0] * self.sides, 0
        self.over, self.truncated, self.winner = False, False, None
        self.awaiting_deal = True
        self.last_deal_scores, self.last_trick = [-1] * self.sides, (-1, 0)
        self._clear_table()
        if deck is not None or dealt is not None:
            self.start_deal(deck, bury, dealt)

    def side(self, seat: int) -> int:
        """Side of a seat: itself with 2 or 3 players, else even against odd seats (2)."""
        return seat if self.players < 4 else seat % 2

    def hears(self, observer: int, seat: int) -> bool:
        """Whether `observer` notices the signals of `seat` (5, signal_audience)."""
        return self.rules.signal_audience == "table" or self.side(observer) == self.side(seat)

    @property
    def current_player(self) -> int:
        """Seat to act; -1 when the episode is over or the next deal is awaited."""
        if self.over or self.awaiting_deal:
            return -1
        return (self.leader + len(self.table)) % self.players

    def _clear_table(self) -> None:
        """Forget everything about the last deal."""
        seats = range(self.players)
        self.hands: list[list[int]] = [[] for _ in seats]  # in the order received
        self.stock: list[int] = []  # face down, next drawn first
        self.face_up = self.initial_face_up = self.trump = -1
        self.reburied: set[int] = set()
        self.leader, self.trick = (self.dealer + 1) % self.players, 0
        self.table: list[tuple[int, int]] = []
        self.played: list[set[int]] = [set() for _ in seats]
        self.trick_winners, self.trick_points = [], []
        self.scores = [0] * self.sides
        self.withdrawn = self.withdrawn_by = -1
        self.history: list[tuple[int, int, int]] = []  # (action, seat, trick)
        self.signalled = False  # the seat to act, in this turn
        self.named: list[tuple[int, int]] = []  # (seat, strength) of trumps named by signals
        # Cards of each hand that everybody, or at least every partner, knows to be in it.
        self.known_to_all: list[set[int]] = [set() for _ in seats]
        self.known_to_partners: list[set[int]] = [set() for _ in seats]

    def start_deal(self, deck=None, bury: Bury | None = None, dealt: dict | None = None) -> None:
        """Deal, turn the briscola, rebury if agreed, show the partners their hands."""
        refuse(not self.awaiting_deal, "no deal is awaited")
        self._clear_table()
        if dealt is not None:
            self.hands = [list(hand) for hand in dealt["hands"]]
            self.face_up, self.stock = dealt["face_up"], list(dealt["stock"])
            self.reburied = set(dealt.get("reburied", ()))
        else:
            self._deal_out(deck, bury)
        self.initial_face_up, self.trump = self.face_up, suit_of(self.face_up)
        if self.rules.show_partner in ("before_first_trick", "both"):
            self._show_partners()
        self.awaiting_deal = False

    def _deal_out(self, deck: Sequence[int], bury: Bury | None) -> None:
        """One card at a time from next(dealer) on, then turn the next card."""
        refuse(sorted(deck) != self.rules.deck(), "these are not the cards of the rules")
        cards = list(deck)
        for _ in range(self.rules.hand_size):
            for i in range(self.players):
                self.hands[(self.dealer + 1 + i) % self.players].append(cards.pop(0))
        self.face_up, self.stock = cards[0], cards[1:]
        while not self.rules.card_stands(self.face_up, self.stock, bool(self.reburied)):
            size = len(self.stock)
            index = size // 2 if self.rules.rebury_position == "middle" else bury(size)
            refuse(not 0 <= index <= size, f"bury: {index} is not in 0..{size}")
            self.reburied.add(self.face_up)
            self.stock.insert(index, self.face_up)
            self.face_up = self.stock.pop(0)

    def _show_partners(self) -> None:
        """Partners see each other's hand (5, show_partner)."""
        for seat in range(self.players):
            self.known_to_partners[seat] |= set(self.hands[seat])

    def legal(self) -> list[int]:
        """Action ids of the seat to act, sorted; empty if there is none."""
        seat = self.current_player
        if seat == -1:
            return []
        actions = sorted(self.hands[seat])
        swaps = range(EXCHANGE_SEVEN, FIRST_SIGNAL)
        actions += [swap for swap in swaps if self.card_put_down(seat, swap) is not None]
        if self.trick >= self.rules.signals_from_trick and not self.signalled:
            messages = range(MESSAGES[self.rules.signals])
            actions += [FIRST_SIGNAL + m for m in messages if self.is_true(seat, m)]
        return actions

    def card_put_down(self, seat: int, swap: int) -> int | None:
        """The card `seat`, whose turn it is, would leave under the stock; None if not allowed."""
        if self.face_up == -1:
            return None
        trumps = sorted(card for card in self.hands[seat] if suit_of(card) == self.trump)
        seven, two = 10 * self.trump + SEVEN, 10 * self.trump + TWO
        leads_as_winner = not self.table and self.trick_winners[-1:] == [seat]
        if swap == EXCHANGE_SEVEN:
            agreed = self.rules.exchange_seven and leads_as_winner and seven in trumps
            return seven if agreed and strength_of(self.face_up) > SEVEN else None
        if swap == EXCHANGE_TWO:
            agreed = self.rules.exchange_two and leads_as_winner and two in trumps
            return two if agreed and strength_of(self.face_up) <= SEVEN else None
        in_time = self.trick == 0 and self.withdrawn == -1
        if in_time and self.rules.withdraw == "deuce":
            return two if two in trumps else None
        if in_time and self.rules.withdraw == "two_trumps" and len(trumps) >= 2:
            return trumps[0] if self.face_up > trumps[0] else None
        return None

    def reference(self, seat: int) -> int:
        """Strength of the trump that a partner of `seat` named last in this deal, else -1."""
        partners = [s for s in range(self.players) if s != seat and self.side(s) == self.side(seat)]
        return ([-1] + [strength for by, strength in self.named if by in partners])[-1]

    def trump_named(self, seat: int, message: int) -> int | None:
        """Strength of the single trump that `message` of `seat` names, None if it names none."""
        if self.rules.signals != "conventional":
            return None
        if message <= HAVE_J:
            return ACE - message
        reference = self.reference(seat)
        if message <= HAVE_CARICO or reference == -1:
            return None
        return reference + (message - 17 if message <= 16 else message - 16)

    def is_true(self, seat: int, message: int) -> bool:
        """Whether the hand of `seat` allows the message; a free symbol is never a lie."""
        if self.rules.signals == "free":
            return True
        trumps = {strength_of(card) for card in self.hands[seat] if suit_of(card) == self.trump}
        if message == HAVE_LOW:
            return any(strength <= SEVEN for strength in trumps)
        if message == NO_TRUMP:
            return not trumps
        if message == HAVE_CARICO:
            return any(is_carico(c) and suit_of(c) != self.trump for c in self.hands[seat])
        return self.trump_named(seat, message) in trumps

    def act(self, action: int, *, on_trust: bool = False) -> None:
        """The seat to act plays, swaps or signals; unless `on_trust`, ValueError if illegal."""
        refuse(not on_trust and action not in self.legal(), f"illegal action {action}")
        seat = self.current_player
        self.history.append((action, seat, self.trick))
        if action < EXCHANGE_SEVEN:
            self._play(seat, action)
        elif action < FIRST_SIGNAL:
            self._swap(seat, action)
        else:
            self._signal(seat, action - FIRST_SIGNAL)

    def _leave_hand(self, seat: int, card: int) -> None:
        """A card is played or put down: it is no longer known to be in the hand (7)."""
        self.hands[seat].remove(card)
        self.known_to_all[seat].discard(card)
        self.known_to_partners[seat].discard(card)

    def _take_face_up(self, seat: int) -> None:
        """The face-up card goes to a hand, seen by all (7)."""
        self.hands[seat].append(self.face_up)
        self.known_to_all[seat].add(self.face_up)
        self.face_up = -1

    def _swap(self, seat: int, swap: int) -> None:
        """Take the face-up card, put another face up in its place; the turn goes on (5)."""
        put_down = self.card_put_down(seat, swap)
        self._leave_hand(seat, put_down)
        self._take_face_up(seat)
        self.face_up = put_down
        if swap == WITHDRAW:
            self.withdrawn, self.withdrawn_by = put_down, seat

    def _signal(self, seat: int, message: int) -> None:
        """A signal; a trump named in it is known to its audience; the turn goes on (5, 7)."""
        self.signalled = True
        strength = self.trump_named(seat, message)
        if strength is not None:
            self.named.append((seat, strength))
            team = self.rules.signal_audience == "team"
            known = self.known_to_partners[seat] if team else self.known_to_all[seat]
            known.add(10 * self.trump + strength)

    def _play(self, seat: int, card: int) -> None:
        """A card on the table; the last one ends the trick, the last trick the deal (3)."""
        self._leave_hand(seat, card)
        self.played[seat].add(card)
        self.table.append((seat, card))
        self.signalled = False
        if len(self.table) < self.players:
            return
        winner = trick_winner(self.table, self.trump)
        points = sum(POINTS[strength_of(card)] for _, card in self.table)
        self.trick_winners.append(winner)
        self.trick_points.append(points)
        self.last_trick = (winner, points)
        self.scores[self.side(winner)] += points
        self.table, self.leader = [], winner
        self.trick += 1
        self.draw(winner)
        if not any(self.hands):
            self.finish_deal()

    def draw(self, winner: int) -> None:
        """Each seat draws one from the winner on, the face-up card last of all (3)."""
        for i in range(self.players):
            seat = (winner + i) % self.players
            if self.stock:
                self.hands[seat].append(self.stock.pop(0))
            elif self.face_up != -1:
                self._take_face_up(seat)
        if self.face_up == -1 and self.rules.show_partner in ("before_last_tricks", "both"):
            self._show_partners()

    def finish_deal(self) -> None:
        """Count the deal; end the episode or pass the deal on (4)."""
        result = deal_result(self.scores)
        self.deals += 1
        self.last_deal_scores = list(self.scores)
        if result is not None:
            self.wins[result] += 1
        decided = result is not None and self.wins[result] == self.rules.match_wins
        if self.rules.match_wins == 0 or decided:
            self.over, self.winner = True, result
        elif self.deals == self.rules.max_deals:
            self.over, self.truncated = True, True
        else:
            self.dealer = (self.dealer + 1) % self.players
            self.awaiting_deal = True

    def returns(self) -> list[int]:
        """Card points of each seat's side in this deal (after the last: in that one)."""
        return [self.scores[self.side(seat)] for seat in range(self.players)]

    def full(self) -> dict:
        """Where every card not yet played is; `stock` is face down, next drawn first."""
        hands = [set(hand) for hand in self.hands]
        return {"hands": hands, "stock": list(self.stock), "face_up": self.face_up}

    def known_in_hand(self, observer: int, seat: int) -> set[int]:
        """Cards `observer` knows `seat` to hold; for its own seat: what others know of it."""
        known = set(self.known_to_all[seat])
        if self.side(observer) == self.side(seat):
            known |= self.known_to_partners[seat]
        if self.players == 2 and seat != observer and not self.stock and self.face_up == -1:
            known = set(self.rules.deck()) - set(self.hands[observer])  # [I]
            known -= self.played[0] | self.played[1]
        return known

    def view(self, observer: int) -> dict:
        """Everything that `observer` may know."""
        seats = range(self.players)
        hidden = {seat for seat in seats if not self.hears(observer, seat)}
        heard = [h for h in self.history if h[0] < FIRST_SIGNAL or h[1] not in hidden]
        latest = {h[1]: h[0] - FIRST_SIGNAL for h in heard if h[0] >= FIRST_SIGNAL}
        return {
            "hand": set(self.hands[observer]),
            "stock_count": len(self.stock),
            "played": [set(cards) for cards in self.played],
            "known": [self.known_in_hand(observer, seat) for seat in seats],
            "history": heard,
            "last_message": [latest.get(seat, -1) for seat in seats],
            "reference": [self.reference(s) if self.hears(observer, s) else -1 for s in seats],
            "signalled": self.signalled and self.hears(observer, self.current_player),
            "hand_sizes": [len(hand) for hand in self.hands],
            **{name: copy(getattr(self, name)) for name in SEEN_BY_ALL},
        }


def shared_out(cards: set[int], seats: int, size: int) -> Iterator[list[tuple[int, ...]]]:
    """Every way to give each of `seats` a hand of `size` from `cards`."""
    if seats == 0:
        yield []
        return
    for hand in combinations(sorted(cards), size):
        for others in shared_out(cards - set(hand), seats - 1, size):
            yield [hand, *others]


def starting_positions(rules: TableRules, observer: int, own_hand: list[int]) -> dict:
    """(hands, face_up, stock, reburied) with that hand for `observer` -> weight.

    Orders of the deck that differ only within a hand count as one: each deal has as many.
    """
    own = tuple(sorted(own_hand))
    unseen = set(rules.deck()) - set(own)
    turned: dict[tuple, float] = {}  # positions whose face-up card may still go back
    for others in shared_out(unseen, rules.players - 1, rules.hand_size):
        hands = (*others[:observer], own, *others[observer:])
        for order in permutations(unseen.difference(*others)):
            turned[hands, order[0], order[1:], frozenset()] = 1.0
    settled: dict[tuple, float] = defaultdict(float)
    buried_before = False
    while sum(turned.values()) > NEGLIGIBLE * sum(settled.values()):
        turned_again: dict[tuple, float] = defaultdict(float)
        for (hands, face_up, stock, reburied), weight in turned.items():
            if rules.card_stands(face_up, stock, buried_before):
                settled[hands, face_up, stock, reburied] += weight
                continue
            anywhere = rules.rebury_position == "random"
            places = range(len(stock) + 1) if anywhere else [len(stock) // 2]
            for index in places:
                pile = (*stock[:index], face_up, *stock[index:])
                start = (hands, pile[0], pile[1:], reburied | {face_up})
                turned_again[start] += weight / len(places)
        turned, buried_before = turned_again, True
    return settled


def consistent_worlds(
    options: dict, dealer: int, deck: list, bury_indices: list, actions: list, observer: int
) -> dict[tuple, float]:
    """(sorted hand per seat..., stock, face_up) that `observer` reckons with -> probability (7).

    The true game is one deal of `deck`, one bury index for each reburial, then `actions`. Every
    other order of this small deck is replayed, and kept if `observer` sees the same all along.
    Signals it doesn't hear are left out of the replays: they tell it nothing. A NO_TRUMP, HAVE_LOW
    or HAVE_CARICO whose sender has played since is taken on trust: these bind only until its next
    draw or play, and after a signal its own play always comes before its draw.
    """
    indices = iter(bury_indices)
    truth = NaiveGame(dealer, deck, bury=lambda _: next(indices), **options)
    starts = starting_positions(truth.rules, observer, truth.hands[observer])
    first_view = truth.view(observer)
    script = []  # [action, seat, taken on trust, what the observer then sees]
    for action in actions:
        seat = truth.current_player
        truth.act(action)
        if action < EXCHANGE_SEVEN:
            for earlier in script:
                earlier[2] |= earlier[1] == seat and earlier[0] - FIRST_SIGNAL in VAGUE
        if action < FIRST_SIGNAL or truth.hears(observer, seat):
            script.append([action, seat, False, truth.view(observer)])
    weights: dict[tuple, float] = defaultdict(float)
    for (hands, face_up, stock, reburied), weight in starts.items():
        if (face_up, reburied) != (first_view["face_up"], first_view["reburied"]):
            continue  # only to save time: the views would differ
        dealt = {"hands": hands, "face_up": face_up, "stock": stock, "reburied": reburied}
        world = NaiveGame(dealer, dealt=dealt, **options)
        if world.view(observer) == first_view and looks_the_same(world, script, observer):
            held = [tuple(sorted(hand)) for hand in world.hands]
            weights[(*held, tuple(world.stock), world.face_up)] += weight
    total = sum(weights.values())
    return {position: weight / total for position, weight in weights.items()}


def looks_the_same(world: NaiveGame, script: list[list], observer: int) -> bool:
    """Replay `script`; False at the first illegal action or difference that `observer` sees."""
    for action, _, on_trust, expected in script:
        if not on_trust and action not in world.legal():
            return False
        world.act(action, on_trust=on_trust)
        if world.view(observer) != expected:
            return False
    return True
