"""Players: the `Policy` protocol and everything that follows it."""

from collections.abc import Callable
from pathlib import Path

from briscola_env.checkpoint import SUFFIX, Checkpoint
from briscola_env.policies.base import Policy, RandomPolicy
from briscola_env.policies.endgame import ExactEndgame
from briscola_env.policies.expert import ExpertPolicy
from briscola_env.policies.heuristics import GreedyPolicy
from briscola_env.policies.ismcts import IsmctsPolicy
from briscola_env.policies.search import PimcPolicy
from briscola_env.rules import Rules

NAMED_POLICIES: dict[str, Callable[[], Policy]] = {
    "random": RandomPolicy,
    "greedy": GreedyPolicy,
    "expert": ExpertPolicy,
    "expert-v1": lambda: ExpertPolicy("expert-v1"),
}
SEARCH_POLICIES: dict[str, Callable[[int], Policy]] = {"pimc": PimcPolicy, "ismcts": IsmctsPolicy}
"""By the word before the colon: `pimc:1000` makes 1,000 play-outs a move."""


def is_checkpoint(name: str) -> bool:
    """True if the name of a policy is meant as the path of a checkpoint or of a run's folder."""
    return name.endswith(SUFFIX) or "/" in name or Path(name).exists()


def make_policy(name: str, rules: Rules) -> Policy:
    """The policy of that name, or of the checkpoint at that path, for a table with these rules.

    ValueError (CheckpointError for a checkpoint) says what is wrong and what is allowed.
    """
    if name in NAMED_POLICIES:
        return NAMED_POLICIES[name]()
    word, colon, number = name.partition(":")
    if colon and word in SEARCH_POLICIES and number.isascii() and number.isdecimal():
        return SEARCH_POLICIES[word](int(number))
    if word == "search" and colon:
        return _network_search(name, number, rules)
    if is_checkpoint(name):
        from briscola_env.policies.network import policy_of  # only this needs torch

        return policy_of(Checkpoint.load(name), rules, name)
    raise ValueError(
        f"unknown policy {name!r}: allowed are {', '.join(NAMED_POLICIES)}, pimc:K, ismcts:N, "
        "search:WORLDS:PATH, or the path of a checkpoint or of a run's folder"
    )


def _network_search(name: str, argument: str, rules: Rules) -> Policy:
    """The policy `search:WORLDS:PATH`."""
    worlds, colon, path = argument.partition(":")
    if not (colon and worlds.isascii() and worlds.isdecimal() and int(worlds) > 0):
        raise ValueError(f"policy {name!r}: write it as search:WORLDS:PATH, like search:50:runs/a")
    from briscola_env.policies.netsearch import NetworkSearch

    checkpoint = Checkpoint.load(path)
    search: Policy = NetworkSearch(checkpoint, rules, int(worlds), name)
    return ExactEndgame(search) if rules.players == 2 else search


__all__ = [
    "NAMED_POLICIES",
    "ExpertPolicy",
    "GreedyPolicy",
    "IsmctsPolicy",
    "PimcPolicy",
    "Policy",
    "RandomPolicy",
    "is_checkpoint",
    "make_policy",
]
