"""What a query without a checkpointLocation does: whether one that starts again is the same.

Under plain Spark, such a query begins from nothing at each start. Here it continues where it was.
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.messages.driver_status import Problem
from ..spark.handles import analyzed_plan
from ..spark.sources.plan_sources import sources_of
from ..spark.stream_writer import WriterOptions
from .edges import Endpoints

log = logging.getLogger("streamjob")

IDS = re.compile(r'"(id|jvmId|nodeId)":("[^"]*"|\d+)')  # differ in each DataFrame


@dataclass(frozen=True, eq=False)
class Definition:
    """What a query reads, does and writes.

    :param plan: SHA-256 of the analyzed plan, without the ids of its nodes and expressions, and of options of
        the sources and of the writer, which the plan does not show.
    :param ends: without what its foreachBatch function was seen to write.
    :param functions: what the script gave to foreachBatch() and foreach().
    :param reads: `read_by` of each, as it was at the start.
    """

    plan: str
    ends: Endpoints
    format: str | None
    mode: str | None
    table: str | None
    functions: tuple[Any, Any]
    reads: tuple[dict[str, Any], dict[str, Any]] = ({}, {})

    @classmethod
    def of(cls, writer: DataStreamWriter, said: WriterOptions, ends: Endpoints) -> Definition | None:
        """None if the query has a checkpointLocation, which says that it continues."""
        if said.location is not None:
            return None
        options = [sorted(source.options.items()) for source in sources_of(writer) or ()]
        text = f"{IDS.sub('', str(analyzed_plan(writer).toJSON()))} {options} {sorted(said.options.items())}"
        plan = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        each_batch = said.each_batch.given if said.each_batch is not None else None
        functions = (each_batch, said.each_row)
        reads = (read_by(each_batch), read_by(said.each_row))
        return cls(plan, ends, said.format, said.mode, said.table, functions, reads)

    def same_as(self, other: Definition) -> bool:
        """Whether another start, in this process, is one of the same query."""
        mine = (self.plan, self.ends, self.format, self.mode, self.table)
        theirs = (other.plan, other.ends, other.format, other.mode, other.table)
        return (
            mine == theirs
            and all(map(same, self.functions, other.functions))
            and all(map(_all_same, self.reads, other.reads))
        )


def same(one: Any, other: Any, depth: int = 8) -> bool:
    """Whether two values certainly are the same: one object, equal plain values, or a function of the same
    code over the same values, as one that is made again in a loop.
    """
    if one is other:
        return True
    if type(one) is not type(other) or not depth:
        return False
    if isinstance(one, FunctionType):
        mine, theirs = _values(one), _values(other)
        alike = one.__code__ is other.__code__ and len(mine) == len(theirs)
        return alike and all(same(a, b, depth - 1) for a, b in zip(mine, theirs, strict=True))
    return isinstance(one, (str, bytes, int, float, MethodType)) and bool(one == other)


def read_by(function: Any) -> dict[str, Any]:
    """What a function reads beside its arguments: a loop may start a query for each value of a variable, with
    one function that reads it.

    Left out is what a retry makes again, such as the session: modules, classes, and objects of pyspark.
    """
    if isinstance(function, MethodType):
        of_object: dict[str, Any] = getattr(function.__self__, "__dict__", {})
        words = {name: value for name, value in of_object.items() if isinstance(value, str)}
        return {**read_by(function.__func__), **words}
    if not isinstance(function, FunctionType):
        return {}
    found = {name: function.__globals__.get(name) for name in _names(function.__code__)}
    return {
        name: value
        for name, value in found.items()
        if not isinstance(value, (ModuleType, type)) and not type(value).__module__.startswith("pyspark.")
    }


def _names(code: CodeType) -> set[str]:
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return set(code.co_names).union(*inner)


def _all_same(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return mine.keys() == theirs.keys() and all(same(value, theirs[name]) for name, value in mine.items())


def _values(function: FunctionType) -> list[Any]:
    """What a function was made with: its defaults, and the variables around it."""
    cells = function.__closure__ or ()
    return [*(function.__defaults__ or ()), function.__kwdefaults__, *(_content(cell) for cell in cells)]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return cell


def redefined(name: str) -> Problem:
    """The warning for a query with a name that starts again, and may not be the same."""
    text = (
        f"query {name!r} starts again, and may read, do or write something else than before: it continues "
        "after what the earlier one has read, and does not read that again"
    )
    remedy = "Give another query another queryName; give the same query a checkpointLocation"
    log.warning("%s. %s", text, remedy)
    return Problem("QueryRedefined", text, remedy)
