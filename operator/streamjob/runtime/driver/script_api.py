"""What the script calls: it starts and stops queries, and waits for them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.engine import events as ev
from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_status import Problem
from ..query.run import Run
from ..spark.foreach_batch.function import running_batch_function
from .event_loop import Loop
from .requests import Requests
from .script.job_stopped import job_stopped
from .script.listeners import Listeners
from .script.managed_query import ManagedJvmQuery, in_callback
from .script.sessions import Sessions
from .script.waits import Waits
from .start.starter import Starter
from .start.unstarted import Unstarted

log = logging.getLogger("streamjob")


class QueryInForeachBatch(StreamJobError):
    reason = "QueryInForeachBatch"


class JobIsOver(StreamJobError):
    reason = "JobIsOver"


class Job(Protocol):
    """What the script's side needs of the job. `driver.Driver` implements it."""

    end_main_thread: Callable[[], None]

    @property
    def ending(self) -> bool: ...

    @property
    def failure(self) -> Problem | None: ...

    def ends_queries(self) -> bool: ...

    def all_queries_started(self) -> None: ...


class ScriptApi:
    """The job as its script sees it. Thread-safe. Implements `managed_query.Job`."""

    def __init__(
        self, job: Job, loop: Loop, requests: Requests, starter: Starter, unstarted: Unstarted, waits: Waits
    ) -> None:
        self._job = job
        self._loop = loop
        self._requests = requests
        self.runs = loop.runs
        self._starter = starter
        self._unstarted = unstarted
        self._waits = waits
        self.sessions = Sessions()
        self.listeners = Listeners(job.ends_queries)
        self.refused: StreamJobError | None = None  # why the first query that was refused has not started

    @property
    def stops(self) -> bool:
        return self._requests.stops

    # --- start and stop -------------------------------------------------------------------------------------

    def start_query(
        self,
        writer: DataStreamWriter,
        original: Callable[..., StreamingQuery],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> StreamingQuery:
        """Start the writer's query as a run of a stage of this job.

        :raises StreamJobError: the query is refused, or the state to start from cannot be restored.
        :raises SystemExit: the job has been stopped, or it drains and has finished the stage.
        """
        refuse_in_batch(
            "starts a query",
            "Use frame.sparkSession.read … .write in the function, or start the query beside this one",
        )
        if self.stops and self._loop.terminated.is_set():
            if in_callback():  # SystemExit would end py4j's thread, and the JVM would wait for its answer
                raise JobIsOver("the job has been stopped: no query starts any more")
            raise job_stopped()
        try:
            run = self._starter.start(writer, original, args, kwargs)
        except StreamJobError as e:
            self.refused = self.refused or e
            raise
        return StreamingQuery(ManagedJvmQuery(run, self))

    def script_is_called_back(self) -> None:
        """Note that Spark calls listeners of the script, which could start queries."""
        self._unstarted.calls_back = True

    def script_stops(self, *runs: Run) -> None:
        """The script ends queries: each ends as in a stop, unless the job's termination ends it otherwise.

        Returns when every run is over, as Spark's own stop() does. In a callback of the JVM, which may be
        part of the batch that has to commit first, it returns at once.
        """
        for run in runs:
            with self._loop.lock:
                if self.runs.get(run.task) is run and not run.over.is_set():
                    self._loop.take(ev.ScriptStopped(run.task))
        if not in_callback():
            self._waits.until(lambda: all(run.over.is_set() for run in runs), None)

    def spark_stops(self, really: Callable[[], None]) -> None:
        """The script calls spark.stop(): its queries first end at their boundaries.

        Queries that may still have to be flushed need the session. Its end is then put off until the script
        is over or makes another session.

        :param really: pyspark's own stop().
        """
        self.script_stops(*self.runs.active())
        if in_callback() or self.sessions.ending:
            really()
        elif self._loop.coordinator.may_flush:
            log.info("the Spark session ends when the script has: its queries may have to be flushed")
            self.sessions.put_off(really)
        else:
            self.sessions.end(really)

    def new_session(self) -> None:
        """The script is about to create or get a session: end the session whose end was put off.

        Queries that were to be flushed in that session are not flushed. They wait for another run or another
        epoch.
        """
        if self.sessions.put_off_is_pending and not in_callback():
            self._loop.take(ev.SessionEnded())
            for run in self.runs.all():
                run.lost_session = True
            self.sessions.end_put_off()

    # --- wait -----------------------------------------------------------------------------------------------

    def await_run(self, run: Run, milliseconds: int | None) -> bool:
        """Wait for a run.

        :param milliseconds: timeout, None to wait without one.
        :returns: whether the run is over.
        :raises StreamJobError: as `_script_waits`, if there is no timeout.
        """
        if milliseconds is None:
            self._script_waits([run], [run])
        return self._waits.until(run.over.is_set, milliseconds)

    def await_any(self, mine: Callable[[Run], bool], milliseconds: int | None) -> Run | None:
        """Wait for any run of a session, see `managed_query.ManagedJvmManager`.

        :param mine: selects the runs of the session.
        :param milliseconds: timeout, None to wait without one.
        :returns: a run that has ended since the last `reset_terminated`, None after the timeout.
        :raises StreamJobError: as `_script_waits`, if there is no timeout.
        """
        if milliseconds is None:
            active = self.runs.active()
            over = self._waits.terminated(mine)
            self._script_waits([s for s in active if mine(s)], [*active, *([over] if over else [])])
        self._waits.until(lambda: self._waits.terminated(mine) is not None, milliseconds)
        return self._waits.terminated(mine)

    def reset_terminated(self, mine: Callable[[Run], bool]) -> None:
        self._waits.reset(mine)

    def leave_if_stopped(self, run: Run) -> None:
        """End the script if its job was stopped.

        A stop is not the end of the data. What the script does after its wait must not run as if it were: it
        may delete the input.

        :raises SystemExit: the job was stopped, and this run with it.
        """
        if run.stopped_by_request and self.stops and not in_callback():
            log.info("stage %s was stopped with the job: its script ends here", run.task)
            if threading.current_thread() is not threading.main_thread():
                self._job.end_main_thread()  # first: it may wait for what this thread does on its way out
            raise job_stopped()

    def _script_waits(self, waited: list[Run], runs: list[Run]) -> None:
        """The script waits without a timeout: from now on it counts as having started all its queries.

        :param waited: the runs of which the script awaits one.
        :param runs: those whose end may let the script start others.
        :raises QueryInForeachBatch: a foreachBatch function waits: its batch would wait for a stop, which
            waits for the batch.
        :raises QueryNotStarted: the script has declared something for a query that it has not started.
        :raises StateNotKept: a state was declared after its query had started.
        :raises ShardMissing: a declared shard has not started.
        :raises NonRestoredState: the checkpoint has state of a stage that nothing can start any more.
        """
        refuse_in_batch("waits for a query", "Wait for it in the script's own threads, or with a timeout")
        if not self._job.ending and self._job.failure is None:
            self._unstarted.refuse_unknown()
            if not any(run.exhausts for run in runs):
                self._unstarted.refuse_missing(waited, for_good=not any(map(has_an_end, runs)))
        self._job.all_queries_started()


def has_an_end(run: Run) -> bool:
    """Whether a wait for the run ends without a request: its input has a declared end, or it has finished."""
    return run.finished or run.input_end.declared or run.over.is_set()


def refuse_in_batch(does: str, remedy: str) -> None:
    """Refuse what no foreachBatch function may do with a query.

    The batch fails even if its function catches the exception: what it does next would be half of it.

    :raises QueryInForeachBatch: this thread runs a batch.
    """
    function = running_batch_function()
    if function is None:
        return
    error = QueryInForeachBatch(
        f"a foreachBatch function {does}: a stop would wait for the batch, and the batch for the stop",
        remedy=remedy,
    )
    function.must_fail = function.failure = error
    raise error
