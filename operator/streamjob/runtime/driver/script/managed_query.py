"""Stand-ins for the JVM's StreamingQuery and StreamingQueryManager, wrapped by pyspark's own classes.

So argument checks, conversions and types stay pyspark's. A script's query is active, and a wait for it lasts,
until its run is over. The end of a run may need several Spark queries one after another; the end of the first
does not count. Every way to call `stop` ends the run at a boundary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from ...query.task import Stage

FOREVER = None


class Job(Protocol):
    """What the stand-ins need of the job. `script_side.ScriptSide` implements it."""

    @property
    def stops(self) -> bool: ...

    def runs(self) -> list[Stage]: ...

    def script_stops(self, *stages: Stage) -> None: ...

    def script_is_called_back(self) -> None: ...

    def await_run(self, stage: Stage, milliseconds: int | None) -> bool: ...

    def await_any(self, mine: Callable[[Stage], bool], milliseconds: int | None) -> Stage | None: ...

    def reset_terminated(self, mine: Callable[[Stage], bool]) -> None: ...

    def leave_if_stopped(self, stage: Stage) -> None: ...


class ManagedJvmQuery:
    """The JVM's StreamingQuery of one run, except for how it ends."""

    def __init__(self, stage: Stage, job: Job) -> None:
        self._stage = stage
        self._job = job

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage.jsq, name)

    def isActive(self) -> bool:
        return not self._stage.over.is_set()

    def awaitTermination(self, milliseconds: int | None = FOREVER) -> bool | None:
        """Wait for the run to end.

        :raises StreamingQueryException: the run's own query failed.
        :raises Exception: the run failed with another query or with the job; it is that failure.
        :raises StreamJobError: see `ScriptSide.await_run`.
        :raises SystemExit: see `ScriptSide.leave_if_stopped`.
        """
        ended = self._job.await_run(self._stage, milliseconds)
        if ended:
            self._job.leave_if_stopped(self._stage)
            self._raise_failure()
        return None if milliseconds is FOREVER else ended

    def processAllAvailable(self) -> None:
        self._stage.jsq.processAllAvailable()
        if self._job.stops and not in_callback():
            self._job.await_run(self._stage, FOREVER)
            self._job.leave_if_stopped(self._stage)

    def stop(self) -> None:
        self._job.script_stops(self._stage)

    def _raise_failure(self) -> None:
        if self._stage.failure is None:
            return
        if self._stage.failed_by_itself:
            self._stage.jsq.awaitTermination()  # raises Spark's own exception, as pyspark converts it
        raise self._stage.failure


class ManagedJvmManager:
    """The JVM's StreamingQueryManager of one session, with runs in place of Spark's queries.

    From StreamingQueryManager.scala: `awaitAnyTermination` returns when a query has ended since the session
    began or `resetTerminated` was called. If several have, the first one counts, unless a later one has
    failed.
    """

    def __init__(self, jsqm: Any, job: Job, same_session: Callable[[Stage], bool]) -> None:
        self._jsqm = jsqm
        self._job = job
        self._mine = same_session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jsqm, name)

    def active(self) -> list[Any]:
        return [self._managed(stage) for stage in self._job.runs() if self._is_active(stage)]

    def get(self, query_id: str) -> Any:
        for stage in self._job.runs():
            if self._is_active(stage) and stage.jsq.id().toString() == query_id:
                return self._managed(stage)
        return self._jsqm.get(query_id)

    def awaitAnyTermination(self, milliseconds: int | None = FOREVER) -> bool | None:
        """Wait for any run of the session to end.

        :raises Exception: as `ManagedJvmQuery.awaitTermination`.
        :raises SystemExit: as `ManagedJvmQuery.awaitTermination`.
        """
        stage = self._job.await_any(self._mine, milliseconds)
        if stage is not None:
            self._job.leave_if_stopped(stage)
            self._managed(stage)._raise_failure()
        return None if milliseconds is FOREVER else stage is not None

    def addListener(self, listener: Any) -> None:
        self._job.script_is_called_back()
        self._jsqm.addListener(listener)

    def resetTerminated(self) -> None:
        self._job.reset_terminated(self._mine)
        self._jsqm.resetTerminated()

    def _is_active(self, stage: Stage) -> bool:
        return self._mine(stage) and not stage.over.is_set()

    def _managed(self, stage: Stage) -> ManagedJvmQuery:
        return ManagedJvmQuery(stage, self._job)


def in_callback() -> bool:
    """Whether the JVM has called this thread's code: foreachBatch, a listener.

    In such a callback, a wait for the boundary would never end, because the batch that must reach it is the
    caller.
    """
    frame = sys._getframe().f_back
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("py4j."):
            return True
        frame = frame.f_back
    return False


class IdleJvmQuery:
    """Stands for the JVM's query where none is started, because no new data may be read.

    It answers like a query that has run no batch yet.
    """

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
        """Return at once: there is nothing to process."""

    def exception(self) -> Any:
        return _Nothing()

    def status(self) -> Any:
        return _Status()

    def explainInternal(self, extended: bool) -> str:
        return "This query reads nothing: it has ended, or its job is asked to end."


class _Text(str):
    """A string with the `toString` of a `java.util.UUID`."""

    def toString(self) -> str:
        return str(self)


class _Nothing:
    def isDefined(self) -> bool:
        return False


class _Status:
    def json(self) -> str:
        return '{"message":"No query runs","isDataAvailable":false,"isTriggerActive":false}'
