"""Kernels compile and are kept on disk wherever the package lies, and play the same uncompiled."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

from tests.make_golden import TRACED, trace_hash

ROOT = Path(__file__).parent.parent
UNCOMPILED = bool(config.DISABLE_JIT)
HANGS = 300  # seconds after which a process is taken to hang

# One cheap kernel that calls another in another file, and where what it compiles lies.
CHEAP = """
import json
import numpy as np
from briscola_env import jit
from briscola_env.policies.base import RandomPolicy, _random_legal
legal, seeds = np.ones((6, 40), bool), np.arange(6, dtype=np.uint64)
actions = RandomPolicy().act(None, legal, seeds).tolist()
hits = sum(_random_legal.stats.cache_hits.values())
print(json.dumps({"actions": actions, "folder": jit._CACHE_FOLDER, "hits": hits}))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package in a folder of its own, without what was compiled before."""
    copy = tmp_path / "site" / "briscola_env"
    shutil.copytree(ROOT / "briscola_env", copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def environment(package: Path, **changes: str) -> dict[str, str]:
    """As on a server: the copied package, its own folder for temporary files, no HOME.

    numba's own variables are gone too: here kernels are compiled even if the suite's are not.
    """
    temp = package.parent.parent / "temp"
    temp.mkdir(exist_ok=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "HOME", "XDG_"))}
    return {**kept, "PYTHONPATH": str(package.parent), "TMPDIR": str(temp), **changes}


def popen(code: str, package: Path, **changes: str) -> "subprocess.Popen[str]":
    """Start a fresh interpreter that sees only the copied package."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=package.parent.parent,
        env=environment(package, **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: "subprocess.Popen[str]") -> dict:
    """What it printed; its errors are ours."""
    out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 0, err
    return json.loads(out)


def run(code: str, package: Path, **changes: str) -> dict:
    """The same in one."""
    return output(popen(code, package, **changes))


def test_a_package_folder_that_cannot_be_written_is_left_alone(package: Path) -> None:
    (package / "__pycache__").write_text("a file where a folder should be: not even root can")
    first, second = run(CHEAP, package), run(CHEAP, package)
    assert first["folder"].startswith(str(package.parent.parent / "temp"))
    assert (first["hits"], second["hits"]) == (0, 1)
    assert second == {**first, "hits": 1}
    assert (package / "__pycache__").is_file()


def test_kernels_are_kept_in_the_package_or_where_numba_is_told(package: Path) -> None:
    first, second = run(CHEAP, package), run(CHEAP, package)
    assert Path(first["folder"]).parent == package / "__pycache__"
    assert list(Path(first["folder"]).rglob("*.nbc"))
    assert (first["hits"], second["hits"]) == (0, 1)
    told = run(CHEAP, package, NUMBA_CACHE_DIR=str(package.parent / "told"))
    assert Path(told["folder"]).parent == package.parent / "told"
    assert told["hits"] == 0


def test_a_folder_in_temp_that_others_may_write_is_not_trusted(package: Path) -> None:
    (package / "__pycache__").write_text("")
    first = run(CHEAP, package)
    Path(first["folder"]).chmod(0o777)
    second = run(CHEAP, package)
    assert second["folder"] != first["folder"]
    assert second["actions"] == first["actions"]
    assert second["hits"] == 0


def test_an_edited_kernel_refreshes_those_that_call_it(package: Path) -> None:
    before = run(CHEAP, package)
    source = package / "rng.py"
    text = source.read_text()
    edited = text.replace("+ _GOLDEN) >> _32) * np.uint64(n)", "+ _GOLDEN) >> _32) * np.uint64(1)")
    assert edited != text
    source.write_text(edited)
    after = run(CHEAP, package)
    assert after["folder"] != before["folder"]
    assert after["actions"] == [0] * 6 != before["actions"]
    source.write_text(text)
    again = run(CHEAP, package)
    assert again == {**before, "hits": 1}


def test_bounds_checking_has_its_own_folder(package: Path) -> None:
    plain, checked = run(CHEAP, package), run(CHEAP, package, NUMBA_BOUNDSCHECK="1")
    assert checked["folder"] != plain["folder"]
    assert checked["actions"] == plain["actions"]


@pytest.mark.parametrize("players", TRACED)
def test_games_are_the_same_compiled_and_uncompiled(players: int) -> None:
    code = f"from tests.make_golden import trace_hash; print(trace_hash({players}, 2))"
    other = {**os.environ, "NUMBA_DISABLE_JIT": "0" if UNCOMPILED else "1"}
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=other,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == trace_hash(players, 2)


def test_a_forked_child_calls_kernels_too(package: Path) -> None:
    code = """
import json, os
import numpy as np
from briscola_env.dealing import deal
from briscola_env.rng import child_seeds
out, again = np.zeros(5, np.uint64), np.zeros(5, np.uint64)
child_seeds(7, 0, out)
child = os.fork()
if child == 0:
    child_seeds(7, 0, again)
    os._exit(0 if np.array_equal(out, again) else 3)
print(json.dumps(os.waitpid(child, 0)[1]))
"""
    assert run(code, package) == 0


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(5))
def test_sixteen_processes_compile_at_once(package: Path, attempt: int) -> None:
    processes = [popen(CHEAP, package) for _ in range(16)]
    results = [output(process) for process in processes]
    assert {tuple(result["actions"]) for result in results} == {tuple(results[0]["actions"])}
    assert run(CHEAP, package)["hits"] == 1
