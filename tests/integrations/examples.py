"""What every example in training/ that collects through PettingZoo has to do right."""

import numpy as np

from briscola_env import cli
from briscola_env.checkpoint import LAST, Checkpoint
from briscola_env.encoding import Encoder


def check_own_decisions(rules, observations, legal, actions, rewards, reward_points):
    """Arrays [deals, seats, tricks, ..] are the seats' own decisions in whole deals."""
    deals, players, tricks = actions.shape
    assert (players, tricks) == (rules.players, rules.num_tricks)
    encoder = Encoder(rules, "trump_first", "all")
    places = {feature.name: slice(feature.start, feature.stop) for feature in encoder.features}
    # Decision number k is in trick k, and the card is in the hand of whoever decided.
    assert (observations[..., places["trick"]] == np.eye(tricks)).all()
    np.testing.assert_array_equal(observations[..., places["hand"]], legal[..., :40])
    assert np.take_along_axis(legal, actions[..., None], axis=-1).all()
    # No seat sees what another sees, every card is played once, and no two deals are the same.
    assert (observations[:, 0] != observations[:, 1]).any(axis=-1).all()
    played = actions.reshape(deals, -1)
    assert played.shape[1] == len(rules.deck)
    assert (np.diff(np.sort(played, axis=1)) > 0).all()
    assert len({row.tobytes() for row in played}) == deals
    # Everybody at the table is paid for a trick, whoever played to it last.
    sides = np.arange(players) % rules.sides
    for side in range(rules.sides):
        own = rewards[:, sides == side]
        assert (own == own[:, :1]).all()
    points = rewards[:, : rules.sides] * reward_points
    np.testing.assert_allclose(points.sum(axis=1), 0, atol=1e-3)
    # A winner of a trick gains its points, which are 120 a deal.
    np.testing.assert_allclose(points.max(axis=1).sum(axis=-1), rules.deck_points, atol=1e-3)


def check_command_line(main, capsys, folder, *options):
    """The example's command makes what `briscola evaluate` and `info` read; a seed is a result."""
    data = []
    for number in range(2):
        out = folder / str(number)
        assert main(["--out", str(out), "--iterations", "1", "--deals", "3", *options]) == 0
        assert "against random: margin" in capsys.readouterr().out
        data.append((out / LAST).read_bytes())
    assert data[0] == data[1]
    assert Checkpoint.load(folder / "0").training["decisions"] == 3 * 40
    assert cli.main(["evaluate", str(folder / "0"), "--decks", "4", "--json"]) == 0
    capsys.readouterr()
    assert main(["--out", str(folder / "2"), "--players", "5"]) == 2
    error = capsys.readouterr().err
    assert "players=5" in error
    assert error.count("\n") == 1
