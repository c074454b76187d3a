"""Exploits: found where there is a weakness, measured on fresh decks, claimed as a lower bound."""

import io
import json
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from briscola_env.arena import play
from briscola_env.arena.match import evaluate
from briscola_env.arena.report import ProgressBar
from briscola_env.checkpoint import BEST, LAST, Checkpoint
from briscola_env.policies.network import policy_of, weights_of
from briscola_env.rules import Rules
from tests.train.test_checkpoint import make_checkpoint
from training import best_response, selfplay
from training.best_response import Clock, Finding, Target, claim, load_target, main


class Lowest:
    """Plays the lowest card id, whatever lies on the table."""

    name = f"{__name__}:Lowest"
    asked = 0

    def __init__(self, rules=None):
        pass

    def act(self, info_states, legal, seeds):
        Lowest.asked += len(legal)
        return legal.argmax(axis=1)


class Counted(Clock):
    """A clock that goes by how often it is looked at; Ctrl-C comes at `stop_at`."""

    def __init__(self, looks, stop_at=None):
        super().__init__(1, ProgressBar("", io.StringIO()))
        self.looks, self.count, self.stop_at = looks, 0, stop_at

    def passed(self):
        self.count += 1
        self.stopped |= self.count == self.stop_at
        return self.count / self.looks


def target_of(policy, rules=None, checkpoint=None):
    return Target(policy.name, policy, rules or Rules(), checkpoint)


@pytest.fixture
def network_target(tmp_path):
    """A small network that knows nothing, loaded from its file."""

    def make(rules=None, exact=False):
        path = tmp_path / "net.safetensors"
        replace(make_checkpoint(rules), exact_endgame=exact).save(path)
        return load_target(str(path))

    return make


@pytest.fixture
def few(monkeypatch):
    """Little work: what is tested here is not the strength."""
    monkeypatch.setattr(best_response, "PICK_DECKS", 20)
    monkeypatch.setattr(best_response, "PICK_EVERY", 2)
    monkeypatch.setattr(best_response, "WORLDS", 4)
    set_config(monkeypatch, "deals=30", "network.actor=[32]", "network.critic=[8]")


def set_config(monkeypatch, *settings):
    whole = best_response.load_config
    monkeypatch.setattr(
        best_response, "load_config", lambda preset, changes: whole(preset, [*changes, *settings])
    )


# ------------------------------------------------------------------------------- what it finds


def test_ppo_learns_to_beat_a_policy_that_plays_its_lowest_card(monkeypatch):
    # It starts from a small network that knows nothing: that takes larger steps than usual.
    set_config(monkeypatch, "deals=512", "minibatch=512", "learning_rate=3.0e-3")
    target = target_of(Lowest(), checkpoint=make_checkpoint())
    start = policy_of(target.checkpoint, target.rules, "start")
    exploiter = best_response.train_exploiter(target, 1, Counted(100))
    before = evaluate(start, target.policy, target.rules, 300, seed=5).margin
    after = evaluate(exploiter, target.policy, target.rules, 300, seed=5).margin
    assert after.low > before.high + 10
    assert after.low > 10


# ---------------------------------------------------------------------------------------- PPO


@pytest.mark.parametrize("players", [2, 3, 4])
def test_nothing_is_learned_from_the_frozen_policys_decisions(few, monkeypatch, players):
    rules, rollouts = Rules(players=players), []
    whole = selfplay.make_batch

    def make_batch(learner, rollout):
        rollouts.append(rollout)
        batch = whole(learner, rollout)
        assert len(batch.actions) == rollout.valid.sum()
        return batch

    monkeypatch.setattr(selfplay, "make_batch", make_batch)
    monkeypatch.setattr(Lowest, "asked", 0)
    best_response.iterate(best_response.make_exploiter(target_of(Lowest(), rules), 1))
    valid = rollouts[0].valid
    # One side of each deal is the exploiter's, and which one changes.
    seats = valid.any(axis=-1)
    sides = seats.argmax(axis=1)
    own = sides[:, None] == np.arange(players) % rules.sides
    assert (seats == own).all()
    assert len(np.unique(sides)) == rules.sides
    plays = rules.num_tricks * players * len(valid)
    assert valid.sum() + Lowest.asked == plays
    assert Lowest.asked == plays * (rules.sides - 1) / rules.sides


def test_a_snapshot_is_chosen_by_its_margin_and_stays_as_it_was(few, monkeypatch, network_target):
    target, margins, seen = network_target(), iter([1.0, 7.0, 3.0, 5.0]), []

    def measured(policy, *others):
        match = evaluate(policy, *others)
        seen.append(weights_of(policy.network)["actor_head.weight"].copy())
        return replace(match, margin=replace(match.margin, value=next(margins)))

    monkeypatch.setattr(best_response, "evaluate", measured)
    best = best_response.train_exploiter(target, 1, Counted(17))
    assert len(seen) == 4
    assert [(seen[1] == each).all() for each in seen] == [False, True, False, False]
    np.testing.assert_array_equal(weights_of(best.network)["actor_head.weight"], seen[1])


def test_the_frozen_policy_is_left_as_it_was(few, network_target):
    target = network_target(exact=True)
    before = {name: array.tobytes() for name, array in target.checkpoint.weights.items()}
    findings = best_response.explore(target, 1, 10, Counted(20))
    assert [finding.match.policy for finding in findings] == ["ppo", "search"]
    after = weights_of(target.policy.policy.network)
    for weights in (target.checkpoint.weights, after):
        assert {name: array.tobytes() for name, array in weights.items()} == before


def test_the_global_generators_are_not_touched(few, network_target):
    torch.manual_seed(0)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    best_response.explore(network_target(), 1, 10, Counted(20))
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


# ------------------------------------------------------------------------------- what it reports


def test_the_report_is_on_decks_that_neither_taught_nor_chose(few, monkeypatch, network_target):
    dealt = {"learned": [], "picked": [], "reported": []}
    play_deals, collect, pick = play.play_deals, selfplay.collect, best_response.evaluate
    purpose = ["reported"]

    def played(policies, rules, seeds, *others):
        dealt[purpose[0]] += seeds.tolist()
        return play_deals(policies, rules, seeds, *others)

    def picked(*arguments):
        purpose[0] = "picked"
        try:
            return pick(*arguments)
        finally:
            purpose[0] = "reported"

    def collected(encoder, seeds, *others):
        dealt["learned"] += seeds.tolist()
        return collect(encoder, seeds, *others)

    monkeypatch.setattr(play, "play_deals", played)
    monkeypatch.setattr(best_response, "evaluate", picked)
    monkeypatch.setattr(selfplay, "collect", collected)
    findings = best_response.explore(network_target(), 1, 40, Counted(20))
    assert [finding.match.decks for finding in findings] == [40, 40]
    learned, chosen, told = (set(dealt[name]) for name in ("learned", "picked", "reported"))
    assert len(told) == 40
    assert len(chosen) == 20
    assert len(learned) >= 60
    assert not told & chosen
    assert not told & learned
    assert not chosen & learned


def found(policy, value, half):
    scores = np.zeros((2, 3, 2), np.int16)
    match = best_response.summarize(scores, policy, "it")
    margin = replace(match.margin, value=value, low=value - half, high=value + half)
    return Finding(replace(match, margin=margin), 1.0)


def test_the_claim_is_the_surer_of_the_lower_ends_and_never_that_nothing_can_be_won():
    target = target_of(Lowest())
    text = claim(target, [found("ppo", 2.0, 0.5), found("search", 3.0, 2.5)])
    assert text.startswith(f"At least 1.5 card points a deal can be won from {Lowest.name}")
    assert "ppo won 2.0" in text
    assert "lower bound" in text
    text = claim(target, [found("ppo", 0.0, 0.0), found("search", 1.0, 2.0)])
    assert text.startswith(f"No exploit of {Lowest.name} was found beyond doubt")
    assert "lower bound" in text


# -------------------------------------------------------------------------------- command line


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    make_checkpoint().save(path / LAST)
    return path


def test_the_command_writes_json_and_the_best_exploiter(few, capsys, checkpoint, tmp_path):
    folder = tmp_path / "exploit"
    options = ("--minutes", "1e-9", "--decks", "4", "--json", "--run-dir", str(folder))
    assert main([str(checkpoint), *options]) == 0
    text = capsys.readouterr().out
    report = json.loads(text)
    assert [match["policy"] for match in report["matches"]] == ["ppo", "search"]
    assert {match["opponent"] for match in report["matches"]} == {str(checkpoint)}
    # There was no time to learn: the exploiter is the frozen network, which wins nothing.
    assert report["matches"][0]["margin"]["value"] == 0
    assert report["interrupted"] is False
    assert list(report["sha256"]) == [str(checkpoint)]
    assert Rules.from_dict(report["rules"]) == Rules()
    low = max(0, *(match["margin"]["low"] for match in report["matches"]))
    assert report["lower_bound"] == low
    assert (folder / best_response.REPORT).read_text() == text
    assert Checkpoint.load(folder / BEST).network == make_checkpoint().network


def test_the_table_has_a_row_for_each_method_and_the_claim_below(few, capsys, checkpoint):
    assert main([str(checkpoint), "--minutes", "1e-9", "--decks", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["method", "decks", "margin", "95", "%", "time"]
    assert [line.split()[:2] for line in lines[1:3]] == [["ppo", "4"], ["search", "4"]]
    assert "lower bound" in " ".join(lines[3:])


def test_ctrl_c_reports_what_was_found_so_far(few, capsys, checkpoint, monkeypatch):
    iterate = best_response.iterate

    def interrupted(learner):
        iterate(learner)
        if learner.iteration == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(best_response, "iterate", interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert main([str(checkpoint), "--minutes", "60", "--decks", "4", "--json"]) == 130
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert report["interrupted"] is True
    assert [match["policy"] for match in report["matches"]] == ["ppo"]
    assert "interrupted" in err
    assert signal.getsignal(signal.SIGINT) is before


def test_search_stops_at_the_end_of_the_time_and_keeps_its_decks(few, network_target):
    # Two parts of the decks are played after the second method's start.
    findings = best_response.explore(network_target(), 1, 10_000, Counted(12))
    for finding in findings:
        assert 0 < finding.match.decks < 10_000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.safetensors", "--minutes", "1"], "nowhere.safetensors: no such file"),
        (["nobody", "--minutes", "1"], "unknown policy 'nobody'"),
        (["oracle", "--minutes", "1"], "sees every card"),
        (["greedy", "--minutes", "0"], "--minutes 0: a number above 0"),
        (["greedy", "--minutes", "nan"], "--minutes nan: a number above 0"),
        (["greedy", "--minutes", "1", "--seed", "-1"], "--seed -1: a whole number from 0 on"),
        (["greedy", "--minutes", "1", "--decks", "1"], "--decks 1: a whole number from 2 on"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(capsys, arguments, says):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_a_folder_with_something_in_it_is_not_overwritten(capsys, checkpoint):
    assert main(["greedy", "--minutes", "1", "--run-dir", str(checkpoint)]) == 2
    err = capsys.readouterr().err
    assert str(checkpoint) in err
    assert err.count("\n") == 1
