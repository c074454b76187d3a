"""Game records: deals as lines of JSON, written, read, checked and stepped through.

docs/records.md describes the text form. A record holds no cards but those that were played: the
seed of the deck gives the rest back.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import numpy as np

from briscola_env.arena.play import Deals, deal_episodes
from briscola_env.engine import is_legal_one, legal_actions, step, step_one
from briscola_env.envs.render import render_text
from briscola_env.information import info_state
from briscola_env.jit import kernel
from briscola_env.rules import Rules
from briscola_env.state import States

FORMAT = "briscola-records 1"

_CHECKED_AT_ONCE = 4096  # deals
_RIGHT, _ILLEGAL, _TOO_MANY, _TOO_FEW, _RESULT = range(5)


class ReplayError(Exception):
    """A record does not replay to its result; the message says at which action."""


@dataclass(frozen=True)
class Record:
    """One deal.

    policies: who played each side. seed: the episode seed of the deck. dealer: seat. actions: ids
    in order. scores: card points of each side.
    """

    rules: Rules
    policies: tuple[str, ...]
    seed: int
    dealer: int
    actions: tuple[int, ...]
    scores: tuple[int, ...]


# ------------------------------------------------------------------------------------------ writing


class RecordWriter:
    """Writes deals into a file as they come; opened by `with`.

    The file gets its name when everything is written, or the writing was stopped: until then it is
    called `.NAME.PID`, and a file that is there stays.
    """

    def __init__(self, path: Path, rules: Rules) -> None:
        self._path = path
        self._rules = rules.single_deal()
        self._names = [self._rules.action_name(a) for a in range(self._rules.num_actions)]
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}")
        self._file: IO[str] = self._temporary.open("w", encoding="utf-8")
        header = {"format": FORMAT, "rules": self._rules.to_dict()}
        self._file.write(json.dumps(header) + "\n")

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._temporary.replace(self._path)

    def write(self, deals: Deals, policies: Sequence[str]) -> None:
        """Append deals that were played with `history`; policies: names by index."""
        assert deals.history is not None
        dealers = deal_episodes(self._rules, deals.seeds)["dealer"].tolist()
        seeds = deals.seeds.tolist()
        lines = []
        for row, sides in enumerate(deals.seating.tolist()):
            names = json.dumps([policies[policy] for policy in sides])
            histories, scores = deals.history[row].tolist(), deals.scores[row].tolist()
            for seed, dealer, history, points in zip(
                seeds, dealers, histories, scores, strict=True
            ):
                actions = " ".join([self._names[action] for action in history if action >= 0])
                lines.append(
                    f'{{"policies": {names}, "seed": "{seed}", "dealer": {dealer}, '
                    f'"actions": "{actions}", "scores": {points}}}\n'
                )
        self._file.write("".join(lines))


# ------------------------------------------------------------------------------------------ reading


def read_records(path: Path) -> Iterator[Record]:
    """The records of a file, in order; ValueError names the line that is not one."""
    rules: Rules | None = None
    actions: dict[str, int] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                try:
                    values = json.loads(line)
                    if "format" in values:
                        rules = _header_rules(values)
                        actions = {rules.action_name(a): a for a in range(rules.num_actions)}
                    else:
                        yield _record(values, rules, actions)
                except (ValueError, KeyError, TypeError, AttributeError) as error:
                    reason = f"missing {error}" if isinstance(error, KeyError) else error
                    raise ValueError(f"{path}, line {number}: not a record ({reason})") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _header_rules(values: dict[str, Any]) -> Rules:
    if values["format"] != FORMAT:
        raise ValueError(f"format {values['format']!r}, this version reads {FORMAT!r}")
    return Rules.from_dict(values["rules"])


def _record(values: dict[str, Any], rules: Rules | None, actions: dict[str, int]) -> Record:
    if rules is None:
        raise ValueError("a line with format and rules comes first")
    names = values["actions"].split()
    unknown = [name for name in names if name not in actions]
    if unknown:
        raise ValueError(f"no action {unknown[0]!r} under these rules")
    seed, dealer = int(values["seed"]), int(values["dealer"])
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed {seed}: 0 .. 2**64 - 1 is allowed")
    policies, scores = tuple(values["policies"]), tuple(int(p) for p in values["scores"])
    if len(policies) != rules.sides or len(scores) != rules.sides:
        raise ValueError(f"{rules.sides} policies and scores are asked for, one a side")
    return Record(rules, policies, seed, dealer, tuple(actions[name] for name in names), scores)


# ----------------------------------------------------------------------------------------- checking


@kernel
def _replay(states: Any, histories: Any, scores: Any, faults: Any) -> None:
    """Play histories (int64 [N, T], -1 behind the last) in states; faults: int64 [N, 2].

    A fault is (the place in the history, what is wrong there).
    """
    for i in range(len(states)):
        state = states[i]
        faults[i, 1] = _RIGHT
        k = 0
        while k < histories.shape[1] and histories[i, k] >= 0:
            if state["current_player"] < 0:
                faults[i, 1] = _TOO_MANY
                break
            if not is_legal_one(state, histories[i, k]):
                faults[i, 1] = _ILLEGAL
                break
            step_one(state, histories[i, k])
            k += 1
        faults[i, 0] = k
        if faults[i, 1] != _RIGHT:
            continue
        if state["current_player"] >= 0:
            faults[i, 1] = _TOO_FEW
        else:
            for side in range(state["sides"]):
                if state["scores"][side] != scores[i, side]:
                    faults[i, 1] = _RESULT


def check_records(records: Iterable[Record]) -> Iterator[str | None]:
    """Replay each record: None if it comes to its result, else what is wrong and where."""
    for rules, same_rules in groupby(records, lambda record: record.rules):
        batch: list[Record] = []
        for record in same_rules:
            batch.append(record)
            if len(batch) == _CHECKED_AT_ONCE:
                yield from _check_batch(rules, batch)
                batch = []
        yield from _check_batch(rules, batch)


def _check_batch(rules: Rules, batch: Sequence[Record]) -> Iterator[str | None]:
    states = deal_episodes(rules, np.array([record.seed for record in batch], np.uint64))
    longest = max((len(record.actions) for record in batch), default=0)
    histories = np.full((len(batch), longest), -1, np.int64)
    for i, record in enumerate(batch):
        histories[i, : len(record.actions)] = record.actions
    scores = np.array([record.scores for record in batch], np.int64)
    dealers = states["dealer"].copy()
    faults = np.empty((len(batch), 2), np.int64)
    _replay(states, histories, scores, faults)
    for record, state, dealer, (at, fault) in zip(
        batch, states, dealers.tolist(), faults.tolist(), strict=True
    ):
        if dealer != record.dealer:
            yield f"the dealer of seed {record.seed} is seat {dealer}, not {record.dealer}"
        elif fault == _RIGHT:
            yield None
        else:
            yield _fault_text(record, state, at, fault)


def _fault_text(record: Record, state: Any, at: int, fault: int) -> str:
    if fault == _TOO_FEW:
        return f"it ends after action {at}, before the deal is over"
    if fault == _RESULT:
        points = "-".join(str(p) for p in state["scores"][: record.rules.sides])
        told = "-".join(str(p) for p in record.scores)
        return f"all {at} actions are legal, but they come to {points}, not {told}"
    name = record.rules.action_name(record.actions[at])
    if fault == _TOO_MANY:
        return f"action {at + 1}, {name}, comes after the end of the deal"
    legal = np.empty((1, record.rules.num_actions), np.bool_)
    legal_actions(state.reshape(1), legal)
    allowed = " ".join(record.rules.action_name(a) for a in np.flatnonzero(legal[0]).tolist())
    return (
        f"action {at + 1}, {name}, is not legal for player_{state['current_player']}: "
        f"allowed are {allowed}"
    )


# --------------------------------------------------------------------------------- stepping through


def show_record(record: Record) -> Iterator[str]:
    """One text for each action: the table with all cards, what the seat to act knew, what it did.

    The last text is the end of the deal. ReplayError says at which action it does not replay.
    """
    (fault,) = check_records([record])
    states = deal_episodes(record.rules, np.array([record.seed], np.uint64))
    info = np.empty_like(states)
    for number, action in enumerate(record.actions, 1):
        seat = int(states["current_player"][0])
        if fault and (seat < 0 or not _is_legal(states, action, record.rules)):
            raise ReplayError(fault)
        info_state(states, np.array([seat]), info)
        policy = record.policies[seat % record.rules.sides]
        view = render_text(info[0], "own").split("\n")[1:]  # the headline is the same
        yield "\n".join(
            [
                render_text(states[0]),
                f"player_{seat} knows:",
                *(f"    {line}".rstrip() for line in view),
                f"{number}. player_{seat} ({policy}): {record.rules.action_name(action)}",
            ]
        )
        step(states, np.array([action]))
    if fault:
        raise ReplayError(fault)
    yield render_text(states[0])


def _is_legal(states: States, action: int, rules: Rules) -> bool:
    legal = np.empty((1, rules.num_actions), np.bool_)
    legal_actions(states, legal)
    return bool(legal[0, action])
