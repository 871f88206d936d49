"""The settings of the session as they were when a query started.

A script may change them between its queries (`spark.conf.set`); each query keeps those that it started with. When the runtime
starts one again, for its last batch, it has to have them again: Spark notes only some of them in the offset log. With others its
state might not even be found (`stateStore.checkpointFormatVersion`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

# Held while a query starts: it takes a copy of what the session has at that moment.
starting = threading.Lock()


class Settings:
    """Of now."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._then = self._now()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """The session has them in the block; nothing is changed if it has them anyway. No other query starts meanwhile."""
        with starting:
            now = self._now()
            if self._then.equals(now):
                yield
                return
            before, after = dict(self._then), dict(now)
            changed = [k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]
            self._set(before, changed)
            try:
                yield
            finally:
                self._set(after, changed)

    def _now(self) -> Any:
        """Java's map, a copy: entry by entry it would be a hundred calls."""
        jvm_session: Any = self._spark._jsparkSession
        return jvm_session.conf().getAllAsJava()

    def _set(self, settings: Mapping[str, str], keys: Iterable[str]) -> None:
        for key in keys:
            if key in settings:
                self._spark.conf.set(key, settings[key])
            else:
                self._spark.conf.unset(key)
