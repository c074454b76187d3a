"""The engine plays as its slow twin does: every fact of every game after every action."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config

from tests import fuzz
from tests.twin import Disagreement, Table, draw_options

BATCH = 10  # games an example
EXAMPLES = 4 if config.DISABLE_JIT else 80  # a player count: 3,200 games in all


@pytest.mark.parametrize("players", [2, 3, 4, 6])
def test_engine_and_twin_agree_on_every_fact(players: int) -> None:
    games, seen = 0, set()

    @settings(max_examples=EXAMPLES)
    @given(st.data())
    def play(data: Any) -> None:
        nonlocal games

        def choose(values: Any) -> Any:
            return data.draw(st.sampled_from(values))

        options = draw_options(players, choose)
        seeds = data.draw(st.lists(st.integers(0, 2**64 - 1), min_size=BATCH, max_size=BATCH))
        dealers = [choose([-1, *range(players)]) for _ in seeds]
        rng = random.Random(data.draw(st.integers(0, 2**32)))
        table = Table(options, seeds, dealers)
        if data.draw(st.booleans()):
            deck = table.rules.deck
            decks = [rng.sample(deck, len(deck)) for _ in seeds]
            table = Table(options, seeds, dealers, decks)
        choices = data.draw(st.lists(st.integers(0, 9), max_size=40))
        table.play(rng, choices, all_seats=data.draw(st.booleans()))
        games += len(table.games)
        seen.update(action for game in table.games for action, _, _ in game.history)

    play()
    assert games >= BATCH * EXAMPLES
    swaps = {40, 42} if players == 6 else {40, 41, 42}
    if not config.DISABLE_JIT:
        common = range(43, 66) if players >= 4 else ()  # partners far apart in rank are rare
        assert len(seen.intersection(common)) >= len(common) - 4
        assert seen >= {*swaps, *list(common)[:8]}


def test_a_disagreement_is_noticed() -> None:
    table = Table({"players": 2}, [1, 2, 3], [-1, 0, 1])
    table.compare(range(2))
    table.states["scores"][1, 0] += 1
    with pytest.raises(Disagreement, match=r"state: scores of game 1 (.|\n)*face_up: "):
        table.compare(range(2))


def test_fuzzing_counts_actions_and_stops_at_a_disagreement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = fuzz.play_batch
    assert fuzz.main(["--actions", "300", "--seed", "7", "--processes", "1"]) == 0
    assert "agree" in capsys.readouterr().out

    def play_batch(seed: int) -> int:
        if seed == 9:
            raise Disagreement("the position")
        return batch(seed)

    monkeypatch.setattr(fuzz, "play_batch", play_batch)
    assert fuzz.main(["--actions", "100000", "--seed", "7", "--processes", "1"]) == 1
    out = capsys.readouterr().out
    assert "the position" in out
    assert "--seed 9" in out
