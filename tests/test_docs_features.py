"""docs/environment.md says what the code does."""

import importlib.util
import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from briscola_env import Rules, briscola_v0
from briscola_env.encoding import features
from briscola_env.envs.single import BriscolaEnv

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "environment.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def generator() -> Any:
    """The script docs/make_features.py as a module."""
    spec = importlib.util.spec_from_file_location("make_features", DOCS / "make_features.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_that_the_generator_makes() -> None:
    assert generator().with_tables(PAGE) == PAGE


def test_the_table_has_a_line_for_every_feature() -> None:
    for feature in features(Rules()):
        assert f"| `{feature.name}` |" in PAGE


@pytest.mark.parametrize("make", [briscola_v0.raw_env, BriscolaEnv])
def test_every_argument_is_on_the_page_with_its_default(make: Any) -> None:
    parameters = inspect.signature(make).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD}
    defaults |= {field.name: field.default for field in fields(Rules)}
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    documented = {}
    for row in rows:
        names = re.findall(r"`(\w+)`", row[0])
        values = row[1].replace("`", "").split(", ")
        documented |= dict(zip(names, values * len(names), strict=False))
    for name, default in defaults.items():
        shown = f'"{default}"' if isinstance(default, str) else str(default)
        assert documented[name] == shown, name


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_run(example: str) -> None:
    exec(example, {})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2
