"""A tournament loses nothing, counts nothing twice, and its tables say what happened."""

import csv
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from briscola_env.arena import tournament as tournament_module
from briscola_env.arena.html_report import html_report
from briscola_env.arena.match import evaluate
from briscola_env.arena.report import print_standings, warnings, write_csv
from briscola_env.arena.results_file import ResultsFile
from briscola_env.arena.standings import standings
from briscola_env.arena.tournament import Tournament, play, read_spec
from briscola_env.policies import GreedyPolicy, RandomPolicy
from briscola_env.rules import Rules
from tests.tables import fewer


class Low:
    """The first legal action."""

    name = "low"

    def act(self, info_states, legal, seeds):
        return legal.argmax(axis=1)


class High:
    """The last legal action."""

    name = "high"

    def act(self, info_states, legal, seeds):
        return legal.shape[1] - 1 - legal[:, ::-1].argmax(axis=1)


POLICIES = {"greedy": GreedyPolicy(), "random": RandomPolicy(), "low": Low(), "high": High()}
NAMES = dict.fromkeys(POLICIES, "")
NAMES = {name: name for name in NAMES}


def run(tournament, path, stop_after=None):
    """Play (at most so many parts of) a tournament; scores of each pair that has played."""
    labels = list(tournament.policies)
    sources = [(label, label, "") for label in labels]
    with ResultsFile(path, tournament.rules, tournament.seed, sources) as results:
        players = [POLICIES[label] for label in labels]
        for part, _ in enumerate(play(tournament, players, results)):
            if part == stop_after:
                break
        pairs = [pair for pair in tournament.pairs.tolist() if results.decks_done(*pair)]
        return np.array(pairs), [results.scores(*pair) for pair in pairs]


def rows(path):
    base = sqlite3.connect(path)
    found = base.execute("SELECT * FROM game ORDER BY alone, others, deck, side").fetchall()
    base.close()
    return found


def test_everybody_meets_everybody_or_the_first_meets_all():
    three = {"a": "a", "b": "b", "c": "c"}
    assert Tournament(three, Rules()).pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert Tournament(three, Rules(), gauntlet=True).pairs.tolist() == [[0, 1], [0, 2]]
    both_ways = Tournament(three, Rules(players=3), gauntlet=True).pairs.tolist()
    assert both_ways == [[0, 1], [0, 2], [1, 0], [2, 0]]
    with pytest.raises(ValueError, match="two different policies"):
        Tournament({"a": "a"}, Rules())


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_pair_gets_the_result_that_evaluate_gives_it(tmp_path, players):
    rules, decks = Rules(players=players), fewer(100)
    tournament = Tournament(NAMES, rules, decks, seed=3)
    pairs, scores = run(tournament, tmp_path / "results.sqlite")
    labels = list(NAMES)
    table = standings(labels, pairs, scores)
    for i, j in pairs.tolist():
        expected = evaluate(POLICIES[labels[i]], POLICIES[labels[j]], rules, decks, seed=3)
        match = table.matches[i, j]
        assert (match.wins, match.draws, match.losses) == (
            expected.wins,
            expected.draws,
            expected.losses,
        )
        assert match.margin == expected.margin
        if players != 3:
            other = table.matches[j, i]
            assert (match.wins, match.losses) == (other.losses, other.wins)
            assert match.margin.value == -other.margin.value


@pytest.mark.parametrize("stop_after", [0, 1, 2])
def test_a_tournament_that_was_stopped_goes_on_to_the_same_file(tmp_path, stop_after):
    tournament = Tournament(NAMES, Rules(), 50)
    run(tournament, tmp_path / "straight.sqlite")
    run(tournament, tmp_path / "stopped.sqlite", stop_after)
    run(tournament, tmp_path / "stopped.sqlite")
    expected = rows(tmp_path / "straight.sqlite")
    assert rows(tmp_path / "stopped.sqlite") == expected
    assert len(expected) == 6 * 50 * 2


def count_games(monkeypatch):
    """How many games are played from now on."""
    games = []

    def spy(policies, rules, seeds, seating):
        games.append(len(seeds) * len(seating))
        return original(policies, rules, seeds, seating)

    original = tournament_module.play_deals
    monkeypatch.setattr(tournament_module, "play_deals", spy)
    return games


def test_more_decks_and_more_policies_add_only_what_is_missing(tmp_path, monkeypatch):
    path = tmp_path / "results.sqlite"
    run(Tournament({"greedy": "", "random": ""}, Rules(), 20), path)
    games = count_games(monkeypatch)
    run(Tournament({"greedy": "", "random": ""}, Rules(), 20), path)
    assert games == []
    run(Tournament({"greedy": "", "random": ""}, Rules(), 50), path)
    assert sum(games) == 30 * 2
    run(Tournament(NAMES, Rules(), 50), path)
    assert sum(games) == 30 * 2 + 5 * 50 * 2
    run(Tournament(NAMES, Rules(), 50), tmp_path / "straight.sqlite")
    assert rows(path) == rows(tmp_path / "straight.sqlite")


def test_the_order_of_the_policies_changes_nothing_but_the_view(tmp_path, monkeypatch):
    path = tmp_path / "results.sqlite"
    _, (forward,) = run(Tournament({"greedy": "", "random": ""}, Rules(), 20), path)
    games = count_games(monkeypatch)
    _, (back,) = run(Tournament({"random": "", "greedy": ""}, Rules(), 20), path)
    assert games == []
    assert np.array_equal(back, forward[::-1])
    run(Tournament({"random": "", "greedy": ""}, Rules(), 30), path)
    _, (longer,) = run(Tournament({"greedy": "", "random": ""}, Rules(), 30), path)
    assert np.array_equal(longer[:, :20], forward)
    fresh = evaluate(POLICIES["greedy"], POLICIES["random"], Rules(), 30)
    table = standings(["greedy", "random"], np.array([[0, 1]]), [longer])
    assert table.matches[0, 1].margin == fresh.margin


def test_a_file_of_another_tournament_is_refused(tmp_path):
    path = tmp_path / "results.sqlite"
    source = [("greedy", "greedy", ""), ("net", "runs/x", "abc")]
    ResultsFile(path, Rules(), 1, source).__exit__()
    ResultsFile(path, Rules(), 1, source).__exit__()
    with pytest.raises(ValueError, match="seed is 1, not 2"):
        ResultsFile(path, Rules(), 2, source)
    with pytest.raises(ValueError, match=r"rules.exchange_two is false, not true"):
        ResultsFile(path, Rules(exchange_two=True), 1, source)
    with pytest.raises(ValueError, match="policy 'net' has changed since it played"):
        ResultsFile(path, Rules(), 1, [("net", "runs/x", "abd")])
    (tmp_path / "text").write_text("This is no database, and has never been one. " * 30)
    with pytest.raises(ValueError, match="file is not a database"):
        ResultsFile(tmp_path / "text", Rules(), 1, source)


def test_no_game_is_counted_twice(tmp_path):
    path, pair = tmp_path / "results.sqlite", np.array([[0, 1]])
    scores = np.full((1, 2, 5, 2), 60, np.int16)
    with ResultsFile(path, Rules(), 1, [("a", "a", ""), ("b", "b", "")]) as results:
        results.add(pair, 0, scores)
        with pytest.raises(ValueError, match="another process plays this tournament"):
            results.add(pair, 4, scores)
        assert results.decks_done(0, 1) == 5
        assert results.scores(0, 1).shape == (2, 5, 2)


KILLED = """
import os, signal
from pathlib import Path
from briscola_env.policies import RandomPolicy

class Killed(RandomPolicy):
    name = "killed"
    calls = 0

    def __init__(self, rules):
        pass

    def act(self, info_states, legal, seeds):
        self.calls += 1
        plan = Path("plan")
        if plan.exists() and self.calls == int(plan.read_text()):
            signal.signal(signal.SIGINT, signal.default_int_handler)  # if our parent ignored it
            os.kill(os.getpid(), getattr(signal, os.environ["DEATH"]))
        return super().act(info_states, legal, seeds)
"""


def command(folder, out, death="SIGKILL"):
    arguments = ["tournament", "greedy", "doomed:Killed", "random", "--decks", "96", "--out", out]
    return subprocess.run(
        [sys.executable, "-m", "briscola_env.cli", *arguments],
        cwd=folder,
        env={**os.environ, "DEATH": death, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def doomed(tmp_path):
    """A folder with a policy that ends its process at the call that the file `plan` names."""
    (tmp_path / "doomed.py").write_text(KILLED)
    assert command(tmp_path, "straight").returncode == 0
    return tmp_path


def test_killed_at_any_time_and_run_again_nothing_is_lost_or_counted_twice(doomed):
    before = 0
    for call in (50, 90, 50):  # a part of the tournament takes 40
        (doomed / "plan").write_text(str(call))
        assert command(doomed, "killed").returncode == -signal.SIGKILL
        assert not (doomed / "killed" / "report.html").exists()
        after = len(rows(doomed / "killed" / "results.sqlite"))
        assert before <= after < 3 * 96 * 2
        before = after
    assert before > 0
    (doomed / "plan").unlink()
    assert command(doomed, "killed").returncode == 0
    for name in ("ratings.csv", "cross_table.csv", "report.html"):
        assert (doomed / "killed" / name).read_bytes() == (doomed / "straight" / name).read_bytes()
    expected = rows(doomed / "straight" / "results.sqlite")
    assert rows(doomed / "killed" / "results.sqlite") == expected


@pytest.mark.slow
def test_killed_twenty_times_nothing_is_lost_or_counted_twice(doomed):
    for kill in range(20):
        (doomed / "plan").write_text(str(41 + kill if kill % 5 == 0 else 2 * kill + 1))
        assert command(doomed, "killed").returncode == -signal.SIGKILL
    (doomed / "plan").unlink()
    assert command(doomed, "killed").returncode == 0
    expected = rows(doomed / "straight" / "results.sqlite")
    assert rows(doomed / "killed" / "results.sqlite") == expected


def test_ctrl_c_prints_the_table_of_what_is_done(doomed):
    (doomed / "plan").write_text("130")
    stopped = command(doomed, "stopped", "SIGINT")
    assert stopped.returncode == 130
    assert "interrupted; the same command goes on from here" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert re.search(r"1\. +greedy +\+\d", stopped.stdout)
    assert 0 < len(rows(doomed / "stopped" / "results.sqlite")) < 3 * 96 * 2


# ------------------------------------------------------------------------------------ the tables


def made_up(chances, decks=400):
    """Games between P policies that win these shares [P, P] against each other."""
    rng, n = np.random.default_rng(0), len(chances)
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    scores = []
    for i, j in pairs:
        share = round(decks * chances[i][j])
        won = np.stack([rng.permutation(decks) < share for _ in range(2)])
        own = np.where(won, 70, 50)
        points = np.stack([own, 120 - own], axis=-1)
        points[1] = points[1, :, ::-1]
        scores.append(points.astype(np.int16))
    return pairs, scores


CIRCLE = [[0.5, 0.8, 0.2, 0.9], [0.2, 0.5, 0.8, 0.9], [0.8, 0.2, 0.5, 0.9], [0.1, 0.1, 0.1, 0.5]]
ORDER = [[0.5, 0.6, 0.7, 0.8], [0.4, 0.5, 0.6, 0.7], [0.3, 0.4, 0.5, 0.6], [0.2, 0.3, 0.4, 0.5]]
LABELS = ["rock", "scissors", "paper", "<&>"]


def test_results_that_are_not_transitive_are_warned_of():
    table = standings(LABELS, *made_up(CIRCLE))
    assert sorted(table.cycle) == [0, 1, 2]
    assert table.order[-1] == 3
    text = warnings(table)[0]
    assert "not transitive" in text
    assert re.search(r"rock beats scissors beats paper|scissors beats paper beats rock", text)


def test_policies_that_have_not_played_yet_are_left_out():
    pairs, scores = made_up(ORDER)
    some = [m for m, pair in enumerate(pairs.tolist()) if 1 not in pair]
    table = standings(LABELS, pairs[some], [scores[m] for m in some])
    assert table.labels == ["rock", "paper", "<&>"]
    assert set(table.matches) == {(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)}
    assert table.matches[0, 2].opponent == "<&>"


def test_an_order_is_no_cause_for_warnings():
    table = standings(LABELS, *made_up(ORDER, 2000))
    assert (table.cycle, table.upsets, warnings(table)) == (None, [], [])
    assert list(table.order) == [0, 1, 2, 3]
    assert table.matches[0, 3].score.value == pytest.approx(0.8, abs=0.02)


def test_a_circle_that_may_be_luck_is_no_cause_for_warnings():
    chances = [[0.5, 0.51, 0.49], [0.49, 0.5, 0.51], [0.51, 0.49, 0.5]]
    pairs, scores = made_up(chances, 300)
    table = standings(LABELS[:3], pairs, scores)
    assert all(table.matches[pair].score.value > 0.5 for pair in ((0, 1), (1, 2), (2, 0)))
    assert warnings(table) == []


def test_who_beats_a_policy_that_is_rated_higher_is_named():
    upset = [[0.5, 0.4, 0.9], [0.6, 0.5, 0.6], [0.1, 0.4, 0.5]]
    table = standings(LABELS[:3], *made_up(upset, 2000))
    assert table.cycle is None
    assert table.upsets == [(1, 0)]
    assert warnings(table) == ["scissors beats rock, which is rated higher"]


def test_csv_files_have_the_numbers_of_the_tables(tmp_path):
    table = standings(LABELS, *made_up(ORDER))
    write_csv(table, tmp_path)
    with (tmp_path / "ratings.csv").open() as file:
        ratings = list(csv.DictReader(file))
    assert [row["policy"] for row in ratings] == [LABELS[i] for i in table.order]
    assert float(ratings[0]["rating"]) == pytest.approx(table.ratings.rating[0], rel=1e-5)
    assert float(ratings[0]["low"]) < float(ratings[0]["rating"]) < float(ratings[0]["high"])
    with (tmp_path / "cross_table.csv").open() as file:
        cross = {(row["policy"], row["opponent"]): row for row in csv.DictReader(file)}
    assert len(cross) == 12
    row, match = cross["paper", "rock"], table.matches[2, 0]
    counts = [int(row[name]) for name in ("decks", "won", "drawn", "lost")]
    assert counts == [400, match.wins, match.draws, match.losses]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cross_table.csv", "ratings.csv"]


def test_the_terminal_shows_ratings_and_cross_table(capsys):
    table = standings(LABELS, *made_up(CIRCLE))
    print_standings(table, sys.stdout)
    out = capsys.readouterr().out
    for label in LABELS:
        assert len(re.findall(rf"\d\. +{label} ", out)) == 2
    assert f"{table.matches[0, 3].score.value:.4f}" in out
    assert "WARNING: the results are not transitive" in out


@pytest.mark.parametrize("chances", [CIRCLE, ORDER])
def test_the_report_is_one_file_with_pictures_and_needs_no_other(chances):
    table = standings(LABELS, *made_up(chances))
    page = html_report(table, [("seed", "1"), ("<rule>", "a & b")])
    assert page.count("<svg") == 4
    # Namespaces and the type of a picture are names, nothing that is fetched.
    assert not re.search(r"<(script|link|img|iframe)|@import|url\(\s*['\"]?http", page)
    assert "&lt;rule&gt;" in page
    assert "<rule>" not in page
    assert ("not transitive" in page) == (chances is CIRCLE)
    for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(picture.replace("xlink:href", "href"))
    assert page == html_report(table, [("seed", "1"), ("<rule>", "a & b")])


def test_the_report_of_three_players_says_who_sat_alone():
    rules = Rules(players=3)
    tournament = Tournament({"greedy": "", "random": ""}, rules, 30)
    seating = np.array([[0, 1], [1, 0]])
    scores = [np.full((3, 30, 3), 40, np.int16) for _ in seating]
    assert tournament.pairs.tolist() == seating.tolist()
    assert "sits alone" in html_report(standings(["greedy", "random"], seating, scores), [])


# ---------------------------------------------------------------------------------- the YAML file


def test_a_spec_is_a_list_or_a_mapping_of_policies(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text("policies: [greedy, random]\ndecks: 10\nrules: {exchange_two: true}\n")
    assert read_spec(path)["policies"] == {"greedy": "greedy", "random": "random"}
    path.write_text("policies: {strong: greedy, weak: random}\ngauntlet: true\n")
    assert read_spec(path)["gauntlet"] is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("policies: [greedy, random]\ndeks: 3", "unknown key 'deks'"),
        ("policies: greedy", "policies='greedy'"),
        ("policies: [a, b]\ndecks: true", "decks=True"),
        ("policies: [a, b]\ndecks: 0", "decks=0"),
        ("policies: [a, b]\nseed: -1", "seed=-1"),
        ("policies: [a, a]", "'a' stands there twice"),
        ("decks: 3", "a mapping with `policies`"),
        ("- greedy", "a mapping with `policies`"),
        ("policies: [", "while parsing"),
    ],
)
def test_a_wrong_spec_is_refused_in_one_line(tmp_path, text, reason):
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(reason)) as error:
        read_spec(path)
    assert "\n" not in str(error.value)
