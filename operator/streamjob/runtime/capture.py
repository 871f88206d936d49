"""Sees an unchanged script's queries start and keeps the script from ending them too early.

Wraps public methods of pyspark, each by the same name and signature, before the script is imported. What a script calls:

    writer.start(), writer.toTable()        the query becomes a stage of the job; a ManagedQuery is returned
    writer.option("checkpointLocation", …)  is remembered: a script that sets it keeps it
    writer.queryName(…)                     names the stage
    writer.trigger(continuous=…)            refused, Spark runs no micro-batches then
    spark.streams.active, awaitAnyTermination   speak of stages, not of the Spark queries behind them
    spark.stop()                            waits for the end of a termination, or begins a stop
    builder.remote(…).getOrCreate()         refused, there is no JVM to hold a boundary in
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..protocol.errors import StreamJobError

if TYPE_CHECKING:
    from .driver import Driver

LOCATION = "checkpointlocation"  # options are case-insensitive in Spark
_LOCATION_SET = "_streamjob_location"
_NAME_SET = "_streamjob_name"


class UnsupportedTrigger(StreamJobError):
    reason = "UnsupportedTrigger"


class ConnectUnsupported(StreamJobError):
    reason = "SparkConnectUnsupported"


def install(driver: Driver) -> None:
    """Wrap pyspark for the life of this process."""
    _refuse_connect()
    _remember()
    _check_trigger()
    _wrap_start("start", driver)
    _wrap_start("toTable", driver)
    _wrap_manager(driver)
    _wrap_stop(driver)


def script_location(writer: DataStreamWriter, start_options: Mapping[str, Any]) -> str | None:
    """The checkpointLocation that the script set on the writer or gives to start(), None if it set none."""
    for key, value in start_options.items():
        if key.lower() == LOCATION:
            return str(value)
    return getattr(writer, _LOCATION_SET, None)


def script_name(writer: DataStreamWriter, start_options: Mapping[str, Any]) -> str | None:
    """The query's name that the script set on the writer or gives to start(), None if it set none."""
    name = start_options.get("queryName") or getattr(writer, _NAME_SET, None)
    return str(name) if name else None


def _replace(owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))


def _wrap_start(name: str, driver: Driver) -> None:
    def make(original: Callable[..., StreamingQuery]) -> Callable[..., StreamingQuery]:
        def start(writer: DataStreamWriter, *args: Any, **kwargs: Any) -> StreamingQuery:
            return driver.start_query(writer, original, args, kwargs)

        return start

    _replace(DataStreamWriter, name, make)


def _remember() -> None:
    def make_option(original: Callable[..., Any]) -> Callable[..., Any]:
        def option(writer: DataStreamWriter, key: str, value: Any) -> Any:
            if key.lower() == LOCATION:
                setattr(writer, _LOCATION_SET, str(value))
            return original(writer, key, value)

        return option

    def make_options(original: Callable[..., Any]) -> Callable[..., Any]:
        def options(writer: DataStreamWriter, **given: Any) -> Any:
            location = script_location(writer, given)
            if location is not None:
                setattr(writer, _LOCATION_SET, location)
            return original(writer, **given)

        return options

    def make_name(original: Callable[..., Any]) -> Callable[..., Any]:
        def query_name(writer: DataStreamWriter, queryName: str) -> Any:
            setattr(writer, _NAME_SET, queryName)
            return original(writer, queryName)

        return query_name

    _replace(DataStreamWriter, "option", make_option)
    _replace(DataStreamWriter, "options", make_options)
    _replace(DataStreamWriter, "queryName", make_name)


def _check_trigger() -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def trigger(writer: DataStreamWriter, **kwargs: Any) -> Any:
            for kind in ("continuous", "realTime"):
                if kwargs.get(kind) is not None:
                    raise UnsupportedTrigger(
                        f"trigger({kind}={kwargs[kind]!r}) runs no micro-batches, so the query has no boundary to stop at",
                        remedy="Use processingTime, availableNow or once",
                    )
            return original(writer, **kwargs)

        return trigger

    _replace(DataStreamWriter, "trigger", make)


def _wrap_manager(driver: Driver) -> None:
    def make_any(original: Callable[..., Any]) -> Callable[..., Any]:
        def await_any(manager: StreamingQueryManager, timeout: int | None = None) -> bool | None:
            return driver.await_any(timeout)

        return await_any

    _replace(StreamingQueryManager, "awaitAnyTermination", make_any)
    StreamingQueryManager.active = property(  # type: ignore[assignment,method-assign]
        lambda manager: driver.active(), doc=StreamingQueryManager.active.__doc__
    )


def _wrap_stop(driver: Driver) -> None:
    def make(original: Callable[..., None]) -> Callable[..., None]:
        def stop(owner: Any) -> None:
            driver.before_spark_stops()
            original(owner)

        return stop

    # SparkSession.stop calls SparkContext.stop; by then everything has ended and the second wait is none.
    _replace(SparkSession, "stop", make)
    _replace(SparkContext, "stop", make)


def _refuse_connect() -> None:
    def refuse(where: str) -> ConnectUnsupported:
        return ConnectUnsupported(
            f"{where} asks for Spark Connect: the driver's JVM is elsewhere, and a boundary can only be held inside it",
            remedy="Use a classic session: remove it, the operator gives the driver its master",
        )

    if os.environ.get("SPARK_REMOTE"):
        raise refuse("the environment variable SPARK_REMOTE")

    def make(original: Callable[..., SparkSession]) -> Callable[..., SparkSession]:
        def get_or_create(builder: Any) -> SparkSession:
            options = {**getattr(builder, "_options", {})}
            if "spark.remote" in options or options.get("spark.api.mode") == "connect":
                raise refuse("SparkSession.builder")
            return original(builder)

        return get_or_create

    _replace(SparkSession.Builder, "getOrCreate", make)
