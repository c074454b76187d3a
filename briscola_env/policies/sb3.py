"""Saved models of sb3-contrib's MaskablePPO: as policies, and turned into checkpoints.

Such a file is a zip with pickles in it, which can run any code when they are read. Read only what
comes from people you trust; no command does it without `--trust-pickle`.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.cards import NUM_CARDS
from briscola_env.checkpoint import Checkpoint, find, require_same_table
from briscola_env.encoding import Encoder
from briscola_env.rules import CheckpointError, Rules
from briscola_env.state import States

try:
    import torch
    from gymnasium import spaces
    from sb3_contrib import MaskablePPO
    from sb3_contrib.common.maskable.policies import (
        MaskableActorCriticPolicy,
        MaskableMultiInputActorCriticPolicy,
    )
    from stable_baselines3.common.torch_layers import (
        BaseFeaturesExtractor,
        CombinedExtractor,
        MlpExtractor,
    )
    from torch import Tensor, nn

    from briscola_env.policies.network import ACTIVATIONS
except ImportError:
    raise ImportError("models of SB3 need it: pip install 'briscola-env[train,sb3]'") from None


class PlanesExtractor(BaseFeaturesExtractor):
    """For `features_extractor_class`: the planes alone go into the network.

    SB3's own extractor puts the mask beside them, which says little that the planes do not.
    """

    def __init__(self, space: spaces.Dict) -> None:
        super().__init__(space, features_dim=space["observation"].shape[0])  # type: ignore[index]

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """Float [N, size]."""
        return observations["observation"].float()


def read_model(path: str | Path) -> MaskablePPO:
    """A model that `MaskablePPO.save` wrote. THIS CAN RUN ANY CODE that somebody put into the file.

    CheckpointError says in one line what is wrong with it.
    """
    file = find(path)
    try:
        # Neither the seed in the file nor the weights made first may move the global generators.
        with torch.random.fork_rng(devices=[]):
            return MaskablePPO.load(file, device="cpu", custom_objects={"seed": None})
    except Exception as error:  # pickles raise whatever they like
        reason = " ".join(str(error).split())
        raise CheckpointError(
            f"{path}: not a model of MaskablePPO ({type(error).__name__}: {reason})"
        ) from None


def encoder_of(model: MaskablePPO, name: str) -> Encoder:
    """The encoder of the environment that it was trained in; CheckpointError if it was not ours.

    Our observation spaces carry this, and models their spaces.
    """
    space: Any = model.observation_space
    facts = getattr(space, "briscola", None)
    if facts is None:
        raise CheckpointError(
            f"{name}: its observations are not those of Briscola-v0 or BriscolaVecEnv; wrappers "
            "that change observations are not followed"
        )
    encoder = Encoder(
        Rules.from_dict(facts["rules"]),
        facts["frame"],
        facts["show_points"],
        facts.get("recent_tricks", 0),  # models from before there was such an option
    )
    if facts["layout_digest"] != encoder.digest:
        raise CheckpointError(
            f"{name}: its observation layout {facts['layout_digest']} is not this version's "
            f"{encoder.digest} for the same rules"
        )
    # The last observations of training stay in the model; the statistics of VecNormalize do not.
    last: Any = model._last_obs
    if last is not None and not np.isin(last["observation"], (0, 1)).all():
        raise CheckpointError(
            f"{name}: its planes were not 0 and 1: models behind VecNormalize are not followed"
        )
    return encoder


class ModelPolicy:
    """Plays a model's most probable legal action; CheckpointError if it is for other rules."""

    def __init__(self, model: MaskablePPO, rules: Rules, name: str) -> None:
        self.name = name
        self.model = model
        self.encoder = encoder_of(model, name)
        require_same_table(self.encoder.rules, rules, name)

    def act(
        self, info_states: States, legal: NDArray[np.bool_], seeds: NDArray[np.uint64]
    ) -> NDArray[np.int64]:
        """See `Policy.act`."""
        mask = self.encoder.columns_to_frame(info_states, legal)
        observation: dict[str, NDArray[Any]] = {
            "observation": self.encoder.encode(info_states),
            "action_mask": mask.astype(np.int8),
        }
        if "tokens" in self.model.observation_space.spaces:  # type: ignore[attr-defined]
            observation["tokens"] = self.encoder.encode_tokens(info_states)
        actions, _ = self.model.predict(observation, action_masks=mask, deterministic=True)
        return self.encoder.to_table(info_states, actions)


def to_checkpoint(model: MaskablePPO, name: str) -> Checkpoint:
    """The model's network as our checkpoint, which plays the same moves.

    It must be the usual one: the planes, or the whole observation, through separate actor and
    critic of linear layers and ReLU or tanh; CheckpointError says what is another. The critic is
    taken to value `reward="points"`.
    """
    encoder, policy = encoder_of(model, name), model.policy
    usual = (MaskableActorCriticPolicy, MaskableMultiInputActorCriticPolicy)
    if type(policy) not in usual or type(policy.mlp_extractor) is not MlpExtractor:
        raise CheckpointError(f"{name}: a network of its own class cannot be turned into ours")
    sizes: dict[str, Any] = {
        "observation_size": encoder.size,
        "num_actions": encoder.rules.num_actions,
    }
    weights: dict[str, NDArray[np.float32]] = {}
    activations: set[type[nn.Module]] = set()
    for part, body, extractor, head in (
        ("actor", policy.mlp_extractor.policy_net, policy.pi_features_extractor, policy.action_net),
        ("critic", policy.mlp_extractor.value_net, policy.vf_features_extractor, policy.value_net),
    ):
        layers = list(body.children())
        linears, kinds = layers[::2], {type(layer) for layer in layers[1::2]}
        if not linears or not kinds <= set(ACTIVATIONS.values()):
            raise CheckpointError(
                f"{name}: its {part} is {_layers(layers)}; linear layers with "
                f"{' or '.join(kind.__name__ for kind in ACTIVATIONS.values())} can be turned into "
                "ours"
            )
        activations |= kinds
        sizes[part] = [layer.out_features for layer in linears]
        for prefix, module in ((f"{part}_body", body), (f"{part}_head", head)):
            for key, tensor in module.state_dict().items():
                weights[f"{prefix}.{key}"] = tensor.cpu().numpy()
        first = f"{part}_body.0.weight"
        weights[first] = _plane_columns(weights[first], extractor, encoder, name)
    if len(activations) > 1:
        raise CheckpointError(f"{name}: its actor and critic have different activations")
    sizes["activation"] = next(
        word for word, kind in ACTIVATIONS.items() if kind is next(iter(activations))
    )
    facts = {"algorithm": "sb3-contrib MaskablePPO", "decisions": int(model.num_timesteps)}
    return Checkpoint(
        rules=encoder.rules,
        frame=encoder.frame,
        show_points=encoder.show_points,
        recent_tricks=encoder.recent_tricks,
        exact_endgame=False,
        reward_points=float(encoder.rules.deck_points),
        network=sizes,
        training=facts,
        weights=weights,
    )


def _layers(layers: list[nn.Module]) -> str:
    return ", ".join(type(layer).__name__ for layer in layers) or "without hidden layers"


def _plane_columns(
    weight: NDArray[np.float32], extractor: nn.Module, encoder: Encoder, name: str
) -> NDArray[np.float32]:
    """A first layer's weights for our planes, [outputs, size].

    SB3's own extractor puts the mask before them. Without swaps and signals the mask of the seat to
    act is its hand, which is also a plane: their columns add up.
    """
    if type(extractor) is PlanesExtractor:
        return weight
    keys = list(extractor.extractors) if type(extractor) is CombinedExtractor else []
    if keys != ["action_mask", "observation"]:
        raise CheckpointError(
            f"{name}: {type(extractor).__name__} of {', '.join(keys) or 'its own'} in front of its "
            "network; CombinedExtractor of planes and mask, or PlanesExtractor, can be turned into "
            "ours"
        )
    actions = encoder.rules.num_actions
    if actions > NUM_CARDS:
        raise CheckpointError(
            f"{name}: its network reads the mask, which with swaps or signals says more than the "
            "planes; train it with briscola_env.policies.sb3.PlanesExtractor"
        )
    hand = next(feature for feature in encoder.features if feature.name == "hand")
    planes = weight[:, actions:].copy()
    planes[:, hand.start : hand.stop] += weight[:, :actions]
    return planes
