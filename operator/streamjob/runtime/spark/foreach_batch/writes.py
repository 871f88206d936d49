"""Observes what a foreachBatch function writes through Spark's batch writers.

A query with a foreachBatch function does not show where its output goes. What the function itself writes with
`DataFrameWriter` or `DataFrameWriterV2` does. Not observed: what it writes by other means (`MERGE` in SQL,
the API of a table format, a client library), or in another process.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

from ..handles import table_of
from ..target import Target, with_call, with_options
from .function import BatchFunction, running_batch_function, running_batch_functions

Arguments = Mapping[str, Any]
_ATTRIBUTE = "_streamjob_written"
_SETTINGS: dict[str, Callable[[Target, Arguments], Target]] = {
    "format": lambda given, call: replace(given, format=call["source"]),
    "option": lambda given, call: with_options(given, {call["key"]: call["value"]}),
    "options": lambda given, call: with_options(given, call.get("options")),
    "partitionBy": lambda given, call: replace(given, partitioned=True),
}
_WRITES: dict[str, Callable[[Target, Arguments], Target]] = {
    **dict.fromkeys(
        ("json", "parquet", "text", "csv", "orc", "xml"),  # xml: from Spark 4.0 on
        lambda given, call: _partitioned(with_options(given, {"path": call["path"]}), call),
    ),
    "save": lambda given, call: _partitioned(with_call(given, call), call),
    "saveAsTable": lambda given, call: _partitioned(replace(given, table=call["name"]), call),
    "insertInto": lambda given, call: replace(given, table=call["tableName"]),
}
_WRITES_V2 = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")


def observe() -> None:
    """Wrap the methods of pyspark's batch writers. Call this once, before the script is imported."""
    for name, change in _SETTINGS.items():
        _after(DataFrameWriter, name, change)
    for name, complete in _WRITES.items():
        if hasattr(DataFrameWriter, name):
            _report(DataFrameWriter, name, complete)
    _after(DataFrameWriterV2, "__init__", lambda given, call: replace(given, table=call["table"]))
    for name in ("option", "options"):
        _after(DataFrameWriterV2, name, _SETTINGS[name])
    for name in _WRITES_V2:
        _report(DataFrameWriterV2, name, lambda given, call: given)


def _writing() -> list[BatchFunction]:
    """The foreachBatch functions that may be writing, none for a write outside of one.

    A function may hand its writes to threads. What another thread than the main one writes counts for each
    function that runs: an edge too many delays the end of a reader, an edge too few ends it too early.
    """
    if (found := running_batch_function()) is not None:
        return [found]
    return [] if threading.current_thread() is threading.main_thread() else running_batch_functions()


def _partitioned(given: Target, call: Arguments) -> Target:
    return replace(given, partitioned=True) if call.get("partitionBy") else given


def _given(writer: object) -> Target:
    found: Target = getattr(writer, _ATTRIBUTE, Target())
    return found


def _after(owner: type, name: str, change: Callable[[Target, Arguments], Target]) -> None:
    """Remember what the method sets, if it does not refuse it."""
    original, process = getattr(owner, name), os.getpid()
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapped(writer: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(writer, *args, **kwargs)
        if os.getpid() == process and _writing():
            call = signature.bind(writer, *args, **kwargs).arguments
            setattr(writer, _ATTRIBUTE, change(_given(writer), call))
        return result

    setattr(owner, name, wrapped)


def _report(owner: type, name: str, complete: Callable[[Target, Arguments], Target]) -> None:
    """Report a write before it happens, because its reader may already run.

    :param complete: adds what the arguments of the call say.
    """
    original, process = getattr(owner, name), os.getpid()
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapped(writer: Any, *args: Any, **kwargs: Any) -> Any:
        functions = _writing() if os.getpid() == process else []
        if functions:
            written = complete(_given(writer), signature.bind(writer, *args, **kwargs).arguments)
            table = table_of(writer, written.table, written.options.get("path")) if written.table else None
            for function in functions:
                function.on_write(written, table, len(functions) == 1)
        return original(writer, *args, **kwargs)

    setattr(owner, name, wrapped)
