"""Captures the queries that an unchanged script starts, and keeps the script from ending them too early.

Wraps public methods of pyspark under the same name and signature, before the script is imported. What a
script calls:

    writer.start(), writer.toTable()        the query becomes a run of a stage of the job
    writer.format(), option(), queryName()  remembered: the stage's name, its location, where it writes
    writer.trigger(…)                       remembered; continuous and real-time triggers are refused
    frame.write…save(), writeTo()…append()  in a foreachBatch function: observed, shows who reads its output
    spark.streams, StreamingQuery           pyspark's own, over runs, not the JVM's queries (`managed_query`)
    spark.stop(), SparkContext.stop()       ends the queries at their boundaries first
    builder.getOrCreate(), SparkContext()   if the end of the previous session was put off, it ends now;
                                            executors' Python finds an injected runtime
    StreamingQueryListener                  hears of the end of a query that the job ends after the savepoint
    builder.remote(…).getOrCreate()         refused: there is no JVM here to stop a query at a boundary
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import JStreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ... import shards
from ...jvm import numpy_converters
from ...protocol.errors import StreamJobError
from ..driver.script.managed_query import ManagedJvmManager
from ..spark.foreach_batch.writes import observe
from ..spark.stream_writer import remember
from .image import injected

if TYPE_CHECKING:
    from ..driver.driver import Driver


class UnsupportedTrigger(StreamJobError):
    reason = "UnsupportedTrigger"


class QueryInFork(StreamJobError):
    reason = "QueryInForkedProcess"


class ConnectUnsupported(StreamJobError):
    reason = "SparkConnectUnsupported"


def install(driver: Driver) -> None:
    """Wrap pyspark for the life of this process.

    :raises ConnectUnsupported: the environment asks for Spark Connect.
    """
    _refuse_connect()
    numpy_converters.ask_of_numpy_values_only()
    shards.assign_with(driver.declared)
    remember()
    observe()
    _check_trigger()
    _wrap_start("start", driver)
    _wrap_start("toTable", driver)
    _wrap_manager(driver)
    _wrap_listener(driver)
    _wrap_stop(driver)
    _wrap_new_context(driver)


def _replace(owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a method. In a process that the script forks, the original method is called."""
    original, process = getattr(owner, name), os.getpid()
    changed = functools.wraps(original)(make(original))  # its name is in the messages of wrong calls

    @functools.wraps(original)
    def either(*args: Any, **kwargs: Any) -> Any:
        return (changed if os.getpid() == process else original)(*args, **kwargs)

    setattr(owner, name, either)


def _wrap_start(name: str, driver: Driver) -> None:
    original, process = getattr(DataStreamWriter, name), os.getpid()

    @functools.wraps(original)
    def start(writer: DataStreamWriter, *args: Any, **kwargs: Any) -> StreamingQuery:
        if os.getpid() != process:
            raise QueryInFork(
                "a query is started in a process that the script has forked: nobody could stop it, or resume "
                "it",
                remedy="Start it in the script's own process; it may be in a thread",
            )
        return driver.script.start_query(writer, original, args, kwargs)

    setattr(DataStreamWriter, name, start)


def _check_trigger() -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def trigger(writer: DataStreamWriter, **kwargs: Any) -> Any:
            for kind in ("continuous", "realTime"):
                if kwargs.get(kind) is not None:
                    raise UnsupportedTrigger(
                        f"trigger({kind}={kwargs[kind]!r}) runs no micro-batches, so the query has no "
                        "boundary to stop at",
                        remedy="Use processingTime, availableNow or once",
                    )
            return original(writer, **kwargs)

        return trigger

    _replace(DataStreamWriter, "trigger", make)


def _wrap_manager(driver: Driver) -> None:
    def make(original: Callable[..., None]) -> Callable[..., None]:
        def __init__(manager: StreamingQueryManager, jsqm: Any) -> None:  # noqa: N807
            original(manager, ManagedJvmManager(jsqm, driver.script, lambda stage: stage.of_manager(jsqm)))

        return __init__

    _replace(StreamingQueryManager, "__init__", make)


def _wrap_listener(driver: Driver) -> None:
    def make(original: Callable[..., None]) -> Callable[..., None]:
        def onQueryTerminated(listener: Any, event: Any) -> None:
            driver.script.listeners.query_terminated(lambda: original(listener, event))

        return onQueryTerminated

    _replace(JStreamingQueryListener, "onQueryTerminated", make)


def _wrap_stop(driver: Driver) -> None:
    def make(original: Callable[..., None]) -> Callable[..., None]:
        def stop(owner: Any) -> None:
            driver.script.spark_stops(lambda: original(owner))

        return stop

    # SparkSession.stop calls SparkContext.stop. By then all queries have ended, so the second call does not
    # wait.
    _replace(SparkSession, "stop", make)
    _replace(SparkContext, "stop", make)


def _wrap_new_context(driver: Driver) -> None:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def before(*args: Any, **kwargs: Any) -> Any:
            driver.script.new_session()
            return original(*args, **kwargs)

        return before

    def make_context(original: Callable[..., None]) -> Callable[..., None]:
        started = make(original)

        def __init__(context: SparkContext, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            started(context, *args, **kwargs)
            driver.watch_jvm()
            injected.lend_to_workers(context)

        return __init__

    _replace(SparkSession.Builder, "getOrCreate", make)
    _replace(SparkContext, "__init__", make_context)


def _refuse_connect() -> None:
    def refuse(where: str) -> ConnectUnsupported:
        return ConnectUnsupported(
            f"{where} asks for Spark Connect: the driver's JVM is elsewhere, and a boundary can only be held "
            "inside it",
            remedy="Use a classic session: remove it, <master>",
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
