"""Remembers what a script sets on a query's writer before the start: format, options, name.

pyspark's writer has no getters.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from .foreach_batch.function import BatchFunction
from .target import Target, with_call, with_options

LOCATION_OPTION = "checkpointLocation"
LOCATION = "checkpointlocation"  # options are case-insensitive in Spark
_ATTRIBUTE = "_streamjob_written"


@dataclass(frozen=True)
class WriterOptions(Target):
    """What the script set on a query's writer.

    :param mode: from outputMode().
    :param each_batch: from foreachBatch().
    :param each_row: from foreach().
    :param exhausts: the trigger makes the query end when it has read the available input.
    """

    name: str | None = None
    mode: str | None = None
    each_batch: BatchFunction | None = None
    each_row: object = None
    exhausts: bool = False

    @property
    def by(self) -> str | None:
        """The name of the foreachBatch function or of the format that writes."""
        if self.each_batch is None:
            return self.format
        given = self.each_batch.given
        return str(getattr(given, "__qualname__", None) or type(given).__qualname__)

    @property
    def location(self) -> str | None:
        """The checkpointLocation that the script chose, None if it chose none."""
        return self.options.get(LOCATION)


def remember() -> None:
    """Wrap the methods of pyspark's writer. Call this once, before the script is imported."""
    _before("format", lambda said, source: replace(said, format=source))
    _before("queryName", lambda said, name: replace(said, name=name))
    _before("outputMode", lambda said, outputMode: replace(said, mode=outputMode))  # noqa: N803  pyspark's
    _before("foreach", lambda said, f: replace(said, each_row=f))
    _before("partitionBy", lambda said, *columns: replace(said, partitioned=bool(columns)))
    _before("option", lambda said, key, value: with_options(said, {key: value}))
    _before("options", with_options)
    _remember_trigger()
    _remember_batch_function()


def written(
    writer: DataStreamWriter,
    original: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> WriterOptions:
    """What the script set on the writer, including the arguments of the starting call.

    :param original: pyspark's start() or toTable(), about to be called with `args` and `kwargs`.
    """
    said: WriterOptions = getattr(writer, _ATTRIBUTE, WriterOptions())
    given = inspect.signature(original).bind(writer, *args, **(kwargs or {})).arguments
    return replace(
        with_call(said, given),
        name=given.get("queryName") or said.name,
        mode=given.get("outputMode") or said.mode,
        table=given.get("tableName"),
    )


def choose_location(writer: DataStreamWriter, location: str) -> None:
    """Set the checkpointLocation of a query whose script chose none.

    It is not remembered as the script's choice: when the same writer is started again, the script has still
    chosen none.
    """
    inspect.unwrap(DataStreamWriter.option)(writer, LOCATION_OPTION, location)


def _before(method: str, change: Callable[..., WriterOptions]) -> None:
    original = getattr(DataStreamWriter, method)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapped(writer: DataStreamWriter, *args: Any, **kwargs: Any) -> Any:
        _, *given = signature.bind(writer, *args, **kwargs).arguments.values()
        result = original(writer, *args, **kwargs)  # first: it refuses invalid names and keys
        setattr(writer, _ATTRIBUTE, change(getattr(writer, _ATTRIBUTE, WriterOptions()), *given))
        return result

    setattr(DataStreamWriter, method, wrapped)


def _remember_trigger() -> None:
    original = DataStreamWriter.trigger

    @functools.wraps(original)
    def trigger(writer: DataStreamWriter, **kwargs: Any) -> DataStreamWriter:
        result = original(writer, **kwargs)
        said = getattr(writer, _ATTRIBUTE, WriterOptions())
        exhausts = bool(kwargs.get("availableNow") or kwargs.get("once"))
        setattr(writer, _ATTRIBUTE, replace(said, exhausts=exhausts))
        return result

    DataStreamWriter.trigger = trigger  # type: ignore[assignment,method-assign]


def _remember_batch_function() -> None:
    original = DataStreamWriter.foreachBatch

    @functools.wraps(original)
    def foreachBatch(writer: DataStreamWriter, func: Callable[[DataFrame, int], None]) -> DataStreamWriter:  # noqa: N802
        each_batch = BatchFunction(func)
        result = original(writer, each_batch)
        said = getattr(writer, _ATTRIBUTE, WriterOptions())
        setattr(writer, _ATTRIBUTE, replace(said, each_batch=each_batch))
        return result

    DataStreamWriter.foreachBatch = foreachBatch  # type: ignore[assignment,method-assign]
