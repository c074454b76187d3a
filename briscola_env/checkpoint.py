"""Checkpoints: one safetensors file whose metadata says, as JSON, what the weights are for.

Nothing in it can run code. The layout of the observations, its frame and the rules stand in the
file, and a mismatch is refused: an encoding that differs between training and play is the commonest
way to ruin a network. Files are written under a temporary name and renamed.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briscola_env.encoding import LAYOUT_VERSION, Encoder
from briscola_env.rules import CheckpointError, InvalidRulesError, Rules

SUFFIX = ".safetensors"
BEST, LAST = f"best{SUFFIX}", f"last{SUFFIX}"  # names in the folder of a run
SB3_SUFFIX = ".zip"  # of what Stable-Baselines3 saves

_FORMAT = "briscola-checkpoint"
_FORMAT_VERSION = 1
_FIELDS = ("frame", "show_points", "exact_endgame", "reward_points", "network", "training")


@dataclass(frozen=True)
class Checkpoint:
    """A network's weights and all that is needed to use them.

    rules, frame, show_points, recent_tricks: of the encoder that it was trained with.
    exact_endgame: whether it leaves the last tricks to a solver. reward_points: card points that
    the critic's value of 1 stands for. network: sizes, as `policies.network` takes them. training:
    facts for people. weights: float32 arrays by name.
    """

    rules: Rules
    frame: str
    show_points: str
    exact_endgame: bool
    reward_points: float
    network: Mapping[str, Any]
    training: Mapping[str, Any]
    weights: Mapping[str, NDArray[np.float32]]
    recent_tricks: int = 0

    @property
    def encoder(self) -> Encoder:
        """The encoder that the network was trained with."""
        return Encoder(self.rules, self.frame, self.show_points, self.recent_tricks)

    def save(self, path: Path) -> None:
        """Write the file; a file that is there is replaced only by a whole one."""
        header = {
            "layout_version": LAYOUT_VERSION,
            "layout_digest": self.encoder.digest,
            "rules": self.rules.to_dict(),
            "frame": self.frame,
            "show_points": self.show_points,
            "recent_tricks": self.recent_tricks,
            "exact_endgame": self.exact_endgame,
            "reward_points": self.reward_points,
            "network": dict(self.network),
            "training": dict(self.training),
        }
        write_tensors(path, self.weights, header)

    @classmethod
    def load(cls, path: str | Path) -> "Checkpoint":
        """Read a file, or the best of a run's folder; CheckpointError says what is wrong."""
        file = find(path)
        if file.suffix == SB3_SUFFIX:
            raise CheckpointError(
                f"{file}: a model of Stable-Baselines3, whose format can run any code when it is "
                "read; if you trust its author: `briscola evaluate --trust-pickle`, or `briscola "
                "export --trust-pickle`, which makes a checkpoint of it"
            )
        weights, header = read_tensors(file)
        version = header.get("layout_version")
        if version != LAYOUT_VERSION:
            raise CheckpointError(
                f"{file}: observation layout {version}, this version reads {LAYOUT_VERSION}"
            )
        try:
            fields = {name: header[name] for name in _FIELDS}
            checkpoint = cls(
                rules=Rules.from_dict(header["rules"]),
                weights=weights,
                recent_tricks=header.get("recent_tricks", 0),  # files from before there was such
                **fields,
            )
            digest = checkpoint.encoder.digest
        except (KeyError, TypeError, InvalidRulesError, ValueError) as error:
            raise CheckpointError(f"{file}: broken header ({error})") from None
        if header.get("layout_digest") != digest:
            raise CheckpointError(
                f"{file}: its observation layout {header.get('layout_digest')} is not this "
                f"version's {digest} for the same rules"
            )
        return checkpoint

    def require_rules(self, rules: Rules, name: str) -> None:
        """CheckpointError, naming the fields, unless it plays this game; match length is free."""
        require_same_table(self.rules, rules, name)


def require_same_table(trained: Rules, asked: Rules, name: str) -> None:
    """CheckpointError unless what was trained for the first rules plays the second, matches aside.

    name: what was trained, for the message.
    """
    own, other = trained.single_deal().to_dict(), asked.single_deal().to_dict()
    different = [
        f"{field}={own[field]!r} (not {other[field]!r})"
        for field in own
        if own[field] != other[field]
    ]
    if different:
        raise CheckpointError(f"{name} was trained for other rules: {', '.join(different)}")


def released_models() -> dict[str, Path]:
    """The networks that come with this package, by name: models/ in a checkout or in a wheel."""
    package = Path(__file__).parent
    folder = next(filter(Path.is_dir, (package / "models", package.parent / "models")), package)
    return {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def find(path: str | Path) -> Path:
    """The checkpoint at a path: the file itself, or the best (else the last) one in a folder.

    The name of a released model stands for its file. CheckpointError if there is none.
    """
    path = released_models().get(str(path)) or Path(path)
    if path.is_dir():
        for name in (BEST, LAST):
            if (path / name).is_file():
                return path / name
        raise CheckpointError(f"{path}: no {BEST} or {LAST} in this folder")
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file")
    return path


def write_tensors(path: Path, tensors: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Arrays and a JSON header as one safetensors file, written whole or not at all."""
    save = _safetensors().save
    text = json.dumps({"format_version": _FORMAT_VERSION, **header})
    # One entry: safetensors writes several in a random order, and the same weights are to be the
    # same bytes.
    replace_file(path, save(dict(tensors), {_FORMAT: text}))


def replace_file(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it: it is there whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_tensors(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays and the header that `write_tensors` wrote; CheckpointError if it did not."""
    safetensors = _safetensors()
    try:
        data = file.read_bytes()
        tensors = safetensors.load(data)
        length = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
        header = json.loads(metadata[_FORMAT])
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from None
    except KeyError:
        raise CheckpointError(f"{file}: a safetensors file, but not of briscola_env") from None
    except Exception as error:  # safetensors raises its own class for every defect
        raise CheckpointError(f"{file}: not a whole safetensors file ({error})") from None
    if header.get("format_version") != _FORMAT_VERSION:
        raise CheckpointError(
            f"{file}: format version {header.get('format_version')}, "
            f"this version reads {_FORMAT_VERSION}"
        )
    return tensors, header


def _safetensors() -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "checkpoints need safetensors: pip install 'briscola-env[train]'"
        ) from None
    return safetensors.numpy
