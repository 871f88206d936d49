"""Texts that differ in a cluster and at a terminal."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import streamjob
from streamjob.protocol import wording
from streamjob.protocol.errors import StreamJobError

PACKAGE = Path(str(streamjob.__file__)).parent
SPOKEN_BY_DRIVERS = ("runtime", "protocol", "storage", "jvm", "sinks")
# What happens in a pod only, or is about directories that only a StreamJob adopts.
OF_PODS = {
    "protocol/formats/savepoint_cause.py",  # an eviction
    "runtime/__main__.py",  # --help
    "runtime/startup/transactional_sink.py",  # checkpoint.interval: 0
    "runtime/process/config.py",
    "runtime/savepoints/adopt.py",
    "runtime/savepoints/cli.py",
    "runtime/spark/dependencies/maven.py",
    "runtime/spark/executors/numbers.py",  # only a pod is told how many executors to want
    "runtime/spark/versions/choose.py",
    "runtime/startup/index_recovery.py",
    "runtime/startup/own_disk.py",
    "runtime/process/script.py",  # a script that the image does not hold
}
OF_CLUSTERS = re.compile(
    r"\bspec\.|\bnew StreamJob\b|restoreFrom(?!\.checkpoints)|kubectl|driver's log|\bpods?\b"
)


@pytest.fixture
def on_laptop() -> Iterator[None]:
    wording.speak_of_laptop()
    yield
    wording.speak_of_laptop(on=False)


def strings(file: Path) -> Iterator[str]:
    """Every string in the source of a module that is no docstring, with its placeholders."""
    tree = ast.parse(file.read_text())
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def spoken() -> dict[str, list[str]]:
    return {
        place: list(strings(file))
        for room in SPOKEN_BY_DRIVERS
        for file in sorted((PACKAGE / room).rglob("*.py"))
        if (place := file.relative_to(PACKAGE).as_posix()) != "protocol/wording.py"
    }


def test_one_error_speaks_of_fields_in_a_cluster() -> None:
    error = StreamJobError("<image> has no Java", remedy="<Image-with> Java 17, or <allow-drained>")
    assert str(error) == (
        "the image has no Java. Use an image with Java 17, or set spec.restoreFrom.allowDrained to true."
    )


@pytest.mark.usefixtures("on_laptop")
def test_the_same_error_speaks_of_options_at_a_terminal() -> None:
    error = StreamJobError("<image> has no Java", remedy="<Image-with> Java 17, or <allow-drained>")
    assert str(error) == "this machine has no Java. Install Java 17, or use --allow-drained."


def test_what_a_script_writes_in_brackets_stays() -> None:
    assert wording.fill("the function <lambda> of <module>") == "the function <lambda> of <module>"


def test_every_word_is_used_and_every_placeholder_is_known() -> None:
    used = {
        name.lower()
        for texts in spoken().values()
        for text in texts
        for name in re.findall(r"<([A-Za-z]+(?:-[a-z]+)*)>", text)
    }
    assert used >= set(wording.WORDS)
    assert {name for name in used if "-" in name} - {"timeout-constraints"} <= set(wording.WORDS)  # Ivy's


@pytest.mark.usefixtures("on_laptop")
def test_nothing_that_is_said_at_a_terminal_is_about_a_cluster() -> None:
    told = {
        f"{place}: {text}"
        for place, texts in spoken().items()
        if place not in OF_PODS
        for text in texts
        if " " in text and OF_CLUSTERS.search(wording.fill(text))
    }
    assert told == set()
    assert set(spoken()) >= OF_PODS
