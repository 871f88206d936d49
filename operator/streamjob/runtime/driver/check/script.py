"""A script that is only checked: each query that it starts is judged, and none runs (ADR 65)."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ....job import ONLY_QUERY
from ....jvm.errors import one_line
from ....protocol.engine import events as ev
from ....protocol.errors import StreamJobError
from ....protocol.formats import codec
from ....protocol.messages.check_report import Outcome, Report, Verdict
from ....protocol.messages.driver_status import Problem
from ....protocol.restore.recovery import NonRestoredState
from ...query import endpoints
from ...query.bounded_input import InputEnd
from ...query.run import Run
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.handles import analyzed_plan, query_manager
from ...spark.stream_writer import written
from ...spark.versions.table import line, order
from ...startup.admission import CHECK
from ...startup.missing_stages import sort_out, warning
from ...startup.query_start import QueryStart
from ..script.managed_query import IdleJvmQuery, ManagedJvmQuery
from ..script_api import ScriptApi, has_an_end
from ..start.starter import run_of
from .start import CheckedStart

BATCH_WAIT = 10.0  # seconds that a refusal waits for the running job's batch, which may be its cause
POLL_SECONDS = 0.1
SPARK_CHECKS = "spark.sql.streaming.unsupportedOperationCheck"
RAISED = (StreamJobError, PySparkException, Py4JError)  # by a rule, or by Spark


class NotChecked(StreamJobError):
    """Nobody knows whether the script goes on: it did not come to where that shows."""

    reason = "NotChecked"


class CheckedScript(ScriptApi):
    """The job as the script of a check sees it. No event of a query reaches the engine, so nothing is carried
    out.
    """

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._starter.judge = self._judge
        self._one = threading.RLock()  # one query after the other
        self._verdicts: list[Verdict] = []
        self._waited: tuple[list[Run], list[Run]] | None = None
        self.last_start: float | None = None  # on the clock of time.monotonic(); None: no query yet
        # The main thread waits for queries without a timeout: it has started all of them. Does not return.
        self.all_started: Callable[[], object] = lambda: None

    def start_query(
        self,
        writer: DataStreamWriter,
        original: Callable[..., StreamingQuery],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> StreamingQuery:
        """Judge the query. Whatever is found, the script gets one that has run no batch, and goes on."""
        with self._one:
            run: Any = SimpleNamespace(over=threading.Event(), is_active=True, exhausts=False)
            try:
                run = self._starter.start(writer, original, args, kwargs)
            except RAISED as e:  # it cannot be told from another one, or wants the same as another one
                said = written(writer, original, args, kwargs)
                name = said.name or said.location or ONLY_QUERY
                self._verdicts.append(Verdict(name, Outcome.REFUSED, problem=_problem(e)))
            self.last_start = time.monotonic()
            run.jsq = IdleJvmQuery(str(uuid.uuid4()), None, lambda: self._script_waits([run], [run]))
            return StreamingQuery(ManagedJvmQuery(run, self))

    def _judge(self, start: QueryStart) -> Run:
        """Judge a query; again if it was refused in the middle of a batch: the job may run beside this
        check.
        """
        late = time.monotonic() + BATCH_WAIT
        while True:
            with tempfile.TemporaryDirectory(prefix="streamjob-check-") as scratch:
                checked = CheckedStart.of(start, f"file:{scratch}/checkpoint")
                before = _position(checked)
                run, verdict = _judged(checked)
            changes = before != _position(checked) or before[0] != before[1]
            if verdict.outcome is not Outcome.REFUSED or not changes or time.monotonic() > late:
                break
            time.sleep(POLL_SECONDS)
        if verdict.outcome is Outcome.REFUSED or start.before is None:
            self._verdicts.append(verdict)
        self.runs[run.task] = run
        with suppress(StreamJobError):  # it has been looked for circles before
            self._loop.coordinator.handle(ev.TaskStarted(run.task, start.upstream))
        return run

    def script_stops(self, *runs: Run) -> None:
        for run in runs:
            run.over.set()

    def _script_waits(self, waited: list[Run], runs: list[Run]) -> None:
        if threading.current_thread() is threading.main_thread():
            self._waited = waited, runs
            self.all_started()
        threading.Event().wait()  # no query ends

    def report(self, report: Report) -> Report:
        """
        :param report: what is known of the script besides.
        :returns: the same, with all queries.
        """
        engine, points = self._starter.engines.any(), self._starter.points
        if engine is None:
            return report
        verdicts, named = list(self._verdicts), {verdict.query for verdict in self._verdicts}
        refused, unknown, lost = report.refused, report.unknown, None
        waited, runs = self._waited or ([], [])
        try:
            missing = sort_out(engine.files, points, set(self._starter.missing.uids(engine.files)) - named)
            if waited and not any(run.exhausts for run in runs):
                self._unstarted.refuse_unknown()
                self._unstarted.refuse_missing(waited, for_good=not any(map(has_an_end, runs)))
        except NonRestoredState as e:
            lost = Problem.of(e)
        except StreamJobError as e:
            refused = refused or Problem.of(e)
        allowed = points.config.restore.allow_non_restored_state
        for uid in missing.stages:
            if allowed or lost is not None:
                verdicts.append(Verdict(uid, Outcome.MISSING, problem=lost))
            else:
                verdicts.append(Verdict(uid, Outcome.NOT_STARTED, warnings=(warning([uid]),)))
        if missing.stages and waited and lost is None and not allowed:
            text = (
                "the script waits for queries that may end, and what it starts afterwards was not looked at"
            )
            remedy = "Start all queries before the first wait, or read the script"
            unknown = unknown or Problem.of(NotChecked(text, remedy=remedy))
        version = engine.files.spark.version
        back = tuple(_no_way_back(verdicts, version))
        return replace(
            report,
            verdicts=tuple(verdicts),
            spark=version,
            refused=refused,
            unknown=unknown,
            no_way_back=back,
        )


def _judged(start: CheckedStart) -> tuple[Run, Verdict]:
    try:
        for rule in CHECK:
            rule(start)
        _refuse_by_spark(start)
        run = run_of(start)
        run.directory = start.place
        noted = endpoints.noted(start.directory)
        verdict = Verdict(
            start.name.name,
            _outcome(start),
            start.directory.latest_commit(),
            warnings=tuple(start.warnings),
            wrote=noted.spark if noted is not None else None,
        )
    except RAISED as e:
        run, verdict = _refused(start), Verdict(start.name.name, Outcome.REFUSED, problem=_problem(e))
    if start.scratch in (text := codec.dumps(verdict)):  # nobody knows the copy
        verdict = codec.loads(Verdict, text.replace(start.scratch, start.origin))
    return run, verdict


def _refused(start: QueryStart) -> Run:
    """The run of a query that was refused: for the script, and for the queries beside it."""
    said = start.written
    directory = CheckpointDir(start.files, said.location or f"none:/{start.task}")
    return Run(
        start.name,
        start.engine,
        directory,
        start.restart,
        InputEnd(said.name, directory),
        ends=start.shown,
        definition=start.definition,
        unnamed=start.definition if said.name is None else None,
        exhausts=said.exhausts,
        manager=query_manager(start.writer),
    )


def _outcome(start: CheckedStart) -> Outcome:
    if start.finished or start.drained:
        return Outcome.FINISHED
    return Outcome.NEW if start.directory.latest_offset() is None else Outcome.CONTINUES


def _refuse_by_spark(start: QueryStart) -> None:
    """What Spark refuses in its own start, which a check does not reach.

    :raises PySparkException: as `Internals.refuse_unsupported`; or a file sink does not have the output mode.
    """
    mode = start.written.mode or "append"
    if start.files.spark.conf.get(SPARK_CHECKS, "true") == "true":
        start.engine.internals.refuse_unsupported(analyzed_plan(start.writer), mode)
    if start.folder is not None and mode.lower() != "append":
        raise AnalysisException(f"Data source {start.written.format} does not support {mode} output mode")


def _no_way_back(verdicts: list[Verdict], now: str) -> Iterator[str]:
    for verdict in verdicts:
        name, wrote = repr(verdict.query), verdict.wrote or now
        if verdict.outcome is Outcome.NEW:
            yield f"{name} is new, and a script without it is refused (StateWithoutStage)"
        if verdict.outcome is Outcome.MISSING and verdict.problem is None:
            yield f"the state of {name} is lost"
        if order(line(wrote)) < order(line(now)):
            yield f"Spark {line(wrote)} ran {name}, and need not read what Spark {line(now)} will write"
        if any(warned.reason == "SourcesChanged" for warned in verdict.warnings):
            yield f"the sources of {name} change, and the positions of those that are gone are forgotten"


def _problem(error: Exception) -> Problem:
    return Problem.of(error) if isinstance(error, StreamJobError) else Problem("QueryFailed", one_line(error))


def _position(start: QueryStart) -> tuple[int | None, int | None]:
    """How far its query has come, if there is one and that can be read."""
    with suppress(*RAISED):
        return start.place.latest_offset(), start.place.latest_commit()
    return None, None
