"""The engines of the script's Spark sessions: what all runs of one session share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ....storage.hadoop import HadoopFiles
from ...spark.engine import Engine
from ...spark.handles import jvm, query_manager, session_of
from ...spark.versions.choose import internals_of


class Engines:
    """Thread-safe.

    :param on_first: called with the first engine, before anything runs in its session.
    """

    def __init__(self, on_first: Callable[[Engine], None]) -> None:
        self._on_first = on_first
        self._lock = threading.Lock()
        self._known: dict[Any, Engine] = {}  # by the JVM's StreamingQueryManager, one for each session

    def of(self, writer: DataStreamWriter) -> Engine:
        """The engine of the session that the writer's query starts in.

        :raises SparkUnknown: as `internals_of`.
        """
        with self._lock:
            manager = query_manager(writer)
            for known, engine in self._known.items():
                if known == manager:
                    return engine
            spark = session_of(writer)
            engine = Engine(HadoopFiles(spark), internals_of(spark), jvm(spark))
            if not self._known:
                self._on_first(engine)
            self._known[manager] = engine
            return engine

    def any(self) -> Engine | None:
        """The engine of some session, None if there is none yet."""
        with self._lock:
            return next(iter(self._known.values()), None)
