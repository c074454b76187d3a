"""The command `briscola`, as people run it."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from briscola_env import __version__, cli, exploit
from briscola_env.arena import report
from briscola_env.arena.match import evaluate
from briscola_env.policies import GreedyPolicy, RandomPolicy
from briscola_env.rules import STUDY_DECKS, Rules
from briscola_env.study import build_tree, exploitability, policy_probabilities
from tests.tables import fewer

ROOT = Path(__file__).parent.parent


def briscola(*arguments, cwd=None, before="", **options):
    """A process of its own; before: Python code to run first."""
    code = ["import sys", before, "from briscola_env.cli import main", "sys.exit(main())"]
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(code), *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **options},
        capture_output=True,
        text=True,
    )


def run(capsys, line):
    """Exit code, standard output and standard error, within this process."""
    code = cli.main(line.split())
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def evaluated(capsys, line):
    code, out, err = run(capsys, f"evaluate {line} --json")
    assert (code, err) == (0, "")
    return json.loads(out)


# --------------------------------------------------------------------------------------- evaluate


def test_the_table_lines_up_and_has_the_numbers_of_the_library():
    done = briscola("evaluate", "greedy", "random", "--against", "random", "--decks", "200")
    assert (done.returncode, done.stderr) == (0, "")
    header, first, second, *rest = done.stdout.splitlines()
    names = "policy opponent decks won drawn lost score margin effective games/s"
    assert header.split() == names.split()
    match = evaluate(GreedyPolicy(), RandomPolicy(), Rules(), 200)
    numbers = f"{match.wins} +{match.draws} +{match.losses} +{match.score.value:.4f} ±"
    assert re.match(rf"greedy +random +200 +{numbers}", first)
    assert re.match(r"random +random +200 .* 0\.5000 ±0\.0000 +\+0\.00 ±0\.00 +∞", second)
    # Numbers end where their header ends.
    for name in ("decks", "won", "drawn", "lost", "score", "margin", "effective"):
        end = header.index(name) + len(name)
        assert all(line[end - 1] != " " and line[end] == " " for line in (first, second))
    assert "normal theory" in "".join(rest)
    assert "2 players; seed 0" in "".join(rest)


def test_json_has_everything_and_nothing_else_is_printed(capsys):
    report = evaluated(
        capsys,
        "greedy --against random --decks 100 --seed 3 "
        "--players 4 --rule signals=conventional -r exchange_two=true",
    )
    rules = Rules(players=4, signals="conventional", exchange_two=True)
    assert Rules.from_dict(report["rules"]) == rules
    assert (report["seed"], report["interrupted"], report["sha256"]) == (3, False, {})
    assert report["briscola_env"] == __version__
    (match,) = report["matches"]
    expected = evaluate(GreedyPolicy(), RandomPolicy(), rules, 100, 3).to_dict()
    assert match.pop("games_per_second") > 0
    del expected["games_per_second"]
    assert match == json.loads(json.dumps(expected))
    assert set(match["margin"]) == {"value", "low", "high"}


def test_a_policy_against_itself_gets_exactly_one_half(capsys):
    report = evaluated(capsys, f"random --against random --decks {fewer(2000)}")
    assert report["matches"][0]["score"] == {"value": 0.5, "low": 0.5, "high": 0.5}
    assert report["matches"][0]["effective_deals"] is None


def test_the_opponent_that_is_named_is_the_one_that_plays(capsys):
    report = evaluated(capsys, "greedy --against random greedy --decks 200")
    margins = {match["opponent"]: match["margin"]["value"] for match in report["matches"]}
    assert margins["random"] > 20
    assert margins["greedy"] == 0


def test_one_seed_gives_the_same_bytes_in_every_process():
    outputs = set()
    for hash_seed in ("0", "1"):
        arguments = ("evaluate", "random", "--against", "greedy", "--decks", "50", "--json")
        done = briscola(*arguments, PYTHONHASHSEED=hash_seed)
        outputs.add(re.sub(r'"games_per_second": [\d.]+', "", done.stdout))
    assert len(outputs) == 1


def test_a_study_deck_and_every_kind_of_option_can_be_given(capsys):
    cards = "2d,4d,5d,6d,7d,Jd,Hd,Kd"
    options = [f"cards={cards}", "hand_size=2", "exchange_seven=true", "rebury=once"]
    line = " -r ".join(["greedy --against random --decks 20", *options])
    report = evaluated(capsys, line)
    assert report["rules"]["cards"] == list(range(8))
    assert report["rules"]["exchange_seven"] is True
    assert report["rules"]["removed_two"] is None
    three = evaluated(capsys, "greedy --decks 5 --players 3 -r removed_two=swords")
    assert three["rules"]["removed_two"] == "swords"


USER_POLICY = """
from briscola_env.policies import RandomPolicy

class Mine(RandomPolicy):
    name = "whatever"

    def __init__(self, rules):
        self.rules = rules

class NoName:
    def __init__(self, rules):
        pass

class Stopped(Mine):
    calls = 0

    def act(self, info_states, legal, seeds):
        import os, signal
        self.calls += 1
        if self.calls == 300:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # if our parent ignored it
            os.kill(os.getpid(), signal.SIGINT)
        return super().act(info_states, legal, seeds)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with `mine.py`, which is forgotten afterwards."""
    (tmp_path / "mine.py").write_text(USER_POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("mine", None)


def test_your_own_policy_is_entered_by_module_and_class(capsys, folder):
    report = evaluated(capsys, "mine:Mine --against random --decks 20")
    (match,) = report["matches"]
    assert match["policy"] == "mine:Mine"
    assert match["margin"]["value"] == 0  # it plays as random does, with the same seeds
    assert len(report["sha256"]["mine:Mine"]) == 64


def test_ctrl_c_prints_the_decks_that_are_done(folder):
    table = briscola("evaluate", "mine:Stopped", "--against", "greedy", "random", cwd=folder)
    assert table.returncode == 130
    assert "interrupted" in table.stderr
    assert "Traceback" not in table.stderr
    # 125 decks a part, a part is 40 calls, and one deck was played beforehand.
    assert re.search(r"\nmine:Stopped +greedy +750 ", table.stdout)
    values = briscola("evaluate", "mine:Stopped", "--json", "--record", "games", cwd=folder)
    report = json.loads(values.stdout)
    assert report["interrupted"] is True
    assert [match["decks"] for match in report["matches"]] == [750]
    assert len((folder / "games").read_text().splitlines()) == 1 + 2 * 750


# ----------------------------------------------------------------------------- what can be wrong


def test_a_folder_with_the_name_of_a_policy_is_no_checkpoint(capsys, folder):
    (folder / "greedy").mkdir()
    report = evaluated(capsys, "greedy --against random --decks 20")
    assert (report["sha256"], report["matches"][0]["decks"]) == ({}, 20)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("evaluate nobody", "unknown policy 'nobody'"),
        ("evaluate runs/nothing", "runs/nothing: no such file"),
        ("evaluate greedy --against lost.safetensors", "lost.safetensors: no such file"),
        ("evaluate greedy --decks 0", "--decks: '0'"),
        ("evaluate greedy --decks many", "--decks: 'many'"),
        ("evaluate greedy --seed -1", "--seed: '-1'"),
        ("evaluate greedy --players 5", "players=5"),
        ("evaluate greedy --rule speed=3", "not a rule: 'speed=3'"),
        ("evaluate greedy --rule signals", "not a rule: 'signals'"),
        ("evaluate greedy --rule exchange_two=yes", "exchange_two='yes'"),
        ("evaluate greedy --rule cards=2d,9x", "not a card: '9x'"),
        ("evaluate greedy --rule hand_size=three", "hand_size='three'"),
        ("evaluate greedy -r withdraw=deuce --players 6", "withdraw='deuce' needs a two"),
        ("evaluate greedy --sprt 1 0", "the first mean is the smaller"),
        ("evaluate greedy --sprt 1", "--sprt"),
        ("evaluate greedy --record no/such/folder/games", "no/such/folder"),
        ("evaluate no_such_module:Policy", "No module named 'no_such_module'"),
        ("evaluate mine:Missing", "has no attribute 'Missing'"),
        ("evaluate mine:NoName", "a method `act` and a string `name`"),
        ("evaluate os:path", "is not callable"),
        ("evaluate", "the following arguments are required: policy"),
        ("tournament greedy", "two different policies"),
        ("tournament greedy greedy", "'greedy' stands there twice"),
        ("tournament no.yaml", "no.yaml"),
        ("tournament greedy random --out mine.py", "mine.py"),
        ("replay nothing.jsonl", "nothing.jsonl: No such file"),
        ("replay mine.py", "mine.py, line 1: not a record"),
        ("exploit greedy", "one of the arguments --exact --minutes is required"),
        ("exploit greedy --exact", "40 cards with hand_size=3 can be dealt and played in 10^"),
        ("exploit greedy --exact --deck study-7", "'study-7' (choose from"),
        ("exploit greedy --exact --deck study-6 --players 3", "hand_size=2"),
        ("exploit oracle --exact --deck study-6", "sees every card"),
        ("exploit runs/a --minutes 0", "'0': a number above 0"),
        ("exploit runs/a --minutes 1 --deck study-6", "by the checkpoint's rules"),
        ("frobnicate", "frobnicate"),
        ("", "COMMAND"),
        ("evaluate greedy --what", "--what"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(capsys, folder, arguments, says):
    code, out, err = run(capsys, arguments)
    assert (code, out) == (2, "")
    assert err.startswith("briscola: ")
    assert says in err
    assert err.count("\n") == 1
    assert not (folder / "tournament").exists()


def test_a_mistake_is_one_clear_line_in_a_process_of_its_own_too():
    done = briscola("evaluate", "greedy", "--against", "nobody")
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"briscola: unknown policy 'nobody'.*\n", done.stderr)


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("rich", "evaluate greedy --record games.jsonl", "train"),
        ("rich", "tournament greedy random", "train"),
        ("matplotlib", "tournament greedy random", "arena"),
        ("yaml", "tournament spec.yaml", "train"),
    ],
)
def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, module, arguments, extra):
    done = briscola(*arguments.split(), cwd=tmp_path, before=f"sys.modules[{module!r}] = None")
    assert done.returncode == 2
    assert re.fullmatch(rf"briscola: .*pip install 'briscola-env\[{extra}\]'\n", done.stderr)
    assert list(tmp_path.iterdir()) == []


def test_json_needs_no_extra():
    before = "sys.modules.update(rich=None, matplotlib=None, yaml=None, torch=None, scipy=None)"
    done = briscola("evaluate", "greedy", "--decks", "5", "--json", before=before)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(done.stdout)["matches"]) == 2


def test_a_reader_that_has_seen_enough_is_no_error():
    line = "-m briscola_env.cli evaluate greedy --decks 20 --json --by-phase | head -1"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        f"{sys.executable} {line}", shell=True, capture_output=True, env=environment
    )
    assert (done.stdout, done.stderr) == (b"{\n", b"")


# ------------------------------------------------------------------- sequential, phases, records


def test_a_sequential_test_says_what_it_decided(capsys):
    report = evaluated(capsys, "greedy --against random --sprt 0 10")
    (match,) = report["matches"]
    assert match["sprt"]["decision"] == "high"
    assert match["decks"] == match["sprt"]["decks"] < 1000
    code, out, _ = run(capsys, "evaluate random --against greedy --sprt 0 10")
    assert code == 0
    assert re.search(r"sprt random v greedy: accepted: the margin is 0, not 10; llr -\d", out)
    code, out, _ = run(capsys, "evaluate random --against greedy --sprt -30 -29 --decks 9")
    assert "not decided between -30 and -29" in out


def test_by_phase_prints_every_trick_and_both_policies(capsys):
    line = "greedy --against random --decks 50 --by-phase"
    code, out, _ = run(capsys, f"evaluate {line}")
    assert code == 0
    assert re.search(r"greedy v random, a deal, by trick\n.*trick +leads", out)
    assert len(re.findall(r"^ +\d+ +\d+\.\d%", out, re.MULTILINE)) == 20
    assert re.search(r"a deal +greedy +random\n", out)
    assert "mistakes among them" in out
    report = evaluated(capsys, line)
    won = report["matches"][0]["phases"]["policy"]["leading"]["points_won"]
    assert len(won) == 20
    _, out, _ = run(capsys, f"evaluate {line} --players 4")
    assert "mistakes" not in out  # hands are hidden to the end


def test_recorded_deals_replay_and_a_changed_one_is_named(capsys, tmp_path):
    file = tmp_path / "games.jsonl"
    evaluated(capsys, f"greedy --decks 10 --record {file}")
    assert run(capsys, f"replay {file}") == (
        0,
        "40 of 40 deals replay to the same result\n",
        "",
    )
    lines = file.read_text().splitlines()
    record = json.loads(lines[8])
    cards = record["actions"].split()
    cards[4] = cards[0]
    lines[8] = json.dumps({**record, "actions": " ".join(cards)})
    file.write_text("\n".join(lines) + "\n")
    code, out, _ = run(capsys, f"replay {file}")
    assert code == 1
    assert out.startswith(f"deal 7: action 5, {cards[0]}, is not legal for player_")
    assert out.endswith("39 of 40 deals replay to the same result\n")
    code, out, _ = run(capsys, f"replay {file} --deal 7")
    assert code == 1
    assert out.count(" knows:") == 4
    assert f"action 5, {cards[0]}, is not legal" in out.splitlines()[-1]


def test_replay_steps_through_one_deal(capsys, tmp_path):
    file = tmp_path / "games.jsonl"
    evaluated(capsys, f"greedy --against random --decks 3 --record {file}")
    code, out, _ = run(capsys, f"replay {file} --deal 5")
    assert code == 0
    assert out.count(" knows:") == 40
    assert "(greedy): " in out
    assert "(random): " in out
    assert run(capsys, f"replay {file} --deal 6")[0] == 2


def test_on_a_terminal_replay_waits_for_enter_and_q_quits(capsys, tmp_path, monkeypatch):
    file = tmp_path / "games.jsonl"
    evaluated(capsys, f"greedy --against random --decks 1 --record {file}")
    answers = iter(["", "", "q"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(answers))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, out, _ = run(capsys, f"replay {file} --deal 0")
    assert code == 0
    assert out.count(" knows:") == 3
    assert next(answers, "none") == "none"


# ---------------------------------------------------------------------------------- tournament


def test_a_tournament_by_a_yaml_file_writes_all_its_files(capsys, folder):
    (folder / "spec.yaml").write_text(
        "policies: {strong: greedy, weak: random, own: 'mine:Mine'}\n"
        "decks: 40\nseed: 2\nplayers: 4\nrules: {exchange_seven: true}\n"
    )
    code, out, err = run(capsys, "tournament spec.yaml --out here")
    assert (code, err) == (0, "")
    names = ["cross_table.csv", "ratings.csv", "report.html", "results.sqlite"]
    assert sorted(path.name for path in (folder / "here").iterdir()) == names
    assert re.search(r"1\. +strong +\+", out)
    page = (folder / "here" / "report.html").read_text()
    assert "exchange_seven" in page
    assert "mine:Mine" in page
    code, again, err = run(capsys, "tournament spec.yaml --out here")
    assert (code, again, err) == (0, out, "")
    code, _, err = run(capsys, "tournament spec.yaml --out here --seed 3")
    assert code == 2
    assert "seed is 2, not 3" in err


def test_a_gauntlet_plays_only_the_first_policys_games(capsys, folder):
    assert run(capsys, "tournament greedy random mine:Mine --decks 16 --gauntlet")[0] == 0
    cross = (folder / "tournament" / "cross_table.csv").read_text()
    assert cross.count("\n") == 1 + 2 * 2
    assert "mine:Mine,random" not in cross


# ------------------------------------------------------------------------------ on a terminal


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_a_narrow_terminal_folds_names_and_cuts_no_number(monkeypatch, columns):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    header, row = ("policy", " score", " games/s"), ("a/long/path" * 3, "0.7212 ±0.0401", "12,345")
    terminal = Terminal()
    report.print_table(header, [row], terminal, optional=1)
    out = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    assert "0.7212 ±0.0401" in out
    assert ("12,345" in out) == (columns > 60)
    assert "".join(line.split()[0] for line in out.splitlines()[1:]) == row[0]


def test_brackets_in_a_name_are_no_markup(capsys):
    report.print_table(("policy",), [("[red]x[/red]",)], sys.stdout)
    assert "[red]x[/red]" in capsys.readouterr().out


def test_the_bar_appears_after_two_seconds_with_the_time_left(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    clock = iter([0.0, 1.9, 2.1, 2.2])
    monkeypatch.setattr(report.time, "monotonic", lambda: next(clock))
    terminal = Terminal()
    with report.ProgressBar("decks", terminal) as bar:
        monkeypatch.setattr(bar._bar, "start", lambda: terminal.write("started"))
        monkeypatch.setattr(bar._bar, "stop", lambda: terminal.write("stopped"))
        bar.show(1, 100)
        assert terminal.getvalue() == ""
        bar.show(50, 100)
        assert terminal.getvalue() == "started"
    assert "stopped" in terminal.getvalue()
    columns = [getattr(column, "text_format", "") for column in bar._bar.columns]
    assert "time left" in columns


def test_a_file_gets_no_bar():
    file = io.StringIO()
    with report.ProgressBar("decks", file) as bar:
        bar.show(1, 100)
    assert file.getvalue() == ""


def test_sigint_has_the_exit_code_that_shells_expect():
    assert cli._INTERRUPTED == 128 + signal.SIGINT


# ----------------------------------------------------------------------------------------- exploit


def test_exploit_prints_what_the_library_finds(capsys):
    tree = build_tree(Rules(**STUDY_DECKS["study-6"]))
    for name, policy, shown in (
        ("greedy", GreedyPolicy(), "actions"),
        ("random", RandomPolicy(), "probabilities"),
    ):
        code, out, err = run(capsys, f"exploit --exact {name} --deck study-6")
        assert (code, err) == (0, "")
        found = exploitability(tree, policy_probabilities(tree, policy))
        leads, follows = found.best_responses
        (line,) = (line for line in out.splitlines() if line.startswith("  its "))
        numbers = [f"{found.exploitability:.6f}", f"{leads:+.6f}", f"{follows:+.6f}"]
        assert line.split() == ["its", shown, *numbers]
        assert "6 cards worth 30 points, hands of 2: 1,680 information sets, 2,880 ways" in out


def test_a_study_deck_is_known_to_evaluate_by_its_name(capsys):
    report = evaluated(capsys, "greedy --against random --decks 20 --deck study-8")
    assert Rules.from_dict(report["rules"]) == Rules(**STUDY_DECKS["study-8"])


def test_minutes_are_handed_over_to_the_trainer_of_best_responses(capsys, monkeypatch):
    asked = []
    trainer = SimpleNamespace(main=lambda arguments: asked.append(arguments) or 7)
    monkeypatch.setitem(sys.modules, "training.best_response", trainer)
    code, _, err = run(capsys, "exploit runs/a --minutes 1.5 --seed 4")
    assert (code, err) == (7, "")
    assert asked == [["runs/a", "--minutes", "1.5", "--seed", "4"]]


def test_without_a_checkout_minutes_say_what_is_missing(capsys, monkeypatch):
    def nothing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name="training")

    monkeypatch.setattr(exploit.importlib, "import_module", nothing)
    code, _, err = run(capsys, "exploit runs/a --minutes 1")
    assert code == 2
    assert re.fullmatch(r"briscola: --minutes .* a checkout of the project, .*\n", err)
