"""Stand-ins for the JVM's StreamingQuery and StreamingQueryManager, wrapped by pyspark's own classes.

So argument checks, conversions and types stay pyspark's. A script's query is active, and a wait for it lasts,
until its run is over. The end of a run may need several Spark queries one after another; the end of the first
does not count. Every way to call `stop` ends the run at a boundary.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from ...query.run import Run
from ...query.runs import Runs

FOREVER = None


class Job(Protocol):
    """What the stand-ins need of the job. `script_api.ScriptApi` implements it."""

    runs: Runs[Run]

    @property
    def stops(self) -> bool: ...

    def script_stops(self, *runs: Run) -> None: ...

    def script_is_called_back(self) -> None: ...

    def await_run(self, run: Run, milliseconds: int | None) -> bool: ...

    def await_any(self, mine: Callable[[Run], bool], milliseconds: int | None) -> Run | None: ...

    def reset_terminated(self, mine: Callable[[Run], bool]) -> None: ...

    def leave_if_stopped(self, run: Run) -> None: ...


class ManagedJvmQuery:
    """The JVM's StreamingQuery of one run, except for how it ends."""

    def __init__(self, run: Run, job: Job) -> None:
        self._run = run
        self._job = job

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run.jsq, name)

    def isActive(self) -> bool:
        return self._run.is_active

    def awaitTermination(self, milliseconds: int | None = FOREVER) -> bool | None:
        """Wait for the run to end.

        :raises StreamingQueryException: the run's own query failed.
        :raises Exception: the run failed with another query or with the job; it is that failure.
        :raises StreamJobError: see `ScriptApi.await_run`.
        :raises SystemExit: see `ScriptApi.leave_if_stopped`.
        """
        ended = self._job.await_run(self._run, milliseconds)
        if ended:
            self._job.leave_if_stopped(self._run)
            self._raise_failure()
        return None if milliseconds is FOREVER else ended

    def processAllAvailable(self) -> None:
        self._run.jsq.processAllAvailable()
        if self._job.stops and not in_callback():
            self._job.await_run(self._run, FOREVER)
            self._job.leave_if_stopped(self._run)

    def stop(self) -> None:
        self._job.script_stops(self._run)

    def _raise_failure(self) -> None:
        if self._run.failure is None:
            return
        if self._run.failed_by_itself:
            self._run.jsq.awaitTermination()  # raises Spark's own exception, as pyspark converts it
        raise self._run.failure


class ManagedJvmManager:
    """The JVM's StreamingQueryManager of one session, with runs in place of Spark's queries.

    From StreamingQueryManager.scala: `awaitAnyTermination` returns when a query has ended since the session
    began or `resetTerminated` was called. If several have, the first one counts, unless a later one has
    failed.
    """

    def __init__(self, jsqm: Any, job: Job, same_session: Callable[[Run], bool]) -> None:
        self._jsqm = jsqm
        self._job = job
        self._mine = same_session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jsqm, name)

    def active(self) -> list[Any]:
        return [self._managed(run) for run in self._job.runs.active() if self._mine(run)]

    def get(self, query_id: str) -> Any:
        for run in self._job.runs.active():
            if self._mine(run) and run.jsq.id().toString() == query_id:
                return self._managed(run)
        return self._jsqm.get(query_id)

    def awaitAnyTermination(self, milliseconds: int | None = FOREVER) -> bool | None:
        """Wait for any run of the session to end.

        :raises Exception: as `ManagedJvmQuery.awaitTermination`.
        :raises SystemExit: as `ManagedJvmQuery.awaitTermination`.
        """
        run = self._job.await_any(self._mine, milliseconds)
        if run is not None:
            self._job.leave_if_stopped(run)
            self._managed(run)._raise_failure()
        return None if milliseconds is FOREVER else run is not None

    def addListener(self, listener: Any) -> None:
        self._job.script_is_called_back()
        self._jsqm.addListener(listener)

    def resetTerminated(self) -> None:
        self._job.reset_terminated(self._mine)
        self._jsqm.resetTerminated()

    def _managed(self, run: Run) -> ManagedJvmQuery:
        return ManagedJvmQuery(run, self._job)


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

    def __init__(self, query_id: str, name: str | None, process: Callable[[], None] = lambda: None) -> None:
        self._id = query_id
        self._name = name
        self.processAllAvailable = process  # by default there is nothing to process

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
