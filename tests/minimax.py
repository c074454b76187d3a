"""Plain minimax over tuples, nothing pruned: what the solver is measured by."""

from functools import cache

from briscola_env.cards import cards_of
from tests.naive import POINTS, trick_winner


def minimax(state):
    """Value of each card for the seat to act: plain minimax over tuples, nothing pruned."""
    n, sides, trump = int(state["players"]), int(state["sides"]), int(state["trump"])
    mine = int(state["current_player"]) % sides
    stock = [int(card) for card in state["stock"][: int(state["stock_count"])]][::-1]
    draws = (*stock, int(state["face_up"])) if state["face_up"] >= 0 else ()

    def after(hands, table, leader, drawn, card):
        seat = (leader + len(table)) % n
        hands = [hand - {card} if who == seat else hand for who, hand in enumerate(hands)]
        table = (*table, (seat, card))
        if len(table) < n:
            return value(tuple(hands), table, leader, drawn)
        winner = trick_winner(list(table), trump)
        won = sum(POINTS[c % 10] for _, c in table) if winner % sides == mine else 0
        if drawn < len(draws):
            for k in range(n):
                who = (winner + k) % n
                hands[who] = hands[who] | {draws[drawn + k]}
            drawn += n
        return won + value(tuple(hands), (), winner, drawn)

    @cache
    def value(hands, table, leader, drawn):
        seat = (leader + len(table)) % n
        if not hands[seat]:
            return 0
        values = [after(hands, table, leader, drawn, card) for card in hands[seat]]
        return max(values) if seat % sides == mine else min(values)

    hands = tuple(frozenset(cards_of(state["hands"][seat])) for seat in range(n))
    leader = int(state["leader"])
    table = tuple(
        ((leader + k) % n, int(state["table"][k])) for k in range(int(state["table_count"]))
    )
    seat = int(state["current_player"])
    return {card: after(hands, table, leader, 0, card) for card in hands[seat]}
