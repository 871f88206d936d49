"""When two functions certainly do the same."""

from __future__ import annotations

import functools
from typing import Any

import pytest

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
