"""Imports point one way; the base needs none of the extras."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A module may import those before it. A folder is one layer; `__init__` is the package's own.
LAYERS = [
    *("cards", "checks", "jit", "rng", "rules"),  # the game's words
    *("__init__", "state"),  # and its record
    *("dealing", "engine", "information", "encoding"),  # the game
    *("checkpoint", "policies", "envs", "briscola_v0"),  # around it
    *("arena", "records", "export", "study", "openspiel", "exploit", "cli"),
]
EXTRAS = [  # but for yaml, which numba loads where it finds it
    *("torch", "tensorboard", "pydantic", "rich", "safetensors"),
    *("stable_baselines3", "sb3_contrib", "matplotlib", "ray", "onnx", "pyspiel"),
]


def layer(module: str) -> str:
    """`briscola_env.arena.play` -> `arena`; the package itself is `__init__`."""
    return [*module.split("."), "__init__"][1]


def imports(path: Path) -> Iterator[str]:
    """Full names of everything that a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            for alias in node.names:
                inside = ROOT / str(node.module).replace(".", "/") / alias.name
                is_module = inside.is_dir() or inside.with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else str(node.module)


def modules(folder: str) -> dict[str, Path]:
    """Dotted names of the Python files of a package."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return dict(zip(names, paths, strict=True))


@pytest.mark.parametrize("module", modules("briscola_env"))
def test_imports_point_upward_in_the_list_of_layers(module: str) -> None:
    assert layer(module) in LAYERS, f"{module}: write its layer into the list"
    own = LAYERS.index(layer(module))
    for name in imports(modules("briscola_env")[module]):
        if name.split(".")[0] == "briscola_env":
            at = LAYERS.index(layer(name))
            within = at == own and "." in module.removeprefix("briscola_env.")
            assert at < own or within, f"{module} imports {name}"
        assert name.split(".")[0] not in ("training", "tests", "benchmarks"), f"{module}: {name}"


def test_every_layer_exists() -> None:
    assert {layer(module) for module in modules("briscola_env")} == set(LAYERS)


def test_training_is_imported_by_nobody_but_itself() -> None:
    assert modules("training")
    for module, path in modules("training").items():
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & {"tests", "benchmarks"}, module


def loaded_after(code: str) -> set[str]:
    """Which extras are loaded when `code` has run in a fresh interpreter."""
    code += f"\nimport sys; print([name for name in {EXTRAS} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return set(ast.literal_eval(result.stdout.splitlines()[-1]))


def test_import_and_a_whole_game_need_no_extra() -> None:
    assert loaded_after("import briscola_env") == set()
    game = """
from briscola_env import briscola_v0
env = briscola_v0.env(cards=range(8), hand_size=2)
env.reset(seed=1)
for agent in env.agent_iter():
    observation, reward, termination, truncation, info = env.last()
    over = termination or truncation
    env.step(None if over else int(observation["action_mask"].argmax()))
assert env.agents == []
"""
    assert loaded_after(game) == set()
