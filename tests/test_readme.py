"""The README's example with the base package, as it is printed."""

from tests.readme import python_block


def test_the_example_with_pettingzoo_runs_as_printed(capsys):
    exec(python_block("briscola_v0.env"), {"__name__": "__main__"})
    assert "120" not in capsys.readouterr().err
