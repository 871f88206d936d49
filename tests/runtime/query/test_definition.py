"""A query without a name that is started again: is it the same one?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from streamjob.runtime.query.definition import Definition, read_by, same
from streamjob.runtime.query.edges import Channel, Endpoints

ENDS = Endpoints((Channel("files", frozenset({"file:/in"})),))


def into(target: object, mode: str = "append") -> Callable[[Any, int], object]:
    def write(frame: Any, batch: int, to: str = mode) -> object:
        return (target, to)

    return write


def otherwise(target: object) -> Callable[[Any, int], object]:
    return lambda frame, batch: target


class Sink:
    def write(self, frame: Any, batch: int) -> None: ...


SINK = Sink()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(into("a"), into("a"), id="made again"),
        pytest.param(into(into("a")), into(into("a")), id="around another one"),
        pytest.param(into(SINK), into(SINK), id="around one object"),
        pytest.param(SINK.write, SINK.write, id="a method"),
        pytest.param(None, None, id="none"),
    ],
)
def test_the_same_function(one: object, other: object) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(into("a"), into("b"), id="around another value"),
        pytest.param(into("a"), into("a", "overwrite"), id="of another default"),
        pytest.param(into(SINK), into(Sink()), id="around another object"),
        pytest.param(into("a"), otherwise("a"), id="of other code"),
        pytest.param(SINK.write, Sink().write, id="a method of another object"),
        pytest.param(into(1), into(True), id="around another type"),
    ],
)
def test_other_functions(one: object, other: object) -> None:
    assert not same(one, other)


def test_a_function_around_itself() -> None:
    def made() -> Callable[[], object]:
        def again() -> object:
            return again

        return again

    assert not same(made(), made())


table, tries, spark = "x", 0, None


@pytest.mark.parametrize(
    ("now", "is_same"), [({"table": "y"}, False), ({"table": "x"}, True), ({"otherwise": 1}, True)]
)
def test_a_function_that_reads_a_variable_of_a_loop(
    monkeypatch: pytest.MonkeyPatch, now: dict[str, object], *, is_same: bool
) -> None:
    """The script makes it anew for each value; code and closure are equal."""

    def made() -> Any:
        return lambda frame, batch: [frame.where(table) for _ in range(batch)]

    def query() -> Definition:
        function = made()
        return Definition("plan", ENDS, "json", "append", None, (function, None), (read_by(function), {}))

    first = query()
    for name, value in now.items():
        monkeypatch.setitem(globals(), name, value)
    assert first.same_as(query()) is is_same


def test_a_method_of_an_object_that_has_changed() -> None:
    class Writer:
        table = "x"
        batches = 0

        def write(self, frame: Any, batch: int) -> None:
            self.batches += 1

    writer = Writer()
    writer.table = "x"
    before = read_by(writer.write)
    writer.write(None, 0)
    assert read_by(writer.write) == before, "what it counts is no other query"
    writer.table = "y"
    assert read_by(writer.write) != before


def test_a_query_is_the_same_if_all_of_it_is() -> None:
    query = Definition("plan", ENDS, "json", "append", None, (into("a"), None))
    assert query.same_as(replace(query, functions=(into("a"), None)))
    for other in (
        replace(query, plan="another"),
        replace(query, ends=Endpoints()),
        replace(query, format="parquet"),
        replace(query, mode="complete"),
        replace(query, table="t"),
        replace(query, functions=(into("b"), None)),
    ):
        assert not query.same_as(other)
