"""Players: the `Policy` protocol and everything that follows it."""

from briscola_env.policies.base import Policy, RandomPolicy
from briscola_env.policies.heuristics import GreedyPolicy
from briscola_env.rules import Rules

NAMED_POLICIES: dict[str, type[RandomPolicy] | type[GreedyPolicy]] = {
    policy.name: policy for policy in (RandomPolicy, GreedyPolicy)
}


def make_policy(name: str, rules: Rules) -> Policy:
    """The policy of that name, or of the checkpoint at that path, for a table with these rules.

    ValueError (CheckpointError for a checkpoint) says what is wrong and what is allowed.
    """
    if name in NAMED_POLICIES:
        return NAMED_POLICIES[name]()
    raise ValueError(f"unknown policy {name!r}: allowed are {', '.join(NAMED_POLICIES)}")


__all__ = ["NAMED_POLICIES", "GreedyPolicy", "Policy", "RandomPolicy", "make_policy"]
