"""Builds the engine anew with one place changed, and asks the tests what they think of it."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tests.protocol.engine import test_coordinator, test_coordinator_tasks
from tests.protocol.engine.case_scripts import Script
from tests.protocol.engine.randomjob import live
from tests.protocol.engine.test_cases import CASES
from tests.protocol.restore import test_adoption, test_finished, test_recovery
from tests.seeded_bugs import SeededBug, seeded, source

# What the coordinator is made of, each after what it imports. The rest of the protocol is shared with the
# tests.
ENGINE = (
    "lifecycle",
    "graph",
    "engine.task",
    "engine.counters",
    "engine.checkpoints.barriers",
    "engine.checkpoints.checkpoint",
    "engine.roster",
    "engine.termination",
    "engine.checkpoints.checkpoints",
    "engine.coordinator",
)
# Functions beside it, and the tests of them.
BESIDE = {
    "protocol.restore.finished": (test_finished, test_recovery),
    "protocol.restore.recovery": (test_recovery,),
    "protocol.restore.adoption": (test_adoption,),
}
PLANS = 2000


def build(bug: SeededBug | None) -> ModuleType:
    """The coordinator's module, built with the bug."""
    return rebuilt(bug, [f"protocol.{name}" for name in ENGINE])["protocol.engine.coordinator"]


def rebuilt(bug: SeededBug | None, modules: Sequence[str]) -> dict[str, ModuleType]:
    """These modules of `streamjob`, each after what it imports, built with the bug.

    Everybody else keeps the real ones.
    """
    originals = {name: import_module(f"streamjob.{name}") for name in modules}
    built = {}
    try:
        for name, original in originals.items():
            module = built[name] = sys.modules[original.__name__] = ModuleType(original.__name__)
            module.__package__ = original.__package__
            module.__file__ = original.__file__  # some modules read files beside them
            _in_its_package(name, module)
            tree = seeded(bug) if bug is not None and bug.module == name else ast.parse(source(name))
            exec(compile(tree, original.__name__, "exec"), module.__dict__)
        return built
    finally:
        for name, original in originals.items():
            sys.modules[original.__name__] = original
            _in_its_package(name, original)


def _in_its_package(name: str, module: ModuleType) -> None:
    package, _, last = f"streamjob.{name}".rpartition(".")
    setattr(sys.modules[package], last, module)


@contextmanager
def changed(bug: SeededBug) -> Iterator[None]:
    """The module itself, for those that no other builds on."""
    module = import_module(f"streamjob.{bug.module}")
    kept = dict(module.__dict__)
    try:
        exec(compile(seeded(bug), bug.module, "exec"), module.__dict__)
        yield
    finally:
        module.__dict__.clear()
        module.__dict__.update(kept)


def caught_by(bug: SeededBug | None) -> str | None:
    """The first test that fails, None if none does."""
    if bug is not None and bug.module in BESIDE:
        with changed(bug):
            return first_failing(c for test in BESIDE[bug.module] for c in calls(test))
    module = build(bug)
    found = first_failing(engine_cases(module))
    return found or first_failing((f"plan {n}", lambda n=n: live(module, n)) for n in range(PLANS))


def engine_cases(module: ModuleType) -> Iterator[tuple[str, Callable[[], Any]]]:
    for case in CASES:
        yield case.id, lambda case=case: Script(module).run_case(case)
    for test in (test_coordinator, test_coordinator_tasks):
        for name, function in inspect.getmembers(test, inspect.isfunction):
            if name.startswith("test_"):
                yield name, lambda function=function: function(module)


def calls(test: ModuleType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every call that pytest would make, without those of hypothesis."""
    for name, function in inspect.getmembers(test, lambda f: isinstance(f, FunctionType)):
        if not name.startswith("test_") or hasattr(function, "hypothesis"):
            continue
        tables = [m.args[1] for m in getattr(function, "pytestmark", []) if m.name == "parametrize"]
        for row in tables[0] if tables else [pytest.param()]:
            yield f"{name}[{row.id}]", lambda function=function, row=row: function(*row.values)


def first_failing(cases: Any) -> str | None:
    for name, call in cases:
        try:
            call()
        except (Exception, pytest.fail.Exception):
            return str(name)
    return None
