"""The README's example with Stable-Baselines3, as it is printed."""

from tests.readme import python_block


def test_the_example_with_maskable_ppo_runs_as_printed(capsys):
    exec(python_block("MaskablePPO"), {"__name__": "__main__"})
    assert "winner: side" in capsys.readouterr().out
