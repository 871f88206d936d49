"""Builds the engine anew with one place changed, and asks the tests what they think of it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from streamjob.protocol import lifecycle
from tests.protocol import (
    test_adoption,
    test_coordinator,
    test_coordinator_tasks,
    test_finished,
    test_recovery,
)
from tests.protocol.randomjob import live
from tests.protocol.script import Script
from tests.protocol.test_cases import CASES

# What the coordinator is made of, each after what it imports. The rest of the protocol is shared with the tests.
ENGINE = (
    "lifecycle",
    "graph",
    "task",
    "flow",
    "barriers",
    "checkpoints",
    "roster",
    "ending",
    "flight",
    "answers",
    "completion",
    "coordinator",
)
# Functions beside it, and the tests of them.
BESIDE = {
    "finished": (test_finished, test_recovery),
    "recovery": (test_recovery,),
    "adoption": (test_adoption,),
}
ROOT = Path(str(lifecycle.__file__)).parents[1]
PLANS = 2000


@dataclass(frozen=True)
class Mutation:
    module: str
    title: str
    old: str
    new: str


def cases(mutations: Sequence[Mutation], every: int = 10) -> list[Any]:
    """For `parametrize`, by title; where each takes seconds, every tenth or so is for every commit, the others are `slow`."""
    return [
        pytest.param(m, id=m.title, marks=[pytest.mark.slow] if n % every else [])
        for n, m in enumerate(mutations)
    ]


def load(text: str) -> Iterator[Mutation]:
    for block in text.split("\n\n"):
        head, *lines = block.strip("\n").split("\n")
        if not head.startswith("#"):
            module, title = head.split(": ", 1)
            old, new = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
            yield Mutation(module, title, old, new)


def source(module: str, mutation: Mutation | None) -> str:
    """:param module: below `streamjob`, with dots."""
    text = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text()
    if mutation is None or mutation.module != module:
        return text
    assert text.count(mutation.old) == 1, f"{mutation.title}: {text.count(mutation.old)} places in {module}"
    return text.replace(mutation.old, mutation.new)


def build(mutation: Mutation | None) -> ModuleType:
    """The coordinator's module, built from changed text."""
    mutation = mutation and in_protocol(mutation)
    return rebuilt(mutation, [f"protocol.{name}" for name in ENGINE])["protocol.coordinator"]


def in_protocol(mutation: Mutation) -> Mutation:
    return replace(mutation, module=f"protocol.{mutation.module}")


def rebuilt(mutation: Mutation | None, modules: Sequence[str]) -> dict[str, ModuleType]:
    """These modules of `streamjob`, each after what it imports, built from changed text. Everybody else keeps the real ones."""
    originals = {name: import_module(f"streamjob.{name}") for name in modules}
    built = {}
    try:
        for name, original in originals.items():
            module = built[name] = sys.modules[original.__name__] = ModuleType(original.__name__)
            module.__package__ = original.__package__
            _in_its_package(name, module)
            exec(compile(source(name, mutation), original.__name__, "exec"), module.__dict__)
        return built
    finally:
        for name, original in originals.items():
            sys.modules[original.__name__] = original
            _in_its_package(name, original)


def _in_its_package(name: str, module: ModuleType) -> None:
    package, _, last = f"streamjob.{name}".rpartition(".")
    setattr(sys.modules[package], last, module)


@contextmanager
def changed(mutation: Mutation) -> Iterator[None]:
    """The module itself, for those that no other builds on."""
    module = import_module(f"streamjob.protocol.{mutation.module}")
    kept = dict(module.__dict__)
    try:
        text = source(f"protocol.{mutation.module}", in_protocol(mutation))
        exec(compile(text, mutation.module, "exec"), module.__dict__)
        yield
    finally:
        module.__dict__.clear()
        module.__dict__.update(kept)


def caught_by(mutation: Mutation | None) -> str | None:
    """The first test that fails, None if none does."""
    if mutation is not None and mutation.module in BESIDE:
        with changed(mutation):
            return first_failing(c for test in BESIDE[mutation.module] for c in calls(test))
    module = build(mutation)
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
