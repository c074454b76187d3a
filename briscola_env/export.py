"""Checkpoints for others: as one ONNX file with its encoding, and described for people."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from briscola_env import __version__
from briscola_env.checkpoint import Checkpoint, released_models, replace_file
from briscola_env.encoding import LAYOUT_VERSION
from briscola_env.rules import Rules

METADATA = "briscola_env"
"""The key of the JSON in an ONNX file's metadata."""

_OPSET, _IR_VERSION = 17, 8  # old enough for every runtime since 2022
_ILLEGAL = -1e30

_FRAMES = {
    "table": "every suit in its own place",
    "trump_first": "coins (suit 0) and the trump suit have changed places",
    "canonical": "the trump suit in place 0; then the others in falling order of (held, played), "
    "two 10-bit numbers with bit s for the card of strength s, which the observer holds, or which "
    "anybody has played in this deal; equal suits by id",
}
_FRAME_HOLDS = (
    "; so in all planes of 40 cards, in the one-hot trump, in action_mask, logits and action: "
    "there card c stands at 10 * place of its suit + c % 10"
)
_INPUTS = {
    "observation": "the features of the seat to act, 0 or 1",
    "action_mask": "its legal actions, 0 or 1, at least one a row",
}
_OUTPUTS = {
    "action": "the most probable legal action",
    "logits": "of all actions; the policy is their softmax over the legal ones",
    "value": "expected margin of the seat's side still to come in this deal, 1 for every "
    "reward_points card points",
}


def encoding_facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """All that is needed to feed the network and to understand its moves, as plain values."""
    rules, encoder = checkpoint.rules, checkpoint.encoder
    return {
        "briscola_env": __version__,
        "rules": rules.to_dict(),
        "layout_version": LAYOUT_VERSION,
        "layout_digest": encoder.digest,
        "frame": checkpoint.frame,
        "frame_meaning": _FRAMES[checkpoint.frame] + _FRAME_HOLDS,
        "show_points": checkpoint.show_points,
        "features": [asdict(feature) for feature in encoder.features],
        "actions": [rules.action_name(action) for action in range(rules.num_actions)],
        "exact_endgame": checkpoint.exact_endgame,
        "reward_points": checkpoint.reward_points,
        "inputs": _INPUTS,
        "outputs": _OUTPUTS,
        "training": dict(checkpoint.training),
    }


def write_onnx(checkpoint: Checkpoint, path: Path, name: str) -> None:
    """Write the network as ONNX, with `encoding_facts` as JSON in its metadata.

    Inputs `observation` int8 [N, size] and `action_mask` int8 [N, num_actions], as the environments
    give them; outputs `action` int64 [N], `logits` float32 [N, num_actions], `value` float32 [N].
    What `exact_endgame` leaves to the solver is not in the file.
    CheckpointError, naming `name`, if the weights do not fit; ImportError without onnx.
    """
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise ImportError("ONNX files need onnx: pip install 'briscola-env[onnx]'") from None
    from briscola_env.policies.network import from_checkpoint, weights_of

    network = from_checkpoint(checkpoint, name)
    weights: dict[str, Any] = {
        **weights_of(network),
        "illegal": np.array(_ILLEGAL, np.float32),
        "column": np.array([1]),
    }
    rows, size, actions = "N", network.sizes["observation_size"], network.sizes["num_actions"]
    activation = {"relu": "Relu", "tanh": "Tanh"}[network.sizes["activation"]]
    nodes = [
        helper.make_node("Cast", ["observation"], ["features"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["action_mask"], ["legal"], to=TensorProto.BOOL),
    ]
    for part, output in (("actor", "logits"), ("critic", "values")):
        inputs = "features"
        layers = [f"{part}_body.{2 * k}" for k in range(len(network.sizes[part]))]
        for layer in (*layers, f"{part}_head"):
            last = layer == f"{part}_head"
            parameters = [f"{layer}.weight", f"{layer}.bias"]
            linear = output if last else f"{layer}.linear"
            nodes.append(helper.make_node("Gemm", [inputs, *parameters], [linear], transB=1))
            if not last:
                inputs = f"{layer}.active"
                nodes.append(helper.make_node(activation, [linear], [inputs]))
    nodes += [
        helper.make_node("Squeeze", ["values", "column"], ["value"]),
        helper.make_node("Where", ["legal", "logits", "illegal"], ["possible"]),
        helper.make_node("ArgMax", ["possible"], ["action"], axis=1, keepdims=0),
    ]
    shapes: dict[str, tuple[int, list[str | int]]] = {
        "observation": (TensorProto.INT8, [rows, size]),
        "action_mask": (TensorProto.INT8, [rows, actions]),
        "action": (TensorProto.INT64, [rows]),
        "logits": (TensorProto.FLOAT, [rows, actions]),
        "value": (TensorProto.FLOAT, [rows]),
    }
    inputs_, outputs_ = (
        [helper.make_tensor_value_info(key, *shapes[key], doc_string=docs[key]) for key in docs]
        for docs in (_INPUTS, _OUTPUTS)
    )
    initializers = [numpy_helper.from_array(array, key) for key, array in weights.items()]
    graph = helper.make_graph(nodes, "briscola", inputs_, outputs_, initializers)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="briscola-env",
        producer_version=__version__,
        doc_string=f"A Briscola policy; the metadata's {METADATA!r} says in JSON how to use it.",
    )
    helper.set_model_props(model, {METADATA: json.dumps(encoding_facts(checkpoint))})
    onnx.checker.check_model(model, full_check=True)
    replace_file(path, model.SerializeToString())


def describe(checkpoint: Checkpoint, file: Path) -> str:
    """What a checkpoint is, in lines: rules, encoding, network, training, measured strength.

    CheckpointError if the weights do not fit.
    """
    from briscola_env.policies.network import from_checkpoint

    data, encoder = file.read_bytes(), checkpoint.encoder
    sizes = from_checkpoint(checkpoint, str(file)).sizes
    training = dict(checkpoint.training)
    measured = training.pop("measured", {})
    number = sum(array.size for array in checkpoint.weights.values())
    hidden = [
        f"{part} {' x '.join(map(str, [sizes['observation_size'], *sizes[part], outputs]))}"
        for part, outputs in (("actor", sizes["num_actions"]), ("critic", 1))
    ]
    plays = "its most probable action"
    if checkpoint.exact_endgame:
        plays += "; once the stock is empty, exactly"
    lines = [
        ("file", f"{file}, {len(data):,} bytes"),
        ("sha256", hashlib.sha256(data).hexdigest()),
        ("rules", describe_rules(checkpoint.rules)),
        ("encoding", f"{encoder.size} features, layout {LAYOUT_VERSION} ({encoder.digest})"),
        ("", f"frame={checkpoint.frame}, show_points={checkpoint.show_points}"),
        ("actions", f"{sizes['num_actions']}"),
        ("network", f"{', '.join(hidden)}; {sizes['activation']}"),
        ("", f"{number:,} weights; a value of 1 is {checkpoint.reward_points:g} card points"),
        ("plays", plays),
        *_facts("training", training),
        *_facts("measured", measured),
    ]
    if not measured:
        lines.append(("measured", f"nothing in the file: briscola evaluate {file}"))
    if file in released_models().values():
        lines.append(("card", str(file.with_suffix(".md"))))
    return "\n".join(f"{key:<10}{value}" for key, value in lines)


def describe_rules(rules: Rules) -> str:
    """The number of players and the options that are not at their defaults."""
    default = Rules(players=rules.players).to_dict()
    changed = [f", {k}={v}" for k, v in rules.to_dict().items() if v != default[k]]
    return f"{rules.players} players{''.join(changed)}"


def _facts(title: str, facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A line for every fact, the title before the first."""
    titles = [title, *[""] * len(facts)]
    return [
        (head, f"{name.replace('_', ' ')}: {_shown(value)}")
        for head, (name, value) in zip(titles, facts.items(), strict=False)
    ]


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        return f"[{' .. '.join(map(_shown, value))}]"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else str(value)
