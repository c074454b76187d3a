"""What a training run changes, and how it begins: network, optimizer, league, and how far it is."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from briscola_env.cards import NUM_SUITS
from briscola_env.checkpoint import Checkpoint
from briscola_env.encoding import Encoder
from briscola_env.policies.network import ActorCritic, from_checkpoint
from briscola_env.rng import child_seed
from training.config import ConfigError, TrainingConfig
from training.league import League
from training.ranks import Ranks

WEIGHTS_SEED, DEALS_SEED, MINIBATCH_SEED, EVALUATION_SEED, LEAGUE_SEED = range(5)
"""What child seeds of a run's seed are for."""


@dataclass
class Learner:
    """What an iteration changes: the network, its optimizer, its league, and how far the run is."""

    config: TrainingConfig
    ranks: Ranks
    encoder: Encoder
    network: ActorCritic
    optimizer: torch.optim.Adam
    league: League
    device: torch.device
    precision: torch.dtype
    iteration: int = 0
    deals: int = 0
    decisions: int = 0
    seconds: float = 0.0
    best_margin: float = -float("inf")
    measured: dict[str, Any] = field(default_factory=dict)

    def autocast(self) -> torch.autocast:
        """The reduced precision of the networks' bodies."""
        reduced = self.precision != torch.float32
        return torch.autocast(self.device.type, self.precision, enabled=reduced)

    def seed(self, purpose: int) -> np.uint64:
        """The seed for a purpose in this iteration."""
        of_purpose = child_seed(np.uint64(self.config.seed), purpose)
        return np.uint64(child_seed(np.uint64(of_purpose), self.iteration))


def make_learner(config: TrainingConfig, ranks: Ranks = Ranks()) -> Learner:  # noqa: B008 - frozen
    """A fresh network, optimizer and league for a run."""
    torch.set_num_threads(config.threads)
    cuda = torch.cuda.is_available()
    if config.device == "cuda" and not cuda:
        raise ConfigError("device='cuda': no GPU is available here; use auto or cpu")
    device = torch.device("cuda" if cuda and config.device != "cpu" else "cpu")
    weights_seed = int(child_seed(np.uint64(config.seed), WEIGHTS_SEED)) >> 1

    def make_network() -> ActorCritic:
        return ActorCritic(**config.network_sizes, seed=weights_seed).to(device)

    encoder, network = config.encoder, make_network()
    optimizer = torch.optim.Adam(
        network.parameters(), lr=config.learning_rate, eps=1e-5, fused=True
    )
    league = League(config.league, encoder, make_network)
    precision = precision_of(config, device)
    return Learner(config, ranks, encoder, network, optimizer, league, device, precision)


def first_weights(config: TrainingConfig, start: str) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint to begin with; ConfigError unless it is of such a network.

    It may have seen fewer finished tricks: what it did not see counts nothing at first.
    """
    checkpoint = Checkpoint.load(start)
    if checkpoint.recent_tricks < config.recent_tricks:
        checkpoint = with_recent_tricks(checkpoint, config.recent_tricks)
    network = from_checkpoint(checkpoint, start)
    has, needs = network.sizes, ActorCritic(**config.network_sizes).sizes
    seen, wanted = ((at.frame, at.digest) for at in (checkpoint.encoder, config.encoder))
    if seen != wanted:
        raise ConfigError(
            f"start={start!r} sees frame={checkpoint.frame}, "
            f"show_points={checkpoint.show_points}, recent_tricks={checkpoint.recent_tricks} of "
            f"{checkpoint.rules.players} players, not what this run's network is to see"
        )
    different = [
        f"{key}={has[key]!r} (not {needs[key]!r})" for key in needs if has[key] != needs[key]
    ]
    if different:
        raise ConfigError(f"start={start!r} has another network: {', '.join(different)}")
    return network.state_dict()


def with_recent_tricks(checkpoint: Checkpoint, tricks: int) -> Checkpoint:
    """The same player shown more finished tricks, `tricks` in all, with weights of 0 for them."""
    seen = next(f for f in checkpoint.encoder.features if f.name == "recent")
    wider = replace(checkpoint, recent_tricks=tricks)
    added = wider.encoder.size - checkpoint.encoder.size
    weights = dict(checkpoint.weights)
    for name, place, columns in (
        ("actor_body.0.weight", seen.stop, added),
        ("critic_body.0.weight", seen.stop, added),
        # Has a suit's quarter of every plane.
        ("actor_body.read.weight", seen.stop // NUM_SUITS, added // NUM_SUITS),
    ):
        if name in weights:
            weights[name] = np.insert(weights[name], [place] * columns, 0, axis=1)
    sizes = {**checkpoint.network, "observation_size": wider.encoder.size}
    if sizes["suits"]:
        sizes["card_planes"] = wider.encoder.card_planes
    return replace(wider, network=sizes, weights=weights)


def precision_of(config: TrainingConfig, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 where the hardware multiplies it; elsewhere it would be emulated."""
    if config.precision != "auto":
        return torch.bfloat16 if config.precision == "bfloat16" else torch.float32
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    features = torch.cpu.get_capabilities()
    native = features.get("avx512_bf16") or features.get("amx_bf16") or features.get("sve_bf16")
    return torch.bfloat16 if native else torch.float32
