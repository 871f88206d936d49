"""The engines of the script's Spark sessions: what all runs of one session share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ....protocol.messages.driver_status import Problem
from ....storage.hadoop import HadoopFiles
from ...spark.engine import Engine
from ...spark.handles import jvm, query_manager, session_of
from ...spark.versions.choose import Chooser


class Engines:
    """Thread-safe.

    :param on_first: called with the first engine, before anything runs in its session.
    :param warn: adds a warning for the user to the status.
    :param allow_unknown_spark: see `DriverConfig`.
    """

    def __init__(
        self,
        on_first: Callable[[Engine], None],
        warn: Callable[[Problem], None],
        *,
        allow_unknown_spark: bool,
    ) -> None:
        self._on_first = on_first
        self._warn = warn
        self._chooser = Chooser(allow_unknown=allow_unknown_spark)
        self._lock = threading.Lock()
        self._known: dict[Any, Engine] = {}  # by the JVM's StreamingQueryManager, one for each session

    def of(self, writer: DataStreamWriter) -> Engine:
        """The engine of the session that the writer's query starts in.

        :raises SparkTooOld: as `Chooser.internals`.
        :raises SparkUnknown: as `Chooser.internals`.
        """
        with self._lock:
            manager = query_manager(writer)
            for known, engine in self._known.items():
                if known == manager:
                    return engine
            spark = session_of(writer)
            engine = Engine(HadoopFiles(spark), self._chooser.internals(spark), jvm(spark))
            if not self._known:
                self._on_first(engine)
                if self._chooser.warning is not None:
                    self._warn(self._chooser.warning)
            self._known[manager] = engine
            return engine

    def any(self) -> Engine | None:
        """The engine of some session, None if there is none yet."""
        with self._lock:
            return next(iter(self._known.values()), None)
