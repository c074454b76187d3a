"""The settings of a training run: typed, complete in configs/default.yaml, checked before work.

A preset names only what differs from the default; the command line may change single keys. A key
that does not exist stops the run and is named.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from briscola_env.checks import whole_number
from briscola_env.encoding import FRAMES, SHOW_POINTS, Encoder
from briscola_env.policies.endgame import MOST_CARDS
from briscola_env.policies.exact import can_solve_end
from briscola_env.rules import InvalidRulesError, Rules

DEFAULT = Path(__file__).parent.parent / "configs" / "default.yaml"


class ConfigError(ValueError):
    """A setting that does not exist or cannot be; the message names it and what is allowed."""


class Section(BaseModel):
    """Refuses unknown keys and is not changed after it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NetworkConfig(Section):
    """Widths of the hidden layers."""

    suits: int = Field(ge=0, description="width of what is kept of a suit; 0: a plain perceptron")
    actor: list[int] = Field(min_length=1)
    critic: list[int] = Field(min_length=1)


class EvaluationConfig(Section):
    """How the learner is measured during training."""

    every: int = Field(ge=1, description="iterations between two measurements")
    decks: int = Field(ge=2, description="mirrored decks against each opponent")
    against: list[str] = Field(min_length=1)


class LeagueConfig(Section):
    """Who else plays in training; shares of all deals, the rest is self-play."""

    past: float = Field(ge=0, le=1, description="share against past selves")
    every: int = Field(ge=1, description="iterations between two snapshots")
    pool: int = Field(ge=1, description="snapshots that are kept")
    fixed: dict[str, float] = Field(description="share against each of these policies")


class TrainingConfig(Section):
    """A whole run; see configs/default.yaml for what each setting does."""

    rules: dict[str, Any]
    frame: Literal[FRAMES]  # type: ignore[valid-type]
    show_points: Literal[SHOW_POINTS]  # type: ignore[valid-type]
    recent_tricks: int
    network: NetworkConfig
    start: str | None = Field(description="checkpoint with the first weights; null: fresh ones")
    seed: int = Field(ge=0, lt=2**63)
    iterations: int = Field(ge=1)
    deals: int = Field(ge=1)
    epochs: int = Field(ge=1)
    minibatch: int = Field(ge=2)
    learning_rate: float = Field(gt=0)
    final_learning_rate: float = Field(ge=0)
    entropy_coef: float = Field(ge=0)
    final_entropy_coef: float = Field(ge=0)
    uniform_coef: float = Field(ge=0)
    final_uniform_coef: float = Field(ge=0)
    clip_coef: float = Field(gt=0)
    gae_lambda: float = Field(ge=0, le=1)
    value_coef: float = Field(gt=0)
    max_grad_norm: float = Field(gt=0)
    reward_points: float = Field(gt=0)
    exact_endgame: bool
    device: Literal["auto", "cpu", "cuda"]
    precision: Literal["auto", "float32", "bfloat16"]
    threads: int = Field(ge=1)
    league: LeagueConfig
    checkpoint_every: int = Field(ge=1)
    keep_checkpoints: int = Field(ge=0)
    evaluation: EvaluationConfig

    @field_validator("rules")
    @classmethod
    def _rules_can_be_played(cls, rules: dict[str, Any]) -> dict[str, Any]:
        try:
            table = Rules.from_dict(rules)
        except InvalidRulesError as error:
            raise ValueError(str(error)) from None
        if table != table.single_deal():
            raise ValueError("training is on single deals: leave match_wins and max_deals out")
        return table.to_dict()

    @model_validator(mode="after")
    def _parts_fit(self) -> "TrainingConfig":
        whole_number("recent_tricks", self.recent_tricks, 0, self.table.num_tricks - 1)
        if min(self.network.actor + self.network.critic) < 1:
            raise ValueError("network: widths of layers are at least 1")
        if self.network.suits and self.frame == "table":
            raise ValueError(
                f"network.suits={self.network.suits} needs trump in its place: "
                "frame=trump_first or frame=canonical, not frame=table"
            )
        shares = [self.league.past, *self.league.fixed.values()]
        if min(shares) < 0 or sum(shares) > 1 + 1e-9:  # 0.7 + 0.2 + 0.1 is more than 1
            raise ValueError(f"league: shares {shares} are to be positive and at most 1 together")
        if self.exact_endgame and not can_solve_end(self.table):
            raise ValueError(
                f"exact_endgame needs players=2, 4 or 6 with hand_size up to {MOST_CARDS} and no "
                f"signals, not players={self.table.players} with hand_size={self.table.hand_size} "
                f"and signals={self.table.signals}"
            )
        return self

    def scheduled(self, iteration: int) -> dict[str, float]:
        """What goes in a line to its `final_` value at the end of the run, in an iteration."""
        progress = iteration / self.iterations
        return {
            name: getattr(self, name) * (1 - progress) + getattr(self, f"final_{name}") * progress
            for name in ("learning_rate", "entropy_coef", "uniform_coef")
        }

    @property
    def table(self) -> Rules:
        """The rules as an object."""
        return Rules.from_dict(self.rules)

    @property
    def encoder(self) -> Encoder:
        """What the network sees of this table."""
        return Encoder(self.table, self.frame, self.show_points, self.recent_tricks)

    @property
    def network_sizes(self) -> dict[str, Any]:
        """What an `ActorCritic` takes but for its seed."""
        encoder = self.encoder
        return {
            "observation_size": encoder.size,
            "num_actions": self.table.num_actions,
            "card_planes": encoder.card_planes,
            **self.network.model_dump(),
        }


def load_config(preset: Path | None = None, changes: Sequence[str] = ()) -> TrainingConfig:
    """The default, then a preset over it, then single `key=value` changes (dotted keys, YAML)."""
    settings = _read(DEFAULT)
    if preset is not None:
        settings = _merge(settings, _read(preset))
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise ConfigError(f"--set {change!r}: write it as key=value")
        try:
            value: Any = yaml.safe_load(text)
        except yaml.YAMLError:
            raise ConfigError(f"--set {change!r}: the value is not YAML") from None
        for part in reversed(key.split(".")):
            value = {part: value}
        settings = _merge(settings, value)
    try:
        return TrainingConfig(**settings)
    except ValidationError as error:
        lines = [_explain(item) for item in error.errors()]
        raise ConfigError("; ".join(lines)) from None


def _read(path: Path) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"config {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"config {path}: not YAML ({' '.join(str(error).split())})") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict) or not all(isinstance(key, str) for key in settings):
        raise ConfigError(f"config {path}: keys and values are expected")
    return settings


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """`above` over `below`, key by key in every section; an empty section empties it."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict) and value
        merged[key] = _merge(old, value) if both else value
    return merged


def _explain(item: Any) -> str:
    """One line for one of pydantic's errors: the key, what is wrong, the value."""
    key = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        return f"unknown key {key!r}; configs/default.yaml lists all keys"
    if item["type"] == "missing":
        return f"key {key!r} is missing"
    reason = item["msg"].removeprefix("Value error, ")
    return f"{key}={item['input']!r}: {reason}" if key else reason
