"""The StreamingQuery that a script holds. While its stage ends, the script sees a query that is still active."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.query import StreamingQuery

if TYPE_CHECKING:
    from .driver import Driver
    from .stage import Stage


class ManagedQuery(StreamingQuery):
    """Spark's query with three calls changed, so that no script cuts a drain short:

    `isActive` is true and `awaitTermination` waits until the stage is closed, not until the first of the Spark queries that
    its end needs has stopped; `stop` waits for the boundary and the final checkpoint.
    """

    def __init__(self, jsq: Any, stage: Stage, driver: Driver) -> None:
        super().__init__(jsq)
        self._stage = stage
        self._driver = driver

    @property
    def isActive(self) -> bool:
        return not (self._stage.over.is_set() or self._stage.released)

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        if timeout is not None and timeout <= 0:
            raise ValueError(f"timeout must be a positive number, got {timeout}")
        self._driver.script_waits(timeout)
        ended = self._stage.released or self._stage.over.wait(timeout)
        if ended and self._stage.failure is not None:
            raise self._stage.failure
        return ended if timeout is not None else None

    def stop(self) -> None:
        self._driver.script_stops(self._stage)


def in_callback() -> bool:
    """Whether the JVM has called us (foreachBatch, a listener). There a wait for the boundary would never end: the batch
    that has to reach it is the caller."""
    frame = sys._getframe().f_back
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("py4j."):
            return True
        frame = frame.f_back
    return False


class EndedJvmQuery:
    """Stands for the JVM's query where there is none: the stage was drained before this driver started, and only
    its final checkpoint is missing. Answers as a query of which nothing has run yet."""

    def __init__(self, query_id: str, name: str | None) -> None:
        self._id = query_id
        self._name = name

    def id(self) -> _Text:
        return _Text(self._id)

    def runId(self) -> _Text:
        return _Text(self._id)

    def name(self) -> str | None:
        return self._name

    def recentProgress(self) -> list[Any]:
        return []

    def lastProgress(self) -> None:
        return None

    def processAllAvailable(self) -> None:
        """All there was is processed."""

    def exception(self) -> Any:
        return _Nothing()

    def status(self) -> Any:
        return _Status()

    def explainInternal(self, extended: bool) -> str:
        return "This query was drained by an earlier driver."


class _Text(str):
    """A string that answers as a `java.util.UUID` does."""

    def toString(self) -> str:
        return str(self)


class _Nothing:
    def isDefined(self) -> bool:
        return False


class _Status:
    def json(self) -> str:
        return '{"message":"Drained","isDataAvailable":false,"isTriggerActive":false}'
