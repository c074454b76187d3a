"""The command `briscola`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from briscola_env import __version__
from briscola_env.arena.entrants import (
    load_checkpoint,
    load_policy,
    parse_rule,
    source_hash,
    table_rules,
)
from briscola_env.arena.html_report import html_report, require_matplotlib
from briscola_env.arena.match import play_until_decided, summarize
from briscola_env.arena.phases import Phases, by_phase
from briscola_env.arena.play import Deals, join_deals, play_parts
from briscola_env.arena.report import (
    ProgressBar,
    print_matches,
    print_phases,
    print_sprt,
    print_standings,
    require_rich,
    write_csv,
    write_text,
)
from briscola_env.arena.results_file import ResultsFile
from briscola_env.arena.standings import standings
from briscola_env.arena.stats import Sprt, deck_margins, sprt
from briscola_env.arena.tournament import Tournament, labelled, play, read_spec
from briscola_env.checkpoint import SUFFIX, find
from briscola_env.exploit import exact_report, train_exploiter
from briscola_env.export import describe, describe_rules, write_onnx
from briscola_env.policies import Policy
from briscola_env.records import (
    Record,
    RecordWriter,
    ReplayError,
    check_records,
    read_records,
    show_record,
)
from briscola_env.rules import STUDY_DECKS, Rules

_DIFFERENT, _WRONG, _INTERRUPTED = 1, 2, 130  # exit codes
_DECKS, _SPRT_DECKS = 2000, 100_000


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as for every other mistake."""
        raise ValueError(f"{message} (see {self.prog} --help)")


def _whole(least: int, most: int = 2**63 - 1) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: a whole number from {least} on")
        return number

    return parse


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: a number above 0")
    return number


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--players", type=int, metavar="N", help="2, 3, 4 or 6")
    parser.add_argument(
        "--deck", choices=STUDY_DECKS, metavar="NAME", help=f"{' or '.join(STUDY_DECKS)} (docs)"
    )
    parser.add_argument(
        "--rule",
        "-r",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the table, e.g. exchange_seven=true; may be repeated",
    )


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """What `--deck` and `--rule` say of the table."""
    return {**STUDY_DECKS.get(args.deck, {}), **dict(parse_rule(text) for text in args.rule)}


def _rules(args: argparse.Namespace, names: Sequence[str]) -> Rules:
    options = _options(args)
    if args.players is not None:
        options["players"] = args.players
    return table_rules(names, options, args.trust_pickle)


def _parts(args: argparse.Namespace, policies: Sequence[Policy], rules: Rules) -> Iterator[Deals]:
    """The deals of one pair, part by part, as many as `--decks` or `--sprt` say."""
    history = bool(args.record or args.by_phase)
    if args.sprt:
        means, most = (args.sprt[0], args.sprt[1]), args.decks or _SPRT_DECKS
        return play_until_decided(policies, rules, args.seed, most, means, history)
    return play_parts(policies, rules, args.seed, args.decks or _DECKS, history=history)


def _evaluate(args: argparse.Namespace) -> int:
    if not args.json:
        require_rich()  # before hours of playing
    names = [*args.policy, *args.against]
    rules = _rules(args, names)
    policies = {
        name: load_policy(name, rules, args.allow_cheats, args.trust_pickle) for name in names
    }
    sources = {name: source_hash(name) for name in policies}
    pairs = [(policy, opponent) for policy in args.policy for opponent in args.against]
    most = len(pairs) * (args.decks or (_SPRT_DECKS if args.sprt else _DECKS))
    played: list[tuple[tuple[str, str], list[Deals]]] = []
    done, interrupted = 0, False
    with ExitStack() as stack:
        bar = stack.enter_context(ProgressBar("decks", sys.stderr))
        writer = None
        if args.record:
            writer = stack.enter_context(RecordWriter(Path(args.record), rules))
        try:
            for pair in pairs:
                played.append((pair, []))
                for part in _parts(args, [policies[name] for name in pair], rules):
                    if writer:
                        writer.write(part, pair)
                    played[-1][1].append(part)
                    done += part.decks
                    bar.show(done, most)
        except KeyboardInterrupt:
            interrupted = True
    results = [(pair, join_deals(parts)) for pair, parts in played if parts]
    _print_results(args, rules, sources, results, interrupted)
    if interrupted:
        print("briscola: interrupted, these decks were done", file=sys.stderr)
    return _INTERRUPTED if interrupted else 0


def _print_results(
    args: argparse.Namespace,
    rules: Rules,
    sources: Mapping[str, str],
    results: Sequence[tuple[tuple[str, str], Deals]],
    interrupted: bool,
) -> None:
    """Table or JSON of what was played."""
    matches = [summarize(deals.scores, *pair, deals.seconds) for pair, deals in results]
    tests: list[Sprt | None] = [None] * len(results)
    taken_apart: list[Phases | None] = [None] * len(results)
    if args.sprt:
        tests = [sprt(deck_margins(deals.scores), *args.sprt) for _, deals in results]
    if args.by_phase:
        taken_apart = [by_phase(deals, rules) for _, deals in results]
    if not args.json:
        print_matches(matches, sys.stdout)
        print(_describe(rules, args.seed, sources))
        for match, test in zip(matches, tests, strict=True):
            if test:
                print_sprt(match, test, sys.stdout)
        for match, parts in zip(matches, taken_apart, strict=True):
            if parts:
                print_phases(match, parts, sys.stdout)
        return
    report = {
        "briscola_env": __version__,
        "rules": rules.to_dict(),
        "seed": args.seed,
        "interrupted": interrupted,
        "sha256": {name: digest for name, digest in sources.items() if digest},
        "matches": [
            match.to_dict()
            | ({"sprt": asdict(test)} if test else {})
            | ({"phases": parts.to_dict()} if parts else {})
            for match, test, parts in zip(matches, tests, taken_apart, strict=True)
        ],
    }
    print(json.dumps(report, indent=2))


def _describe(rules: Rules, seed: int, sources: Mapping[str, str]) -> str:
    """What was played, in lines."""
    return "\n".join(
        [
            f"{describe_rules(rules)}; seed {seed}; each deck played "
            f"{rules.sides} times, once from each side",
            *(f"{name}: sha256 {digest}" for name, digest in sources.items() if digest),
        ]
    )


def _tournament_of(args: argparse.Namespace) -> Tournament:
    """What the command line asks for; its options go before those of a YAML file."""
    if len(args.policy) == 1 and args.policy[0].endswith((".yaml", ".yml")):
        spec = read_spec(Path(args.policy[0]))
    else:
        spec = {"policies": labelled(args.policy)}
    options = {**spec.get("rules", {}), **_options(args)}
    players = spec.get("players") if args.players is None else args.players
    if players is not None:
        options["players"] = players
    return Tournament(
        spec["policies"],
        table_rules(list(spec["policies"].values()), options),
        args.decks or spec.get("decks", 1000),
        spec.get("seed", 0) if args.seed is None else args.seed,
        args.gauntlet or spec.get("gauntlet", False),
    )


def _tournament(args: argparse.Namespace) -> int:
    require_rich()
    require_matplotlib()
    tournament = _tournament_of(args)
    names = tournament.policies
    players = [load_policy(name, tournament.rules) for name in names.values()]
    sources = [(label, name, source_hash(name)) for label, name in names.items()]
    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    interrupted = False
    file = folder / "results.sqlite"
    with ResultsFile(file, tournament.rules, tournament.seed, sources) as results:
        with ProgressBar("games", sys.stderr) as bar:
            try:
                for done, total in play(tournament, players, results):
                    bar.show(done, total)
            except KeyboardInterrupt:
                interrupted = True
        met = [pair for pair in tournament.pairs.tolist() if results.decks_done(*pair)]
        scores = [results.scores(*pair) for pair in met]
    if interrupted:
        print("briscola: interrupted; the same command goes on from here", file=sys.stderr)
    if met:
        table = standings(list(names), np.array(met), scores)
        print_standings(table, sys.stdout)
        write_csv(table, folder)
        write_text(folder / "report.html", html_report(table, _facts(tournament, sources)))
        print(f"written: {', '.join(str(folder / name) for name in _TOURNAMENT_FILES)}")
    return _INTERRUPTED if interrupted else 0


_TOURNAMENT_FILES = ("results.sqlite", "ratings.csv", "cross_table.csv", "report.html")


def _facts(
    tournament: Tournament, sources: Sequence[tuple[str, str, str]]
) -> list[tuple[str, str]]:
    """What the report says about how it was played."""
    return [
        ("seed", str(tournament.seed)),
        ("decks a pair", f"{tournament.decks:,}"),
        *((name, str(value)) for name, value in tournament.rules.to_dict().items()),
        *((label, f"{name} {sha256}") for label, name, sha256 in sources),
    ]


def _replay(args: argparse.Namespace) -> int:
    records = read_records(Path(args.file))
    if args.deal is not None:
        record = next(islice(records, args.deal, None), None)
        if record is None:
            raise ValueError(f"{args.file}: no record number {args.deal}")
        return _step_through(record)
    deals = wrong = 0
    for deals, fault in enumerate(check_records(records), 1):
        if fault:
            wrong += 1
            print(f"deal {deals - 1}: {fault}")
    print(f"{deals - wrong:,} of {deals:,} deals replay to the same result")
    return _DIFFERENT if wrong else 0


def _step_through(record: Record) -> int:
    """Show a record action by action, on a terminal waiting for Enter before the next."""
    waits = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        for number, text in enumerate(show_record(record)):
            if number:
                answer = input("Enter: next, q: quit ") if waits else ""
                if answer.strip() == "q":
                    return 0
                print()
            print(text)
    except EOFError:
        return 0
    except ReplayError as error:
        print(f"\n{error}")
        return _DIFFERENT
    return 0


def _exploit(args: argparse.Namespace) -> int:
    if args.exact:
        rules = _rules(args, [args.policy])
        policy = load_policy(args.policy, rules, trust_pickle=args.trust_pickle)
        print(exact_report(args.policy, policy, rules, args.seed))
        return 0
    if args.deck or args.rule or args.players or args.trust_pickle:
        raise ValueError("--minutes goes by the checkpoint's rules: leave the other options out")
    return train_exploiter(args.policy, args.minutes, args.seed)


def _export(args: argparse.Namespace) -> int:
    if args.out is None and args.onnx is None:
        raise ValueError("nothing to write: --out FILE, --onnx FILE, or both")
    if args.out is not None and args.out.suffix != SUFFIX:
        raise ValueError(f"--out: {str(args.out)!r}: a name that ends in {SUFFIX}")
    checkpoint = load_checkpoint(args.checkpoint, args.trust_pickle)
    if args.out is not None:
        checkpoint.save(args.out)
        print(f"written: {args.out}")
    if args.onnx is not None:
        write_onnx(checkpoint, args.onnx, args.checkpoint)
        print(f"written: {args.onnx}")
    return 0


def _info(args: argparse.Namespace) -> int:
    checkpoint = load_checkpoint(args.checkpoint)
    print(describe(checkpoint, find(args.checkpoint)))
    return 0


_TRUST = "read models of Stable-Baselines3 (.zip): their format can run any code"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="briscola", description="Briscola: evaluate policies and more.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    evaluate = commands.add_parser(
        "evaluate",
        help="policies against opponents on mirrored decks",
        description="Play each policy against each opponent: every deck once from each side, "
        "with the same cards. A policy is a name, the path of a checkpoint or of a run's folder, "
        "or module:Class. Ctrl-C prints what is done.",
    )
    evaluate.add_argument("policy", nargs="+", help="who is measured")
    evaluate.add_argument(
        "--against", nargs="+", default=["random", "greedy"], metavar="POLICY", help="opponents"
    )
    evaluate.add_argument(
        "--decks",
        type=_whole(1),
        help=f"a pair ({_DECKS:,}; with --sprt at most, {_SPRT_DECKS:,})",
    )
    evaluate.add_argument("--seed", type=_whole(0), default=0, help="of the decks (0)")
    evaluate.add_argument(
        "--sprt",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="stop when it is decided whether the margin is LOW or HIGH card points, with error "
        "rates of 5 %%",
    )
    evaluate.add_argument(
        "--by-phase", action="store_true", help="where points are won, and mistakes at the end"
    )
    evaluate.add_argument("--record", metavar="FILE", help="write every deal as a line of JSON")
    evaluate.add_argument(
        "--allow-cheats", action="store_true", help="play policies that see every card, as `oracle`"
    )
    evaluate.add_argument("--trust-pickle", action="store_true", help=_TRUST)
    evaluate.add_argument("--json", action="store_true", help="JSON on standard output")
    _add_table_options(evaluate)
    evaluate.set_defaults(run=_evaluate)
    _add_tournament(commands)
    _add_replay(commands)
    _add_export(commands)
    _add_exploit(commands)
    return parser


def _add_exploit(commands: Any) -> None:
    exploit = commands.add_parser(
        "exploit",
        help="how much can be won against a policy",
        description="Exactly, by a best response to it in the whole tree of a study deck; or, for "
        "a checkpoint of any game, what a best response trained for some minutes wins: a lower "
        "bound.",
    )
    exploit.add_argument("policy", help="a checkpoint, the folder of a run, or a policy's name")
    how = exploit.add_mutually_exclusive_group(required=True)
    how.add_argument("--exact", action="store_true", help="study decks of two players only")
    how.add_argument("--minutes", type=_positive, metavar="M", help="train a best response")
    exploit.add_argument(
        "--seed", type=_whole(0), default=0, help="of the training, or of a policy's lots (0)"
    )
    exploit.add_argument("--trust-pickle", action="store_true", help=_TRUST)
    _add_table_options(exploit)
    exploit.set_defaults(run=_exploit)


def _add_replay(commands: Any) -> None:
    replay = commands.add_parser(
        "replay",
        help="check recorded deals, or step through one",
        description="Without --deal, play every record again and say which do not come to their "
        "result, and at which action; the exit code is then 1.",
    )
    replay.add_argument("file", help="as `briscola evaluate --record` writes it")
    replay.add_argument(
        "--deal",
        type=_whole(0),
        metavar="K",
        help="step through record number K, from 0 on: all cards, and what the seat to act knew",
    )
    replay.set_defaults(run=_replay)


def _add_export(commands: Any) -> None:
    info = commands.add_parser("info", help="what a checkpoint is")
    info.add_argument("checkpoint", help="a file, or the folder of a run")
    info.set_defaults(run=_info)
    export = commands.add_parser(
        "export",
        help="a checkpoint as ONNX, a model of Stable-Baselines3 as a checkpoint",
        description="Write a network in another form; the moves stay the same.",
    )
    export.add_argument("checkpoint", help="a file, the folder of a run, or a model (.zip)")
    export.add_argument("-o", "--out", type=Path, metavar="FILE", help="our form, .safetensors")
    export.add_argument("--onnx", type=Path, metavar="FILE", help="ONNX, its encoding included")
    export.add_argument("--trust-pickle", action="store_true", help=_TRUST)
    export.set_defaults(run=_export)


def _add_tournament(commands: Any) -> None:
    tournament = commands.add_parser(
        "tournament",
        help="everybody against everybody, with ratings and a report",
        description="Every pair plays the same decks, each from every side. Results live in "
        "DIR/results.sqlite: run the same command again after a stop, or with more decks or "
        "policies, and only what is missing is played.",
    )
    tournament.add_argument("policy", nargs="+", help="policies, or one YAML file (docs)")
    tournament.add_argument("--decks", type=_whole(1), help="a pair (1000)")
    tournament.add_argument("--seed", type=_whole(0), help="of the decks (0)")
    tournament.add_argument(
        "--gauntlet", action="store_true", help="only the first policy meets the others"
    )
    tournament.add_argument("--out", default="tournament", metavar="DIR", help="(tournament)")
    _add_table_options(tournament)
    tournament.set_defaults(run=_tournament)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 2, after one line on stderr, if something is wrong."""
    # Threads of torch that wait must not keep a core busy; it reads this when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        args = _parser().parse_args(arguments)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (ValueError, ImportError, OSError) as error:
        print(f"briscola: {error}", file=sys.stderr)
        return _WRONG


if __name__ == "__main__":
    sys.exit(main())
