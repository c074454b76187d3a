"""Transcripts and hashes written down once: what changes them is noticed.

`python -m tests.make_golden` writes them anew; the difference is then read before it is committed.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from tests.make_golden import GOLDEN, TRACED, TRANSCRIPTS, trace_hash, transcript

ROOT = Path(__file__).parent.parent
TRACES = json.loads((GOLDEN / "traces.json").read_text())


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_game_goes_as_written(name: str) -> None:
    assert transcript(name).splitlines() == (GOLDEN / f"{name}.txt").read_text().splitlines()


def test_every_transcript_is_of_a_known_game() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(TRANSCRIPTS)
    texts = "\n".join((GOLDEN / f"{name}.txt").read_text() for name in TRANSCRIPTS)
    for event in ("EXCHANGE_SEVEN", "EXCHANGE_TWO", "WITHDRAW", "NO_TRUMP", "REL-", "SYMBOL_"):
        assert event in texts
    assert "reburied -" in texts
    assert any(f"reburied {rank}" in texts for rank in "A3")


@pytest.mark.parametrize("hash_seed", ["random"] if config.DISABLE_JIT else ["0", "1", "random"])
def test_fifty_games_are_the_same_in_every_process(hash_seed: str) -> None:
    code = (
        "import json; from tests.make_golden import TRACED, trace_hash; "
        "print(json.dumps({str(players): trace_hash(players) for players in TRACED}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == TRACES


def test_traces_are_written_for_every_player_count() -> None:
    assert set(TRACES) == {"2", "3", "4", "6"} == set(map(str, TRACED))
    assert trace_hash(2, 1) != trace_hash(2, 2)
