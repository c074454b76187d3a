"""Players: the `Policy` protocol and everything that follows it."""

from collections.abc import Callable
from pathlib import Path

from briscola_env.checkpoint import SB3_SUFFIX, SUFFIX, Checkpoint, released_models
from briscola_env.policies.base import Policy, RandomPolicy
from briscola_env.policies.exact import ExactEndgame
from briscola_env.policies.expert import ExpertPolicy
from briscola_env.policies.heuristics import GreedyPolicy
from briscola_env.policies.ismcts import IsmctsPolicy
from briscola_env.policies.oracle import OraclePolicy
from briscola_env.policies.search import PimcPolicy
from briscola_env.rules import Rules

NAMED_POLICIES: dict[str, Callable[[], Policy]] = {
    "random": RandomPolicy,
    "greedy": GreedyPolicy,
    "expert": ExpertPolicy,
    "expert-v1": lambda: ExpertPolicy("expert-v1"),
    "oracle": OraclePolicy,
}
SEARCH_POLICIES: dict[str, Callable[[int], Policy]] = {"pimc": PimcPolicy, "ismcts": IsmctsPolicy}
"""By the word before the colon: `pimc:1000` makes 1,000 play-outs a move."""
_SEARCH = "search"  # `search:50:runs/a`: a checkpoint with one-step search in 50 worlds


def checkpoint_of(name: str) -> str | None:
    """The checkpoint that a policy's name has in it, if any: a path or a released model's name."""
    word, colon, rest = name.partition(":")
    if word == _SEARCH and colon:
        return rest.partition(":")[2]
    if name in NAMED_POLICIES or (word in SEARCH_POLICIES and colon):
        return None
    is_path = name.endswith((SUFFIX, SB3_SUFFIX)) or "/" in name or Path(name).exists()
    return name if is_path or name in released_models() else None


def make_policy(name: str, rules: Rules) -> Policy:
    """The policy of that name, or of the checkpoint at that path, for a table with these rules.

    ValueError (CheckpointError for a checkpoint) says what is wrong and what is allowed.
    """
    if name in NAMED_POLICIES:
        return NAMED_POLICIES[name]()
    word, colon, argument = name.partition(":")
    if word in SEARCH_POLICIES and colon:
        return SEARCH_POLICIES[word](_count(name, argument))
    path = checkpoint_of(name)
    if path is None:
        raise ValueError(
            f"unknown policy {name!r}: allowed are {', '.join(NAMED_POLICIES)}, pimc:K, ismcts:N, "
            "search:WORLDS:PATH, the path of a checkpoint or of a run's folder, or a released "
            f"model: {', '.join(released_models())}"
        )
    # Only networks need torch.
    if path == name:
        from briscola_env.policies.network import policy_of

        return policy_of(Checkpoint.load(path), rules, name)
    from briscola_env.policies.netsearch import network_search

    worlds = _count(name, argument.partition(":")[0])
    search = network_search(Checkpoint.load(path), rules, worlds, name)
    return ExactEndgame(search) if rules.players == 2 or search.solves else search


def _count(name: str, text: str) -> int:
    """The number in a policy's name."""
    if not (text.isascii() and text.isdecimal() and int(text) > 0):
        raise ValueError(f"policy {name!r}: {text!r} is not a number of at least 1")
    return int(text)


__all__ = [
    "NAMED_POLICIES",
    "ExpertPolicy",
    "GreedyPolicy",
    "IsmctsPolicy",
    "PimcPolicy",
    "Policy",
    "RandomPolicy",
    "checkpoint_of",
    "make_policy",
]
