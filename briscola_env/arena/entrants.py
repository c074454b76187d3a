"""Who plays, at which table: policies by name, and the rules that their checkpoints bring."""

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from briscola_env.cards import parse_card
from briscola_env.checkpoint import SB3_SUFFIX, Checkpoint, find
from briscola_env.policies import Policy, checkpoint_of, make_policy
from briscola_env.policies.base import cheats
from briscola_env.rules import InvalidRulesError, Rules

_USER_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def load_policy(
    name: str, rules: Rules, allow_cheats: bool = False, trust_pickle: bool = False
) -> Policy:
    """The policy of this name at a table with these rules.

    A name that `policies.make_policy` knows, the path of a checkpoint or of a run's folder, or
    `module:Class`: your own policy, made by `Class(rules)`; the module is looked for in the
    working directory too. One that sees every card is refused unless cheats are allowed, a model of
    Stable-Baselines3, which can run code when it is read, unless pickles are trusted.
    ValueError says in one line what is wrong.
    """
    if _USER_CLASS.fullmatch(name):
        policy = _user_policy(name, rules)
    elif trust_pickle and name.endswith(SB3_SUFFIX):
        from briscola_env.policies.sb3 import ModelPolicy, read_model

        policy = ModelPolicy(read_model(name), rules, name)
    else:
        policy = make_policy(name, rules)
    if cheats(policy) and not allow_cheats:
        raise ValueError(
            f"policy {name!r} sees every card: `briscola evaluate --allow-cheats` is needed"
        )
    return policy


def _user_policy(name: str, rules: Rules) -> Policy:
    """The policy `module:Class`."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        policy: Policy = getattr(importlib.import_module(module), attribute)(rules)
    except Exception as error:  # whatever the user's code raises
        raise ValueError(
            f"policy {name!r}: {attribute}(rules) failed: {type(error).__name__}: {error}"
        ) from error
    if not callable(getattr(policy, "act", None)) or not isinstance(
        getattr(policy, "name", None), str
    ):
        raise ValueError(f"policy {name!r}: it needs a method `act` and a string `name`")
    return policy


def load_checkpoint(path: str, trust_pickle: bool = False) -> Checkpoint:
    """The checkpoint at a path, or made of a Stable-Baselines3 model if pickles are trusted.

    CheckpointError says in one line what is wrong.
    """
    if trust_pickle and path.endswith(SB3_SUFFIX):
        from briscola_env.policies.sb3 import read_model, to_checkpoint

        return to_checkpoint(read_model(path), path)
    return Checkpoint.load(path)


def _trained_rules(path: str, trust_pickle: bool) -> Rules:
    """The rules that a checkpoint or a model was trained with."""
    if trust_pickle and path.endswith(SB3_SUFFIX):
        from briscola_env.policies.sb3 import encoder_of, read_model

        return encoder_of(read_model(path), path).rules
    return Checkpoint.load(path).rules


def table_rules(
    names: Sequence[str], options: Mapping[str, Any], trust_pickle: bool = False
) -> Rules:
    """The rules of the first checkpoint among the names (else the default), with these options.

    One deal an episode. Whether every checkpoint can play them is checked by `load_policy`.
    """
    paths = (path for path in map(checkpoint_of, names) if path is not None)
    base = next((_trained_rules(path, trust_pickle) for path in paths), Rules())
    values = base.single_deal().to_dict()
    if options.get("players", base.players) != base.players:
        values["removed_two"] = None  # a default of three players
    return Rules.from_dict({**values, **options})


def parse_rule(text: str) -> tuple[str, Any]:
    """Name and value of `exchange_seven=true` or `cards=Ac,3d,...`; InvalidRulesError."""
    name, equals, value = text.partition("=")
    defaults = {field.name: field.default for field in fields(Rules)}
    if not equals or name not in defaults:
        raise InvalidRulesError(
            f"not a rule: {text!r}; like exchange_seven=true, and there are {', '.join(defaults)}"
        )
    if value == "none":
        return name, None
    if name == "cards":
        try:
            return name, tuple(parse_card(card) for card in value.split(","))
        except ValueError as error:
            raise InvalidRulesError(f"cards={value}: {error}") from None
    if isinstance(defaults[name], bool):
        return name, {"true": True, "false": False}.get(value, value)
    return name, int(value) if re.fullmatch(r"-?\d+", value) else value


def source_file(name: str) -> Path | None:
    """The file that a loaded policy comes from: its checkpoint or its module; None for ours."""
    checkpoint = checkpoint_of(name)
    if checkpoint is not None:
        return find(checkpoint)
    if _USER_CLASS.fullmatch(name):
        path = sys.modules[name.partition(":")[0]].__file__
        return Path(path) if path else None
    return None


def source_hash(name: str) -> str:
    """SHA-256 of `source_file`, empty if there is none."""
    file = source_file(name)
    return hashlib.sha256(file.read_bytes()).hexdigest() if file else ""
