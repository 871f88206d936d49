"""Seeded bugs in the runtime: each one is a mistake somebody could make, and the tests of its module must notice it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.protocol.mutants import ROOT, Mutation, load, source

HERE = Path(__file__).parent
MUTATIONS = list(load((HERE / "mutations.txt").read_text()))
# Where a module's tests are not in the file of its name.
TESTS = {
    "savepoint": ("test_savepoint.py", "test_cut.py", "test_sharing.py"),
    "catalog": ("test_sharing.py",),
    "halfwritten": ("test_retired.py",),
    "copytask": ("test_executors.py",),
}


def files_for(module: str) -> list[Path]:
    return [HERE / name for name in TESTS.get(module, (f"test_{module}.py",))]


def run(mutation: Mutation | None, tests: list[Path], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """These tests in a process of their own, up to the first that fails, with a copy of the sources."""
    copy = tmp_path / "operator" / "streamjob"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
    if mutation is not None:
        changed = replace(mutation, module=f"runtime.{mutation.module}")
        (copy / "runtime" / f"{mutation.module}.py").write_text(source(changed.module, changed))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-o", f"pythonpath={copy.parent} ."]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHONPATH"))}
    words = [*command, *map(str, tests)]
    repository = HERE.parent.parent
    return subprocess.run(
        words, cwd=repository, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_no_false_alarm(tmp_path: Path) -> None:
    """Of a copy as such; that the tests pass where there is no bug, they show themselves."""
    done = run(None, files_for("cut"), tmp_path)
    assert done.returncode == pytest.ExitCode.OK, done.stdout


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.title)
def test_noticed(mutation: Mutation, tmp_path: Path) -> None:
    done = run(mutation, files_for(mutation.module), tmp_path)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout


def test_there_are_enough() -> None:
    assert len({m.title for m in MUTATIONS}) == len(MUTATIONS) >= 20
