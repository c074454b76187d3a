"""A network as a policy: an actor and a separate, smaller critic over the encoded info state.

The actor is a perceptron over all features, or one that treats all suits alike (`SuitBody`), which
learns the same from far fewer deals (docs/results.md).
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import CARDS_PER_SUIT, NUM_CARDS, NUM_SUITS
from briscola_env.checkpoint import Checkpoint
from briscola_env.encoding import Encoder
from briscola_env.information import info_state
from briscola_env.jit import kernel
from briscola_env.policies.base import Policy
from briscola_env.policies.exact import ExactEndgame
from briscola_env.rng import number_below
from briscola_env.rules import CheckpointError, Rules
from briscola_env.state import States

try:
    import torch
    from torch import Tensor, nn
except ImportError:
    raise ImportError("networks need torch: pip install 'briscola-env[train]'") from None

_ILLEGAL = -1e30  # in place of minus infinity, whose product with 0 is not a number
ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


def masked_log_probs(logits: Tensor, legal: Tensor) -> Tensor:
    """Log-probabilities [N, A] of the legal actions; the others have probability exactly 0.

    logits: float32 [N, A]. legal: bool [N, A], at least one True a row (unchecked).
    """
    return torch.log_softmax(logits.masked_fill(~legal, _ILLEGAL), dim=-1)


def entropy(log_probs: Tensor) -> Tensor:
    """Entropy [N] in nats of `masked_log_probs`."""
    return -(log_probs.exp() * log_probs).sum(-1)


def kl_from_uniform(log_probs: Tensor, legal: Tensor) -> Tensor:
    """KL divergence [N], in nats, from playing any legal action alike to `masked_log_probs`.

    0 where they are the same; without bound as the probability of any legal action goes to 0.
    """
    count = legal.sum(-1)
    return -log_probs.masked_fill(~legal, 0.0).sum(-1) / count - count.log()


@kernel
def sample_actions(logits: Any, legal: Any, seeds: Any, actions: Any, log_probs: Any) -> None:
    """Sample one legal action a row, with the probabilities of `masked_log_probs`, in place.

    logits: float32 [N, A]; legal: bool [N, A], at least one True a row; seeds: uint64 [N];
    actions: int64 [N] and log_probs: float32 [N] receive the samples. Only the few legal actions
    of a row are looked at, which makes it far cheaper than a softmax over all.
    """
    for i in range(len(logits)):
        highest = -np.inf
        for action in range(logits.shape[1]):
            if legal[i, action]:
                highest = max(highest, np.float64(logits[i, action]))
        total = 0.0
        for action in range(logits.shape[1]):
            if legal[i, action]:
                total += np.exp(logits[i, action] - highest)
        left = total * (number_below(seeds[i], 1 << 31) + 0.5) / (1 << 31)
        for action in range(logits.shape[1]):
            if legal[i, action]:
                actions[i] = action
                left -= np.exp(logits[i, action] - highest)
                if left <= 0:
                    break
        log_probs[i] = logits[i, actions[i]] - highest - np.log(total)


def _body(sizes: Sequence[int], activation: str, generator: torch.Generator) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [_linear(inputs, outputs, 2**0.5, generator), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


def _linear(inputs: int, outputs: int, gain: float, generator: torch.Generator) -> nn.Linear:
    """A layer with orthogonal weights, made without torch's global generator."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


class SuitBody(nn.Module):
    """A trunk over all four suits, each of which was read, and is played from, by the same weights.

    Names of suits mean nothing: what is learned of one suit holds for the others, and plain suits
    that change places change the places of their rows and nothing else. Only the trump suit has
    offsets of its own; it must stand first (frames `trump_first` and `canonical`).

    planes: card planes that an observation starts with; others: features after them. rows: of the
    output; the first four are the suits', the others stand for actions that are not cards. width:
    of what is kept of a suit, and of a row. trunk: widths of the layers between.
    """

    def __init__(
        self,
        planes: int,
        others: int,
        rows: int,
        width: int,
        trunk: Sequence[int],
        activation: str,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.planes = planes
        self.active = ACTIVATIONS[activation]()
        self.read = _linear(planes * CARDS_PER_SUIT, width, 2**0.5, generator)
        self.read_trump = nn.Parameter(torch.zeros(width))
        self.keep = _linear(width, width, 2**0.5, generator)
        self.trunk = _body([2 * width + others, *trunk], activation, generator)
        self.play = _linear(trunk[-1], width, 1.0, generator)
        self.play_suit = _linear(width, width, 1.0, generator)
        self.play_trump = nn.Parameter(torch.zeros(width))
        self.play_others: nn.Parameter | None = None
        if rows > NUM_SUITS:
            offsets = torch.randn(rows - NUM_SUITS, width, generator=generator)
            self.play_others = nn.Parameter(offsets)

    def forward(self, observations: Tensor) -> Tensor:
        """[N, rows, width] from floats [N, planes * 40 + others]."""
        cards, others = observations.tensor_split([self.planes * NUM_CARDS], dim=1)
        planes = cards.reshape(-1, self.planes, NUM_SUITS, CARDS_PER_SUIT)
        suits = self.read(planes.transpose(1, 2).flatten(2))
        suits[:, 0] += self.read_trump
        suits = self.active(self.keep(self.active(suits)))
        table = torch.cat([suits[:, 0], suits[:, 1:].sum(dim=1), others], dim=1)
        played = self.play(self.trunk(table))[:, None]
        rows = self.play_suit(suits)
        rows[:, 0] += self.play_trump
        rows = rows + played
        if self.play_others is not None:
            rows = torch.cat([rows, (self.play_others + played).to(rows)], dim=1)
        result: Tensor = self.active(rows)
        return result


class ActorCritic(nn.Module):
    """An actor and a critic that share nothing.

    observation_size, num_actions: of the encoder and the rules. actor, critic: widths of the hidden
    layers. activation: after each of them, `relu` or `tanh`; ValueError for another. suits: 0 for
    an actor that is a plain perceptron, as the critic is, or the width of a `SuitBody`, of which
    `actor` is the trunk; card_planes: of the encoder, for that. Bodies run in the precision of the
    surrounding autocast, heads in float32.
    """

    def __init__(
        self,
        observation_size: int,
        num_actions: int,
        actor: Sequence[int],
        critic: Sequence[int],
        seed: int = 0,
        activation: str = "relu",
        suits: int = 0,
        card_planes: int = 0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            allowed = ", ".join(map(repr, ACTIVATIONS))
            raise ValueError(f"activation={activation!r}: allowed are {allowed}")
        generator = torch.Generator().manual_seed(seed)
        self.sizes: dict[str, Any] = {
            "observation_size": observation_size,
            "num_actions": num_actions,
            "actor": list(actor),
            "critic": list(critic),
            "activation": activation,
            "suits": suits,
            "card_planes": card_planes if suits else 0,
        }
        self.actor_body: nn.Module
        if suits:
            others = observation_size - card_planes * NUM_CARDS
            rows = -(-num_actions // CARDS_PER_SUIT)
            self.actor_body = SuitBody(
                card_planes, others, rows, suits, actor, activation, generator
            )
            self.actor_head = _linear(suits, CARDS_PER_SUIT, 0.01, generator)
        else:
            self.actor_body = _body([observation_size, *actor], activation, generator)
            self.actor_head = _linear(actor[-1], num_actions, 0.01, generator)
        self.critic_body = _body([observation_size, *critic], activation, generator)
        self.critic_head = _linear(critic[-1], 1, 1.0, generator)

    def logits(self, observations: Tensor) -> Tensor:
        """Float32 [N, A] from observations [N, observation_size], see `inputs`."""
        outputs = self._head(self.actor_head, self.actor_body(self.inputs(observations)))
        return outputs.flatten(1)[:, : self.sizes["num_actions"]]

    def values(self, observations: Tensor) -> Tensor:
        """Expected sum of the rewards still to come, float32 [N]."""
        return self._head(self.critic_head, self.critic_body(self.inputs(observations)))[:, 0]

    def inputs(self, observations: Tensor) -> Tensor:
        """Observations of any dtype in the one that the bodies work in."""
        device = observations.device.type
        reduced = torch.is_autocast_enabled(device)
        return observations.to(torch.get_autocast_dtype(device) if reduced else torch.float32)

    def _head(self, head: nn.Module, hidden: Tensor) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            output: Tensor = head(hidden.float())
        return output


def from_checkpoint(checkpoint: Checkpoint, name: str) -> ActorCritic:
    """The network with the checkpoint's weights; CheckpointError if they do not fit its sizes."""
    try:
        network = ActorCritic(**checkpoint.network)
        expected = (checkpoint.encoder.size, checkpoint.rules.num_actions)
        if (network.sizes["observation_size"], network.sizes["num_actions"]) != expected:
            raise ValueError(f"sizes are not those of the rules, {expected}")
        planes = checkpoint.encoder.card_planes
        if network.sizes["suits"] and network.sizes["card_planes"] != planes:
            raise ValueError(f"card_planes is not {planes}")
        network.load_state_dict(
            {key: torch.from_numpy(array) for key, array in checkpoint.weights.items()}
        )
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{name}: weights do not fit the network ({reason})") from None
    return network


def weights_of(network: nn.Module) -> dict[str, NDArray[np.float32]]:
    """The weights as float32 arrays by name, on the CPU."""
    return {key: tensor.detach().cpu().numpy() for key, tensor in network.state_dict().items()}


def make_checkpoint(
    network: ActorCritic,
    encoder: Encoder,
    reward_points: float,
    training: Mapping[str, Any],
    exact_endgame: bool = False,
) -> Checkpoint:
    """The network as a checkpoint for what this encoder shows; see `Checkpoint` for the rest."""
    return Checkpoint(
        rules=encoder.rules,
        frame=encoder.frame,
        show_points=encoder.show_points,
        recent_tricks=encoder.recent_tricks,
        exact_endgame=exact_endgame,
        reward_points=reward_points,
        network=network.sizes,
        training=training,
        weights=weights_of(network),
    )


class NetworkPolicy:
    """Plays a checkpoint's most probable legal action.

    The checkpoint must be for these rules, but for the length of the match (CheckpointError).
    """

    def __init__(self, checkpoint: Checkpoint, rules: Rules, name: str) -> None:
        checkpoint.require_rules(rules, name)
        self.name = name
        self.checkpoint = checkpoint
        self.encoder = checkpoint.encoder
        self.network = from_checkpoint(checkpoint, name).eval()

    def probabilities(self, info_states: States, legal: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Probabilities, float32 [N, num_actions], at the table; ValueError if a row has no legal
        action.
        """
        logits, mask = self.logits(info_states, legal)
        framed = masked_log_probs(logits, mask).exp().numpy()
        return self.encoder.columns_to_table(info_states, framed)

    def logits(self, info_states: States, legal: NDArray[np.bool_]) -> tuple[Tensor, Tensor]:
        """Logits and mask, [N, num_actions] in the encoder's frame; ValueError as above."""
        if not legal.any(axis=1).all():
            raise ValueError("a row of the mask has no legal action: that seat is not to move")
        observations = torch.from_numpy(self.encoder.encode(info_states))
        mask = torch.from_numpy(self.encoder.columns_to_frame(info_states, legal))
        with torch.inference_mode():
            return self.network.logits(observations), mask

    def values(self, states: States, seats: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the critic expects for `seats` [N] in full states [N], in card points: [N]."""
        infos = np.empty_like(states)
        info_state(states, seats, infos)
        observations = torch.from_numpy(self.encoder.encode(infos))
        with torch.inference_mode():
            values: NDArray[np.float64] = self.network.values(observations).double().numpy()
        return values * self.checkpoint.reward_points

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        logits, mask = self.logits(info_states, legal)
        actions = logits.masked_fill(~mask, _ILLEGAL).argmax(dim=1).numpy()
        return self.encoder.to_table(info_states, actions)


def policy_of(checkpoint: Checkpoint, rules: Rules, name: str) -> Policy:
    """The checkpoint's policy, with the end game that it asks for.

    CheckpointError if it is for other rules.
    """
    policy = NetworkPolicy(checkpoint, rules, name)
    return ExactEndgame(policy) if checkpoint.exact_endgame else policy
