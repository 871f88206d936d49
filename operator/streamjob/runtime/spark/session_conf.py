"""Keeps the session settings that a query started with, for the case that the runtime starts it again.

A script may change settings between its queries (`spark.conf.set`), and each query keeps those that it
started with. When the runtime starts a query again, for its last batch, it must restore them: Spark records
only some of them in the offset log. With other settings the query might not even find its state
(`stateStore.checkpointFormatVersion`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from .handles import session_of


class _Starts:
    """Separates starts of queries from changes of the settings, which a starting query copies.

    Enter this while a query starts. Many queries may start at once; a listener may even start one when it is
    notified of another start. Only a change of the settings (`none`) waits for all starts and blocks new
    ones.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._closed_by: int | None = None  # the thread that is changing the settings

    def __enter__(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed_by in (None, threading.get_ident()))
            self._running += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    @contextmanager
    def none(self) -> Iterator[None]:
        """No other thread starts a query while the block runs."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running and self._closed_by is None)
            self._closed_by = threading.get_ident()
        try:
            yield
        finally:
            with self._changed:
                self._closed_by = None
                self._changed.notify_all()


started = _Starts()


class Settings:
    """The session's settings at the time this object is created."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._then = self._now()

    @contextmanager
    def in_force(self, *more: tuple[str, str]) -> Iterator[None]:
        """The session has these settings while the block runs, and its current ones again afterwards.

        :param more: further settings, which take precedence.

        If the settings must be changed for that, no other thread starts a query meanwhile.
        """
        if not more and self._then.equals(self._now()):
            with started:
                yield
            return
        with started.none():
            now = self._now()
            before, after = {**dict(self._then), **dict(more)}, dict(now)
            changed = [k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]
            self._set(before, changed)
            try:
                yield
            finally:
                self._set(after, changed)

    def _now(self) -> Any:
        return _settings(self._spark)

    def _set(self, settings: Mapping[str, str], keys: Iterable[str]) -> None:
        for key in keys:
            if key in settings:
                self._spark.conf.set(key, settings[key])
            else:
                self._spark.conf.unset(key)


def explicit(spark: SparkSession) -> dict[str, str]:
    """The settings that somebody has set in the session, by `spec.sparkConf`, an image or the script."""
    return {str(key): str(value) for key, value in dict(_settings(spark)).items()}


def _settings(spark: SparkSession) -> Any:
    """A copy of the settings as a Java map. Reading them entry by entry would take a hundred calls."""
    jvm: Any = spark._jvm
    jvm_session: Any = spark._jsparkSession
    return jvm.java.util.HashMap(jvm_session.sessionState().conf().settings())


def restarter(
    writer: DataStreamWriter,
    original: Callable[..., StreamingQuery],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Callable[..., StreamingQuery]:
    """A function that starts the same writer again with another trigger. The location is set by then.

    Its positional arguments are further settings of the session, as pairs. Without a trigger, it starts the
    writer with the one that the script gave it.
    """
    settings = Settings(session_of(writer))

    def restart(*more: tuple[str, str], **trigger: Any) -> StreamingQuery:
        with settings.in_force(*more):
            return original(writer.trigger(**trigger) if trigger else writer, *args, **kwargs)

    return restart
