"""Whether two queries of a script are the same query, as far as that can be told without a name.

A script that starts an unnamed query again, after a stop or a failure, means the same query; one that starts
another unnamed query after it does not. If they were confused, the second would begin behind the data that
the first has read. So they count as the same only if everything that can be compared is equal.

Within a process, objects are compared by identity. The next epoch is another process: it compares hashes
(`noted`), and of objects only their types.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.formats.records import LikenessRecord
from ..spark.handles import analyzed_plan
from ..spark.stream_writer import Written
from .edges import Channel, Ends

IDS = re.compile(r'"(id|jvmId|nodeId)":("[^"]*"|\d+)')  # differ in each DataFrame
DEPTH = 8  # of values within values; more is not compared
PLAIN = (str, bytes, int, float, bool, type(None))


@dataclass(frozen=True, eq=False)
class Likeness:
    """What an unnamed query is recognized by.

    :param plan: SHA-256 of the analyzed plan, without the ids of its nodes and expressions.
    :param functions: what the script gave to foreachBatch() and foreach().
    """

    plan: str
    format: str | None
    mode: str | None
    table: str | None
    functions: tuple[Any, Any]

    @classmethod
    def of(cls, writer: DataStreamWriter, said: Written) -> Likeness:
        text = IDS.sub("", str(analyzed_plan(writer).toJSON()))
        each_batch = said.each_batch.given if said.each_batch is not None else None
        return cls(_hash(text), said.format, said.mode, said.table, (each_batch, said.each_row))

    def same_as(self, other: Likeness) -> bool:
        mine, theirs = (
            (self.plan, self.format, self.mode, self.table),
            (other.plan, other.format, other.mode, other.table),
        )
        return mine == theirs and all(map(same, self.functions, other.functions))

    def noted(self, ends: Ends) -> LikenessRecord:
        """What the next epoch compares.

        :param ends: what the query reads and writes.
        """
        places = [*map(_place, ends.sources), _place(ends.sink), ends.unknown]
        described = [_describe(function) for function in self.functions]
        text = repr((self.plan, self.format, self.mode, self.table, places, [text for text, _ in described]))
        return LikenessRecord(_hash(text)[:32], all(whole for _, whole in described))


def same(one: Any, other: Any, depth: int = DEPTH) -> bool:
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


def _describe(value: Any, depth: int = DEPTH) -> tuple[str, bool]:
    """A text that is equal in each process for values that `same` takes for the same.

    :returns: the text, and whether it describes the value whole. Of an object it has only the type.
    """
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, PLAIN):
        return f"{kind}:{value!r}", True
    if isinstance(value, (type, ModuleType)):
        return f"{kind}:{getattr(value, '__module__', '')}.{value.__name__}", True
    parts = _code_parts(value) if isinstance(value, CodeType) else _parts(value)
    if parts is None or not depth:
        return kind, False
    found = [_describe(part, depth - 1) for part in parts]
    return f"{kind}({','.join(text for text, _ in found)})", all(whole for _, whole in found)


def _code_parts(code: CodeType) -> list[Any]:
    """What the code does. Where it is in its file, a line above it can change."""
    # A set of constants (`in {"a", "b"}`) has another order in each process.
    consts = [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in code.co_consts]
    plain = [c if isinstance(c, (*PLAIN, CodeType, tuple, list)) else repr(c) for c in consts]
    return [code.co_name, code.co_code, code.co_names, code.co_varnames, code.co_freevars, plain]


def _place(channel: Channel | None) -> tuple[Any, ...] | None:
    if channel is None:
        return None
    return (channel.kind, sorted(channel.names), channel.pattern, sorted(channel.brokers), channel.nested)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


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
