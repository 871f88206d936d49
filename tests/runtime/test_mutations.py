"""Seeded bugs in the runtime: each one is a mistake somebody could make, and the tests of its module must
notice it.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeded_bugs import PACKAGE, SeededBug, cases, difference, load, seeded

HERE = Path(__file__).parent
FILE = HERE / "mutations.txt"
BUGS = load(FILE)
# Where a module's tests are not in the file of its name.
TESTS = {
    "runtime.savepoints.write": ("write", "batch_files", "shared_files"),
    "runtime.savepoints.layout": ("write",),
    "runtime.savepoints.catalog": ("shared_files",),
    "runtime.savepoints.incomplete": ("expired",),
    "storage.executor_task": ("executor_copy",),
    "runtime.startup.carried_stages": ("missing_stages", "carried_stages"),
    "runtime.startup.begin_from": ("restore_point",),
    "runtime.startup.admission": ("admission", "../driver/check/start"),
    "runtime.query.run": ("run", "interruption"),
    "runtime.driver.driver": ("driver", "start/gate_keeper"),
    "runtime.spark.sources.end_of_input": ("../../query/catch_up",),
}


def files_for(module: str) -> list[Path]:
    *rooms, name = module.split(".")
    places = [HERE.parent.joinpath(*rooms, tests) for tests in TESTS.get(module, (name,))]
    return [place.with_name(f"test_{place.name}.py") for place in places]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, in which one module after the other is changed."""
    folder = tmp_path_factory.mktemp("operator")
    shutil.copytree(PACKAGE, folder / "streamjob", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(tests: list[Path], sources: Path) -> subprocess.CompletedProcess[str]:
    """These tests in a process of their own, up to the first that fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-o", f"pythonpath={sources} .", *map(str, tests)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYTHONPATH"))}
    # Bytecode goes by a file's size and second: two bugs may have both in common.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        command,
        cwd=HERE.parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def test_each_module_has_tests() -> None:
    """Otherwise its bugs would be noticed by pytest's exit code alone, or by nothing."""
    assert [file for bug in BUGS for file in files_for(bug.module) if not file.exists()] == []


def test_no_false_alarm(sources: Path) -> None:
    """Of a copy as such; that the tests pass where there is no bug, they show themselves."""
    done = run(files_for("runtime.savepoints.batch_files"), sources)
    assert done.returncode == pytest.ExitCode.OK, done.stdout


@pytest.mark.parametrize("bug", cases(FILE))
def test_noticed(bug: SeededBug, sources: Path) -> None:
    place = sources.joinpath("streamjob", *bug.module.split(".")).with_suffix(".py")
    whole = place.read_text()
    place.write_text(ast.unparse(seeded(bug)))
    try:
        done = run(files_for(bug.module), sources)
    finally:
        place.write_text(whole)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, f"{done.stdout}\n{difference(bug)}"


def test_there_are_enough() -> None:
    assert len({bug.title for bug in BUGS}) == len(BUGS) >= 20
