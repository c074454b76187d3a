"""Checkpoints for others: as one ONNX file with its encoding, and described for people."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from briscola_env import __version__
from briscola_env.cards import CARDS_PER_SUIT, NUM_CARDS, NUM_SUITS
from briscola_env.checkpoint import Checkpoint, released_models, replace_file
from briscola_env.encoding import LAYOUT_VERSION
from briscola_env.rules import Rules

if TYPE_CHECKING:
    from briscola_env.policies.network import ActorCritic

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
        "recent_tricks": checkpoint.recent_tricks,
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
    from briscola_env.policies.network import from_checkpoint

    network = from_checkpoint(checkpoint, name)
    rows, size, actions = "N", network.sizes["observation_size"], network.sizes["num_actions"]
    graph = _Graph(network)
    graph.add("Cast", "features", "observation", to=TensorProto.FLOAT)
    graph.add("Cast", "legal", "action_mask", to=TensorProto.BOOL)
    if network.sizes["suits"]:
        graph.suit_actor()
    else:
        graph.linear("logits", graph.layers("actor_body", "actor", "features"), "actor_head")
    graph.linear("values", graph.layers("critic_body", "critic", "features"), "critic_head")
    graph.add("Squeeze", "value", "values", graph.constant([1]))
    graph.add("Where", "possible", "legal", "logits", graph.constant(np.float32(_ILLEGAL)))
    graph.add("ArgMax", "action", "possible", axis=1, keepdims=0)
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
    tensors = [numpy_helper.from_array(array, key) for key, array in graph.tensors.items()]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "briscola", inputs_, outputs_, tensors),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="briscola-env",
        producer_version=__version__,
        doc_string=f"A Briscola policy; the metadata's {METADATA!r} says in JSON how to use it.",
    )
    helper.set_model_props(model, {METADATA: json.dumps(encoding_facts(checkpoint))})
    onnx.checker.check_model(model, full_check=True)
    replace_file(path, model.SerializeToString())


class _Graph:
    """Nodes and tensors of an ONNX graph that does what a network does."""

    def __init__(self, network: "ActorCritic") -> None:
        from briscola_env.policies.network import weights_of

        self.sizes = network.sizes
        self.tensors: dict[str, NDArray[Any]] = dict(weights_of(network))
        self.nodes: list[Any] = []

    def add(self, operator: str, output: str | Sequence[str], *inputs: str, **options: Any) -> str:
        """A node; its first output."""
        from onnx import helper

        outputs = [output] if isinstance(output, str) else list(output)
        self.nodes.append(helper.make_node(operator, inputs, outputs, **options))
        return outputs[0]

    def constant(self, values: ArrayLike) -> str:
        """A tensor that is no weight."""
        name = f"constant.{len(self.tensors)}"
        self.tensors[name] = np.array(values)
        return name

    def linear(self, output: str, inputs: str, layer: str) -> str:
        return self.add("Gemm", output, inputs, f"{layer}.weight", f"{layer}.bias", transB=1)

    def active(self, inputs: str) -> str:
        operator = {"relu": "Relu", "tanh": "Tanh"}[self.sizes["activation"]]
        return self.add(operator, f"{inputs}.active", inputs)

    def shaped(self, inputs: str, *shape: int) -> str:
        return self.add("Reshape", f"{inputs}.shaped", inputs, self.constant(shape))

    def layers(self, body: str, part: str, inputs: str) -> str:
        """A perceptron's hidden layers, whose widths `sizes` has under `part`."""
        for k in range(len(self.sizes[part])):
            layer = f"{body}.{2 * k}"
            inputs = self.active(self.linear(f"{layer}.linear", inputs, layer))
        return inputs

    def with_trump(self, inputs: str, parameter: str) -> str:
        """Rows of suits [4N, width] as [N, 4, width], the first one moved by a parameter."""
        width = self.sizes["suits"]
        below = np.zeros((NUM_SUITS - 1, width), np.float32)
        self.tensors[parameter] = np.vstack([self.tensors[parameter], below])
        rows = self.shaped(inputs, -1, NUM_SUITS, width)
        return self.add("Add", f"{parameter}.added", rows, parameter)

    def suit_actor(self) -> None:
        """`SuitBody` and its head, step by step as in its `forward`."""
        planes, width, body = self.sizes["card_planes"], self.sizes["suits"], "actor_body"
        cards, size = planes * NUM_CARDS, self.sizes["observation_size"]
        parts = self.constant([cards, size - cards])
        self.add("Split", ["cards", "others"], "features", parts, axis=1)
        by_plane = self.shaped("cards", -1, planes, NUM_SUITS, CARDS_PER_SUIT)
        by_suit = self.add("Transpose", "suits", by_plane, perm=[0, 2, 1, 3])
        rows = self.shaped(by_suit, -1, planes * CARDS_PER_SUIT)
        read = self.linear("read", rows, f"{body}.read")
        read = self.active(self.with_trump(read, f"{body}.read_trump"))
        kept = self.linear("keep", self.shaped(read, -1, width), f"{body}.keep")
        kept = self.active(kept)
        each = self.shaped(kept, -1, NUM_SUITS, width)
        parts = self.constant([1, NUM_SUITS - 1])
        self.add("Split", ["trump", "plain"], each, parts, axis=1)
        plain = self.add("ReduceSum", "plain.sum", "plain", self.constant([1]), keepdims=0)
        table = ("Concat", "table", self.shaped("trump", -1, width), plain, "others")
        trunk = self.layers(f"{body}.trunk", "actor", self.add(*table, axis=1))
        played = self.shaped(self.linear("play", trunk, f"{body}.play"), -1, 1, width)
        suits = self.linear("play_suit", kept, f"{body}.play_suit")
        rows = self.add("Add", "rows", self.with_trump(suits, f"{body}.play_trump"), played)
        if f"{body}.play_others" in self.tensors:
            others = self.add("Add", "rows.others", f"{body}.play_others", played)
            rows = self.add("Concat", "rows.all", rows, others, axis=1)
        rows = self.active(rows)
        logits = self.linear("head", self.shaped(rows, -1, width), "actor_head")
        number = CARDS_PER_SUIT * -(-self.sizes["num_actions"] // CARDS_PER_SUIT)
        bounds = (self.constant([0]), self.constant([self.sizes["num_actions"]]))
        self.add("Slice", "logits", self.shaped(logits, -1, number), *bounds, self.constant([1]))


def describe(checkpoint: Checkpoint, file: Path) -> str:
    """What a checkpoint is, in lines: rules, encoding, network, training, measured strength.

    CheckpointError if the weights do not fit.
    """
    from briscola_env.policies.exact import WORLDS
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
    if sizes["suits"]:
        hidden[0] += f" with all suits read alike in {sizes['suits']}"
    plays = "its most probable action"
    if checkpoint.exact_endgame:
        plays += (
            "; from the reply before the last draw on, the exact end game"
            if checkpoint.rules.players == 2
            else f"; from the empty stock on, the best card on average over {WORLDS} solved worlds"
        )
    lines = [
        ("file", f"{file}, {len(data):,} bytes"),
        ("sha256", hashlib.sha256(data).hexdigest()),
        ("rules", describe_rules(checkpoint.rules)),
        ("encoding", f"{encoder.size} features, layout {LAYOUT_VERSION} ({encoder.digest})"),
        (
            "",
            f"frame={checkpoint.frame}, show_points={checkpoint.show_points}, "
            f"recent_tricks={checkpoint.recent_tricks}",
        ),
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
