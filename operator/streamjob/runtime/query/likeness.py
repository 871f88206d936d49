"""Whether two queries of a script are the same query, as far as that can be told without a name.

A script that starts an unnamed query again, after a stop or a failure, means the same query; one that starts
another unnamed query after it does not. If they were confused, the second would begin behind the data that
the first has read. So they count as the same only if everything that can be compared is equal.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..spark.handles import analyzed_plan
from ..spark.stream_writer import Written

EXPRESSION_IDS = re.compile(r'"(id|jvmId)":("[^"]*"|\d+)')  # differ in each DataFrame
PLAIN = (str, bytes, int, float, bool, type(None))


@dataclass(frozen=True, eq=False)
class Likeness:
    """What an unnamed query is recognized by.

    :param plan: SHA-256 of the analyzed plan, without the ids of its expressions.
    :param functions: what the script gave to foreachBatch() and foreach().
    """

    plan: str
    format: str | None
    mode: str | None
    table: str | None
    functions: tuple[Any, Any]

    @classmethod
    def of(cls, writer: DataStreamWriter, said: Written) -> Likeness:
        text = EXPRESSION_IDS.sub("", str(analyzed_plan(writer).toJSON()))
        each_batch = said.each_batch.given if said.each_batch is not None else None
        plan = hashlib.sha256(text.encode()).hexdigest()
        return cls(plan, said.format, said.mode, said.table, (each_batch, said.each_row))

    def same_as(self, other: Likeness) -> bool:
        mine, theirs = (
            (self.plan, self.format, self.mode, self.table),
            (other.plan, other.format, other.mode, other.table),
        )
        return mine == theirs and all(map(same, self.functions, other.functions))


def same(one: Any, other: Any, depth: int = 8) -> bool:
    """Whether two values certainly are the same: one object, equal plain values, or functions of the same
    code over the same values. Objects of other kinds are compared by identity.
    """
    if one is other:
        return True
    if type(one) is not type(other) or not depth:
        return False
    if isinstance(one, (*PLAIN, CodeType)):
        return bool(one == other)
    mine, theirs = _parts(one), _parts(other)
    if mine is None or theirs is None or len(mine) != len(theirs):
        return False
    return all(same(a, b, depth - 1) for a, b in zip(mine, theirs, strict=True))


def _parts(value: Any) -> list[Any] | None:
    """What a value is made of, None if it is compared by identity."""
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, *cells]
    return None


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:  # the variable has no value yet
        return False
