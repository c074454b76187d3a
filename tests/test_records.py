"""A recorded deal comes to the same result, or the reader says where it does not."""

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from briscola_env.arena.play import episode_seeds, play_deals
from briscola_env.policies import GreedyPolicy, RandomPolicy
from briscola_env.records import (
    FORMAT,
    RecordWriter,
    ReplayError,
    check_records,
    read_records,
    show_record,
)
from briscola_env.rules import Rules
from tests.tables import OPTIONS, fewer

DOCS = Path(__file__).parent.parent / "docs" / "records.md"


def write(path, table="2", decks=10, seed=1):
    rules = Rules(**OPTIONS[table])
    deals = play_deals(
        [GreedyPolicy(), RandomPolicy()], rules, episode_seeds(seed, 0, decks), history=True
    )
    with RecordWriter(path, rules) as writer:
        writer.write(deals, ["greedy", "random"])
    return rules, deals


@pytest.fixture
def record(tmp_path):
    write(tmp_path / "games.jsonl")
    return next(read_records(tmp_path / "games.jsonl"))


@pytest.mark.parametrize("table", OPTIONS)
def test_what_was_written_is_read_and_replays(tmp_path, table):
    path = tmp_path / "games.jsonl"
    rules, deals = write(path, table, fewer(30))
    records = list(read_records(path))
    assert len(records) == deals.decks * rules.sides
    assert list(check_records(records)) == [None] * len(records)
    for number, record in enumerate(records):
        row, d = divmod(number, deals.decks)
        history = deals.history[row, d]
        assert record.rules == rules.single_deal()
        assert record.seed == deals.seeds[d]
        assert record.scores == tuple(deals.scores[row, d].tolist())
        assert record.actions == tuple(history[history >= 0].tolist())
        sides = ["random"] * rules.sides
        sides[row] = "greedy"
        assert record.policies == tuple(sides)


def test_every_line_is_json_and_carries_what_the_documentation_says(tmp_path):
    write(tmp_path / "games.jsonl", "4-talk", 1)
    lines = (tmp_path / "games.jsonl").read_text().splitlines()
    header, *lines = [json.loads(line) for line in lines]
    assert header["format"] == FORMAT
    assert Rules.from_dict(header["rules"]) == Rules(**OPTIONS["4-talk"])
    assert len(lines) == 2
    assert set(lines[0]) == {"policies", "seed", "dealer", "actions", "scores"}


def test_the_example_in_the_documentation_replays(tmp_path):
    example = DOCS.read_text().split("```json\n")[1].split("```")[0]
    (tmp_path / "games.jsonl").write_text(example)
    records = list(read_records(tmp_path / "games.jsonl"))
    assert list(check_records(records)) == [None]


def test_files_can_be_put_behind_each_other(tmp_path):
    for name, table in (("a", "2"), ("b", "3")):
        write(tmp_path / name, table)
    (tmp_path / "c").write_text((tmp_path / "a").read_text() + (tmp_path / "b").read_text())
    records = list(read_records(tmp_path / "c"))
    assert [record.rules.players for record in records] == [2] * 20 + [3] * 30
    assert list(check_records(records)) == [None] * 50


def test_a_batch_of_records_is_checked_as_one_by_one(tmp_path, monkeypatch):
    write(tmp_path / "games.jsonl", "2-swaps", 20)
    records = list(read_records(tmp_path / "games.jsonl"))
    records[7] = replace(records[7], scores=(120, 0))
    monkeypatch.setattr("briscola_env.records._CHECKED_AT_ONCE", 3)
    faults = list(check_records(records))
    assert [number for number, fault in enumerate(faults) if fault] == [7]
    assert len(faults) == 40


def fault(record, **changes):
    (text,) = check_records([replace(record, **changes)])
    return text


def test_the_first_illegal_action_is_named_with_what_was_allowed(record):
    actions = list(record.actions)
    actions[6] = actions[0]  # played before
    text = fault(record, actions=tuple(actions))
    name = record.rules.action_name(actions[0])
    assert text.startswith(f"action 7, {name}, is not legal for player_")
    assert record.rules.action_name(record.actions[6]) in text.split("allowed are ")[1].split()


def test_a_record_that_ends_early_late_or_with_another_result_says_so(record):
    assert fault(record) is None
    early = fault(record, actions=record.actions[:-1])
    assert early == "it ends after action 39, before the deal is over"
    late = fault(record, actions=(*record.actions, 3))
    assert late == "action 41, 6d, comes after the end of the deal"
    points = "-".join(map(str, record.scores))
    assert fault(record, scores=(1, 119)).endswith(f"but they come to {points}, not 1-119")
    for scores in ((0, 0), (120, 120), (record.scores[0], 0)):
        assert "but they come to" in fault(record, scores=scores)
    assert "the dealer of seed" in fault(record, dealer=1 - record.dealer)
    assert fault(record, actions=()) == "it ends after action 0, before the deal is over"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello", "line 2: not a record"),
        ("[1, 2]", "line 2: not a record"),
        ('{"format": "briscola-records 9"}', "this version reads 'briscola-records 1'"),
        ('{"format": "briscola-records 1", "rules": {"players": 5}}', "players=5"),
        ('{"policies": ["a", "b"], "seed": "1", "dealer": 0, "actions": "2d"}', "missing 'scores'"),
        ('{"policies": ["a"], "seed": "1", "dealer": 0, "actions": "", "scores": [1]}', "one a"),
        (
            '{"policies": ["a", "b"], "seed": "1", "dealer": 0, "actions": "2x", "scores": [0, 0]}',
            "no action '2x' under these rules",
        ),
        (
            '{"policies": ["a", "b"], "seed": "-1", "dealer": 0, "actions": "", "scores": [0, 0]}',
            "seed -1",
        ),
    ],
)
def test_a_line_that_is_not_a_record_is_named(tmp_path, line, reason):
    path = tmp_path / "games.jsonl"
    header = json.dumps({"format": FORMAT, "rules": Rules().to_dict()})
    path.write_text(f"{header}\n{line}\n")
    with pytest.raises(ValueError, match="line 2: not a record") as error:
        list(read_records(path))
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_a_record_before_its_rules_and_a_missing_file_are_refused(tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_text('{"seed": "1"}\n')
    with pytest.raises(ValueError, match="line 1: not a record"):
        list(read_records(path))
    with pytest.raises(ValueError, match="No such file"):
        list(read_records(tmp_path / "nothing"))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"games\.jsonl"):
        list(read_records(path))


def test_a_file_gets_its_name_when_it_is_whole(tmp_path):
    path = tmp_path / "games.jsonl"
    path.write_text("older")
    rules, seeds = Rules(), episode_seeds(1, 0, 3)
    deals = play_deals([GreedyPolicy(), RandomPolicy()], rules, seeds, history=True)
    with RecordWriter(path, rules) as writer:
        writer.write(deals.first(1), ["a", "b"])
        assert path.read_text() == "older"
        writer.write(deals, ["a", "b"])
    assert len(list(read_records(path))) == 2 + 6
    assert [file.name for file in tmp_path.iterdir()] == ["games.jsonl"]


def test_stepping_through_shows_all_cards_and_what_the_seat_knew(record):
    texts = list(show_record(record))
    assert len(texts) == len(record.actions) + 1
    for number, (text, action) in enumerate(zip(texts, record.actions, strict=False), 1):
        everything, view = text.split(" knows:\n")
        assert "??" not in everything
        assert ("??" in view) == (number <= 34)  # then the stock is empty: nothing is hidden
        assert text.splitlines()[-1].startswith(f"{number}. player_")
        assert text.endswith(f": {record.rules.action_name(action)}")
    assert "player_0 wins" in texts[-1] or "player_1 wins" in texts[-1] or "drawn" in texts[-1]


def test_stepping_stops_at_the_action_that_does_not_replay(record):
    actions = (*record.actions[:5], record.actions[0], *record.actions[6:])
    texts = show_record(replace(record, actions=actions))
    assert len([next(texts) for _ in range(5)]) == 5
    with pytest.raises(ReplayError, match="action 6, "):
        next(texts)
    *_, end = [*islice(show_record(replace(record, scores=(1, 119))), 40)]
    assert end.splitlines()[-1].startswith("40. ")
    (text,) = check_records([replace(record, scores=(1, 119))])
    with pytest.raises(ReplayError, match=text):
        list(show_record(replace(record, scores=(1, 119))))


def test_no_records_have_no_faults():
    assert list(check_records([])) == []
