"""When two functions certainly do the same."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from typing import Any

import pytest

from streamjob.runtime.query.edges import Channel, Ends
from streamjob.runtime.query.likeness import Likeness, same


def writing_to(target: Any) -> Any:
    def write(frame: Any, batch: int) -> None:
        print(target, frame, batch)

    return write


def other(frame: Any, batch: int) -> None:
    """Another function."""


class Sink:
    def write(self, frame: Any, batch: int) -> None: ...


SINK = Sink()


@pytest.mark.parametrize(
    ("one", "another", "alike"),
    [
        (writing_to("a"), writing_to("a"), True),
        (writing_to("a"), writing_to("b"), False),
        (writing_to(SINK), writing_to(SINK), True),
        (writing_to(Sink()), writing_to(Sink()), False),
        (writing_to(("a", 1, None)), writing_to(("a", 1, None)), True),
        (writing_to({"a": 1}), writing_to({"a": 2}), False),
        (writing_to(writing_to("a")), writing_to(writing_to("a")), True),
        (writing_to("a"), other, False),
        (lambda v: v + 1, lambda v: v + 2, False),
        (SINK.write, SINK.write, True),
        (SINK.write, Sink().write, False),
        (functools.partial(other, batch=1), functools.partial(other, batch=1), True),
        (functools.partial(other, batch=1), functools.partial(other, batch=2), False),
        (1, True, False),
        (None, None, True),
    ],
)
def test_functions_of_the_same_code_over_the_same_values(one: Any, another: Any, alike: bool) -> None:
    assert same(one, another) is alike


def test_a_function_that_refers_to_itself_is_compared_to_an_end() -> None:
    def recursive() -> Any:
        def write(frame: Any, batch: int) -> Any:
            return write

        return write

    assert same(recursive(), recursive()) is False, "no proof that they are the same"


def test_anything_that_differs_makes_another_query() -> None:
    known = Likeness("plan", "json", "append", None, (writing_to("a"), None))
    assert known.same_as(Likeness("plan", "json", "append", None, (writing_to("a"), None)))
    for changed in (
        Likeness("another plan", "json", "append", None, (writing_to("a"), None)),
        Likeness("plan", "parquet", "append", None, (writing_to("a"), None)),
        Likeness("plan", "json", "complete", None, (writing_to("a"), None)),
        Likeness("plan", "json", "append", "table", (writing_to("a"), None)),
        Likeness("plan", "json", "append", None, (writing_to("b"), None)),
        Likeness("plan", "json", "append", None, (writing_to("a"), other)),
    ):
        assert not known.same_as(changed)


def noted(function: Any, **changed: Any) -> Any:
    fields = {"plan": "plan", "format": "json", "mode": "append", "table": None, **changed}
    return Likeness(**fields, functions=(function, None)).noted(Ends())


def sets(frame: Any, batch: Any) -> Any:
    return batch in {"a", "b", "c"}


@pytest.mark.parametrize(
    ("one", "another"),
    [
        (writing_to("a"), writing_to("b")),
        (writing_to({"a": 1}), writing_to({"a": 2})),
        (writing_to(("a", SINK)), writing_to(("b", SINK))),
        (functools.partial(other, batch=1), functools.partial(other, batch=2)),
        (lambda v: v + 1, lambda v: v + 2),
        (writing_to(1), writing_to(True)),
        (writing_to(SINK), writing_to(writing_to(SINK))),
    ],
)
def test_what_differs_has_another_note(one: Any, another: Any) -> None:
    assert noted(one) == noted(one)
    assert noted(one).digest != noted(another).digest


def test_an_object_makes_a_note_uncertain() -> None:
    """Another process has other objects, and can compare only what else there is."""
    assert noted(writing_to("a")).certain
    assert noted(writing_to(Sink)).certain, "a class has a name"
    assert noted(writing_to(functools)).certain, "so has a module"
    for function in (SINK.write, writing_to(Sink()), writing_to([1, {"deep": Sink()}])):
        assert not noted(function).certain
    assert noted(writing_to(SINK)) == noted(writing_to(Sink()))


def test_plan_sink_and_places_are_part_of_the_note() -> None:
    plain = noted(other)
    for changed in ({"plan": "x"}, {"format": "csv"}, {"mode": "update"}, {"table": "t"}):
        assert noted(other, **changed).digest != plain.digest
    elsewhere = Ends((Channel("files", frozenset({"file:/in"})),))
    assert Likeness("plan", "json", "append", None, (other, None)).noted(elsewhere).digest != plain.digest


def test_another_process_makes_the_same_note() -> None:
    """Sets of strings have another order there, and functions other addresses."""
    program = (
        "from tests.runtime.query.test_likeness import *; print(noted(sets).digest, noted(SINK.write).digest)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "random"}
    command = [sys.executable, "-c", program]
    runs = [subprocess.check_output(command, text=True, env=environment) for _ in range(3)]
    assert set(runs) == {f"{noted(sets).digest} {noted(SINK.write).digest}\n"}
