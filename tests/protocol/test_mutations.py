"""Seeded protocol bugs: each one is a mistake somebody could make, and a named case must notice it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from streamjob.protocol import coordinator, lifecycle
from tests.protocol import test_coordinator, test_coordinator_tasks

MODULES = {"coordinator": coordinator, "lifecycle": lifecycle}


def parse(text: str) -> Iterator[tuple[str, ModuleType, str, str]]:
    """Title, module, old and new text of each block of mutations.txt."""
    for block in text.split("\n\n"):
        head, *lines = block.strip("\n").split("\n")
        if not head.startswith("#"):
            module, title = head.split(": ")
            old, new = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
            yield title, MODULES[module], old, new


MUTATIONS = list(parse(Path(__file__).with_name("mutations.txt").read_text()))
CASES = {
    name: case
    for file in (test_coordinator, test_coordinator_tasks)
    for name, case in inspect.getmembers(file, inspect.isfunction)
    if name.startswith("test_")
}


def mutated(target: ModuleType, old: str, new: str) -> ModuleType:
    """The coordinator, built anew from the text of its module (and of the table) with one place changed."""
    names = {lifecycle.__name__: lifecycle, coordinator.__name__: coordinator}
    built: dict[str, ModuleType] = {}
    try:
        for name, module in names.items():  # the table first: the coordinator imports it
            text = Path(str(module.__file__)).read_text()
            if module is target:
                assert text.count(old) >= 1, f"nothing to change: {old!r} is not in {name}"
                text = text.replace(old, new)
            built[name] = sys.modules[name] = ModuleType(name)
            built[name].__package__ = module.__package__
            exec(compile(text, str(module.__file__), "exec"), built[name].__dict__)
    finally:
        sys.modules.update(names)
    return built[coordinator.__name__]


def failing(module: ModuleType) -> list[str]:
    failed = []
    for name, case in CASES.items():
        try:
            case(module)
        except (Exception, pytest.fail.Exception):
            failed.append(name)
    return failed


def test_no_false_alarm() -> None:
    assert failing(mutated(coordinator, "import", "import")) == []


@pytest.mark.parametrize(("target", "old", "new"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS])
def test_noticed(target: ModuleType, old: str, new: str) -> None:
    assert failing(mutated(target, old, new)), "no case noticed"


def test_there_are_enough() -> None:
    assert len({m[0] for m in MUTATIONS}) == len(MUTATIONS) >= 20


def test_a_mutation_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="nothing to change"):
        mutated(coordinator, "no such text", "")
