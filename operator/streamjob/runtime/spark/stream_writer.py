"""What a script has said about a query before it starts: format, options, name. pyspark's writer does not tell it again."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

LOCATION_OPTION = "checkpointLocation"
LOCATION = "checkpointlocation"  # options are case-insensitive in Spark
_ATTRIBUTE = "_streamjob_written"


class BatchFunction:
    """What foreachBatch() was given. What else belongs to a batch, once the query is a stage, is done around it: inside the
    micro-batch, so that Spark commits it only when all of that is done, and runs it again if any of it raises."""

    def __init__(self, function: Callable[[DataFrame, int], object]) -> None:
        self.given = function
        self.function = (
            function  # what is called; a transactional sink's is another than the script has given
        )
        self.before: list[Callable[[int], object]] = []
        self.after: list[Callable[[int], object]] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        for step in self.before:
            step(batch)
        self.function(frame, batch)
        for step in self.after:
            step(batch)


@dataclass(frozen=True)
class Written:
    """`options`: keys in lower case; `mode`: of outputMode(); `table`: of toTable(); `each_batch`: of foreachBatch()."""

    format: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    mode: str | None = None
    table: str | None = None
    each_batch: BatchFunction | None = None
    exhausts: bool = False  # its trigger takes what there is, and the query ends

    @property
    def by(self) -> str | None:
        """What writes: a function or a format, by name."""
        if self.each_batch is None:
            return self.format
        given = self.each_batch.given
        return str(getattr(given, "__qualname__", None) or type(given).__qualname__)

    @property
    def location(self) -> str | None:
        """The checkpointLocation that the script chose, None if it chose none."""
        return self.options.get(LOCATION)


def remember() -> None:
    """Wrap the writer's methods; to be called once, before the script is imported."""
    _before("format", lambda said, source: replace(said, format=source))
    _before("queryName", lambda said, name: replace(said, name=name))
    _before("outputMode", lambda said, outputMode: replace(said, mode=outputMode))  # noqa: N803  pyspark's
    _before("option", lambda said, key, value: _with_options(said, {key: value}))
    _before("options", _with_options)
    _remember_trigger()
    _remember_batch_function()


def written(
    writer: DataStreamWriter,
    original: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
) -> Written:
    """What was said until now, with what the call of `original`, start() or toTable(), adds."""
    said: Written = getattr(writer, _ATTRIBUTE, Written())
    given = inspect.signature(original).bind(writer, *args, **(kwargs or {})).arguments
    said = _with_options(said, given.get("options", {}))
    if given.get("path") is not None:
        said = _with_options(said, {"path": given["path"]})
    return replace(
        said,
        format=given.get("format") or said.format,
        name=given.get("queryName") or said.name,
        mode=given.get("outputMode") or said.mode,
        table=given.get("tableName"),
    )


def choose_location(writer: DataStreamWriter, location: str) -> None:
    """Set the checkpointLocation of a query whose script has chosen none. It is not remembered as the script's: when the same
    writer is started again, the script has still chosen none."""
    inspect.unwrap(DataStreamWriter.option)(writer, LOCATION_OPTION, location)


def _before(method: str, change: Callable[..., Written]) -> None:
    original = getattr(DataStreamWriter, method)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def wrapped(writer: DataStreamWriter, *args: Any, **kwargs: Any) -> Any:
        _, *given = signature.bind(writer, *args, **kwargs).arguments.values()
        result = original(writer, *args, **kwargs)  # it refuses what is no name, no key
        setattr(writer, _ATTRIBUTE, change(getattr(writer, _ATTRIBUTE, Written()), *given))
        return result

    setattr(DataStreamWriter, method, wrapped)


def _remember_trigger() -> None:
    original = DataStreamWriter.trigger

    @functools.wraps(original)
    def trigger(writer: DataStreamWriter, **kwargs: Any) -> DataStreamWriter:
        result = original(writer, **kwargs)
        said = getattr(writer, _ATTRIBUTE, Written())
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
        said = getattr(writer, _ATTRIBUTE, Written())
        setattr(writer, _ATTRIBUTE, replace(said, each_batch=each_batch))
        return result

    DataStreamWriter.foreachBatch = foreachBatch  # type: ignore[assignment,method-assign]


def _with_options(said: Written, options: Mapping[str, Any] | None = None) -> Written:
    texts = {key.lower(): str(value) for key, value in (options or {}).items() if value is not None}
    return replace(said, options={**said.options, **texts})
