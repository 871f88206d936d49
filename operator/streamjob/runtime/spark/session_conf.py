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


class _Starts:
    """Entered while a query starts, which takes a copy of what its session has at that moment. Many may start at once: one may be
    started by a listener that hears of another one's start. Only a change of the settings waits for all of them, and keeps new
    ones out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._closed_by: int | None = None  # the thread that has changed the settings

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed_by in (None, threading.get_ident()))
            self._under_way += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._under_way -= 1
            self._changed.notify_all()

    @contextmanager
    def none(self) -> Iterator[None]:
        """In the block no other thread starts a query."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way and self._closed_by is None)
            self._closed_by = threading.get_ident()
        try:
            yield
        finally:
            with self._changed:
                self._closed_by = None
                self._changed.notify_all()


started = _Starts()


class Settings:
    """Of now."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._then = self._now()

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """The session has them in the block; nothing is changed if it has them anyway. No other query starts meanwhile."""
        if self._then.equals(self._now()):
            with started:
                yield
            return
        with started.none():
            now = self._now()
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
