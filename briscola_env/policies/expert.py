"""The expert: counts cards, knows what each is worth keeping, and plays known end games exactly.

It weighs every card of its hand by one formula. The trick's points, won or lost with a probability
that comes from counting unseen cards, less what the card was worth keeping, less what it costs to
have to lead next and, at the last draw, to leave the face-up card to others. The weights of the
formula, in card points unless said otherwise, are fitted by `training/fit_expert.py` for each
number of players and stand in `expert_weights.json`.
"""

import json
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import (
    ACE,
    CARDS_PER_SUIT,
    NUM_CARDS,
    POINTS_OF,
    STRENGTH_OF,
    SUIT_CARDS,
    SUIT_OF,
)
from briscola_env.engine import beats, swap_card_one, winning_place
from briscola_env.jit import bit, kernel, lowest, popcount
from briscola_env.policies.endgame import exact_card_one, is_open_one
from briscola_env.policies.signals import heard_one, say_one
from briscola_env.rules import EXCHANGE_SEVEN, FIRST_SIGNAL, HAVE_CARICO, NO_TRUMP
from briscola_env.state import States

WEIGHTS = np.dtype(
    [
        # What a card is worth keeping, by strength, at the first draw and after the last one.
        ("trump_early", np.float64, CARDS_PER_SUIT),
        ("trump_late", np.float64, CARDS_PER_SUIT),
        ("plain_early", np.float64, CARDS_PER_SUIT),
        ("plain_late", np.float64, CARDS_PER_SUIT),
        ("free_three", np.float64),  # more for a plain three whose ace is gone or in the same hand
        ("many_trumps", np.float64),  # less for a trump, for each other trump in the hand
        # What winning the trick costs, at the first draw and after the last one.
        ("lead_early", np.float64),
        ("lead_late", np.float64),
        ("lead_share", np.float64),  # and this share of what the cheapest card left is worth
        ("last_draw", np.float64),  # at the last draw: the face-up card goes to another side
        ("last_draw_strength", np.float64),  # and so much for each step of its strength
        # How likely a rival takes who can, by points at stake: base + slope * stake, within 0..1.
        ("follow_base", np.float64),  # with a card of the suit led
        ("follow_slope", np.float64),
        ("ruff_base", np.float64),  # with a trump
        ("ruff_slope", np.float64),
        ("carico_loss", np.float64),  # what it costs if a rival holds a carico that takes in suit
        ("figure_loss", np.float64),  # the same for a figure
        ("own_carico", np.float64),  # gain of leading a suit in which one holds a higher carico
        ("lost_point", np.float64),  # what a lost point costs, where a point won counts 1
        # Partners still to play.
        ("partner_adds", np.float64),  # points that each adds to a trick that stays ours
        ("partner_base", np.float64),  # how likely one takes a trick that is theirs, if it can
        ("partner_slope", np.float64),
        ("no_trump_said", np.float64),  # factor of the chance that partners who said so hold trumps
        ("carico_said", np.float64),  # points added further by one who said to have a carico
    ]
)
"""The weights of one number of players: the whole table of what the expert believes."""

_CARICHI = np.int64(sum(0x300 << (CARDS_PER_SUIT * suit) for suit in range(4)))
_ACES = np.int64(sum(0x200 << (CARDS_PER_SUIT * suit) for suit in range(4)))
_MOST_HIDDEN = 15


def _hypergeometric() -> NDArray[np.float64]:
    """Probability that `hidden` of `unseen` cards hold at least one of `wanted`, by all three."""
    table = np.zeros((_MOST_HIDDEN + 1, 41, CARDS_PER_SUIT + 1))
    for hidden, unseen, wanted in np.ndindex(table.shape):
        if wanted <= unseen:
            drawn = min(hidden, unseen)
            table[hidden, unseen, wanted] = 1 - comb(unseen - wanted, drawn) / comb(unseen, drawn)
    return table


_HOLDS = _hypergeometric()


@kernel
def _chance(cards: Any, known: Any, unseen: Any, hidden: Any) -> Any:
    """Probability that seats with `hidden` unseen cards and `known` others hold one of `cards`."""
    if cards & known != 0:
        return 1.0
    return _HOLDS[min(hidden, _MOST_HIDDEN), popcount(unseen), popcount(cards & unseen)]


@kernel
def _within(x: Any) -> Any:
    return min(1.0, max(0.0, x))


@kernel
def _keep(card: Any, trump: Any, trumps: Any, aces_out: Any, late: Any, weights: Any) -> Any:
    """What a card is worth keeping; trumps: how many the hand holds; aces_out: unseen aces."""
    strength = STRENGTH_OF[card]
    if SUIT_OF[card] == trump:
        early = weights["trump_early"][strength]
        worth = early + late * (weights["trump_late"][strength] - early)
        return worth - weights["many_trumps"] * (trumps - 1)
    early = weights["plain_early"][strength]
    worth = early + late * (weights["plain_late"][strength] - early)
    if strength == ACE - 1 and aces_out & bit(card + 1) == 0:
        worth += weights["free_three"]
    return worth


@kernel
def _two_cheapest(
    hand: Any, trump: Any, trumps: Any, aces_out: Any, late: Any, weights: Any
) -> Any:
    """The two lowest values to keep in a hand; 0 for a card that is not there."""
    cheapest, second = 1000.0, 1000.0
    while hand:
        keep = _keep(lowest(hand), trump, trumps, aces_out, late, weights)
        hand &= hand - 1
        if keep < cheapest:
            cheapest, second = keep, cheapest
        elif keep < second:
            second = keep
    return cheapest, second if second < 1000.0 else 0.0


@kernel
def _stronger(card: Any) -> Any:
    """The cards of its suit that are stronger than `card`."""
    return SUIT_CARDS[SUIT_OF[card]] & ~(bit(card + 1) - 1)


@kernel
def _same_side(info: Any, seat: Any, other: Any) -> Any:
    return seat == other if info["sides"] == 3 else (seat ^ other) & 1 == 0


@kernel
def _seen_by(info: Any, seat: Any) -> Any:
    """The cards whose place `seat` knows; reads nothing that it may not know."""
    seen = info["hands"][seat]
    if info["face_up"] >= 0:
        seen |= bit(info["face_up"])
    for other in range(info["players"]):
        seen |= info["played"][other] | info["known"][other]
        if _same_side(info, seat, other):
            seen |= info["team_known"][other]
    return seen


@kernel
def _after_me(info: Any, seat: Any, partners: Any) -> Any:
    """Of the partners, or the rivals, still to play in this trick: how many there are, how many
    cards they hold that `seat` does not know, and the set of those that it knows.
    """
    players, other = np.int64(info["players"]), seat
    full = min(np.int64(info["hand_size"]), np.int64(info["num_tricks"]) - info["trick"])
    count, hidden, known = 0, 0, np.int64(0)
    for _ in range(info["table_count"] + 1, players):
        other = other + 1 if other + 1 < players else 0
        ours = _same_side(info, seat, other)
        if ours == partners:
            cards = info["known"][other]
            if ours:
                cards |= info["team_known"][other]
            count += 1
            hidden += full - popcount(cards)
            known |= cards
    return count, hidden, known


@kernel
def _partners_say(info: Any, seat: Any, weights: Any) -> Any:
    """From signals of the partners still to play in this trick: a factor for the chance that they
    hold an unseen trump, and card points that they will add if the trick is ours.
    """
    ruff, adds = 1.0, 0.0
    if info["signals"] != 0:
        other = seat
        for _ in range(info["table_count"] + 1, info["players"]):
            other = other + 1 if other + 1 < info["players"] else 0
            if _same_side(info, seat, other):
                if heard_one(info, other, NO_TRUMP):
                    ruff *= weights["no_trump_said"]
                if heard_one(info, other, HAVE_CARICO):
                    adds += weights["carico_said"]
    return ruff, adds


@kernel
def _trick_worth(
    card: Any,
    trump: Any,
    led: Any,
    best: Any,
    best_ours: Any,
    stake: Any,
    unseen: Any,
    rivals: Any,
    partners: Any,
    said: Any,
    weights: Any,
) -> Any:
    """Expected card points of the trick with `card`, and the probability that our side wins it.

    led: suit led, -1 if `card` leads. best: the card that wins so far, -1 if none; best_ours: a
    partner played it. stake: points on the table. rivals, partners: see `_after_me`; said: see
    `_partners_say`.
    """
    top = card if best < 0 or beats(card, best, trump) else best
    ours = top == card or best_ours
    stake += POINTS_OF[card]
    count, hidden, known = rivals if ours else partners
    taken, lost = 0.0, 0.0
    if count > 0:
        stronger, base, slope = _stronger(top), weights["partner_base"], weights["partner_slope"]
        stay = 1.0
        if SUIT_OF[top] != trump:
            follow = _chance(stronger, known, unseen, hidden)
            if ours:
                base, slope = weights["follow_base"], weights["follow_slope"]
                carico = _chance(stronger & _CARICHI, known, unseen, hidden)
                lost = carico * weights["carico_loss"] + (follow - carico) * weights["figure_loss"]
            stay = 1.0 - follow * _within(base + slope * stake)
            stronger = SUIT_CARDS[trump]
        ruff = _chance(stronger, known, unseen, hidden)
        if ours:
            base, slope = weights["ruff_base"], weights["ruff_slope"]
        elif stronger & known == 0:
            ruff *= said[0]
        taken = 1.0 - stay * (1.0 - ruff * _within(base + slope * stake))
    win = 1.0 - taken if ours else taken
    if ours:
        stake += partners[0] * weights["partner_adds"] + said[1]
    worth = win * stake - (1.0 - win) * stake * weights["lost_point"] - lost
    return worth, win, top == card


@kernel
def expert_card_one(info: Any, weights: Any, values: Any) -> Any:
    """The card that the expert plays in the place of the seat to act, from what that seat knows.

    A full state may be given: what the seat may not know is not read. values: float64
    [40] for the worth of each card in hand (written unless the position is solved), or None.
    """
    if is_open_one(info):
        return exact_card_one(info)
    seat, trump = np.int64(info["current_player"]), np.int64(info["trump"])
    hand, draws = info["hands"][seat], np.int64(info["draws"])
    unseen = info["deck"] & ~_seen_by(info, seat)
    rivals = _after_me(info, seat, False)
    partners = _after_me(info, seat, True) if info["players"] > 3 else (0, 0, np.int64(0))
    said = _partners_say(info, seat, weights) if partners[0] > 0 else (1.0, 0.0)
    stake, led, best, best_ours = 0.0, np.int64(-1), np.int64(-1), False
    if info["table_count"] > 0:
        for place in range(info["table_count"]):
            stake += POINTS_OF[info["table"][place]]
        place = winning_place(info)
        led, best = np.int64(SUIT_OF[info["table"][0]]), np.int64(info["table"][place])
        place -= np.int64(info["table_count"])
        winner = seat + place if seat + place >= 0 else seat + place + info["players"]
        best_ours = _same_side(info, seat, winner)
    late = min(1.0, info["trick"] / draws)
    side_cost = 0.0
    if info["trick"] == draws - 1:
        strength = STRENGTH_OF[info["face_up"]]
        side_cost = weights["last_draw"] + strength * weights["last_draw_strength"]
    lead_cost = weights["lead_early"] + late * (weights["lead_late"] - weights["lead_early"])
    trumps, aces_out = popcount(hand & SUIT_CARDS[trump]), unseen & _ACES
    cheapest, second = _two_cheapest(hand, trump, trumps, aces_out, late, weights)
    most, chosen, rest = -1000.0, -1, hand
    while rest:
        card = lowest(rest)
        rest &= rest - 1
        keep = _keep(card, trump, trumps, aces_out, late, weights)
        worth, win, mine = _trick_worth(
            card, trump, led, best, best_ours, stake, unseen, rivals, partners, said, weights
        )
        worth -= keep + win * side_cost
        if mine:
            left = second if keep == cheapest else cheapest
            worth -= win * (lead_cost + weights["lead_share"] * left)
        if led < 0 and SUIT_OF[card] != trump and _stronger(card) & _CARICHI & hand != 0:
            worth += weights["own_carico"]
        if values is not None:
            values[card] = worth
        if worth > most:
            most, chosen = worth, card
    return chosen


@kernel
def expert_move_one(info: Any, weights: Any) -> Any:
    """The card or the swap that the expert chooses: it makes every swap, and gives no signals."""
    if info["num_actions"] > NUM_CARDS and info["face_up"] >= 0:
        for action in range(EXCHANGE_SEVEN, FIRST_SIGNAL):
            if swap_card_one(info, action) >= 0:
                return np.int64(action)
    return np.int64(expert_card_one(info, weights, None))


_FILE = Path(__file__).with_name("expert_weights.json")


def expert_weights(name: str = "expert") -> NDArray[Any]:
    """The weights of that name for 2, 3, 4 and 6 players: WEIGHTS records [7], by players."""
    table = json.loads(_FILE.read_text())[name]
    weights = np.zeros(7, WEIGHTS)
    for players, values in table.items():
        for field, value in values.items():
            weights[field][int(players)] = value
    return weights


@kernel
def _expert(info_states: Any, legal: Any, weights: Any, out: Any) -> None:
    for i in range(len(info_states)):
        info = info_states[i]
        out[i] = expert_move_one(info, weights[info["players"]])
        if out[i] < NUM_CARDS and info["signals"] != 0:
            signal = say_one(info, legal[i])
            out[i] = signal if signal >= 0 else out[i]


class ExpertPolicy:
    """Counts cards and weighs every card of its hand: see the module and docs/opponents.md."""

    def __init__(self, name: str = "expert") -> None:
        self.name = name
        self.weights = expert_weights(name)

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        actions = np.empty(len(legal), np.int64)
        _expert(info_states, legal, self.weights, actions)
        return actions
