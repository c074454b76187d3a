"""Players: the `Policy` protocol and everything that follows it."""

from collections.abc import Callable
from pathlib import Path

from briscola_env.checkpoint import SUFFIX, Checkpoint
from briscola_env.policies.base import Policy, RandomPolicy
from briscola_env.policies.heuristics import GreedyPolicy
from briscola_env.rules import Rules

NAMED_POLICIES: dict[str, Callable[[], Policy]] = {
    "random": RandomPolicy,
    "greedy": GreedyPolicy,
}


def is_checkpoint(name: str) -> bool:
    """True if the name of a policy is meant as the path of a checkpoint or of a run's folder."""
    return name.endswith(SUFFIX) or "/" in name or Path(name).exists()


def make_policy(name: str, rules: Rules) -> Policy:
    """The policy of that name, or of the checkpoint at that path, for a table with these rules.

    ValueError (CheckpointError for a checkpoint) says what is wrong and what is allowed.
    """
    if name in NAMED_POLICIES:
        return NAMED_POLICIES[name]()
    if is_checkpoint(name):
        from briscola_env.policies.network import policy_of  # only this needs torch

        return policy_of(Checkpoint.load(name), rules, name)
    raise ValueError(
        f"unknown policy {name!r}: allowed are {', '.join(NAMED_POLICIES)}, "
        "or the path of a checkpoint or of a run's folder"
    )


__all__ = [
    "NAMED_POLICIES",
    "GreedyPolicy",
    "Policy",
    "RandomPolicy",
    "is_checkpoint",
    "make_policy",
]
