"""Stages of the restored checkpoint that the script no longer starts: their state would be left behind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ...protocol.formats.records import StageRecord
from ...protocol.messages.driver_status import Problem
from ...protocol.restore.recovery import NonRestoredState, spent
from ...storage.hadoop import HadoopFiles
from ..query import endpoints
from ..query.endpoints import RecordedEndpoints
from ..query.run import Run
from ..query.runs import Runs
from .restore_point import RestorePoints, as_exhausted, stage_of

REMEDY = (
    "Give the query the name that it had, or <allow-lost-state> and lose the state of the one that is gone"
)


@dataclass(frozen=True)
class Missing:
    """Stages of the restored checkpoint that the script has not started yet, by uid.

    :param live: those that had input left. A script that does not start them leaves their state behind.
    :param exhausted: those that had consumed their input and still have state, or read from one of these.
    """

    live: tuple[str, ...] = ()
    exhausted: tuple[str, ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        return self.live + self.exhausted


class MissingStages:
    """The stages of the restored checkpoint that the script has not started yet. Thread-safe.

    :param runs: the last run of each task.
    """

    def __init__(self, points: RestorePoints, runs: Runs[Run]) -> None:
        self._points = points
        self._runs = runs

    def uids(self, files: HadoopFiles) -> list[str]:
        """Uids of the missing stages that have not finished, or have something to commit.

        :raises StreamJobError: as `RestorePoints.checkpoint`.
        """
        started = {run.uid for run in self._runs.all()}
        latest = self._points.config.restore.latest
        done = {s.uid for s in latest.stages if s.finished and not s.holds_transactions} if latest else set()
        return [u for u in self._points.uids(files) if u not in started and u not in done]

    def left(self, files: HadoopFiles) -> Missing:
        """The missing stages that have something left. Empty if the job may leave it behind.

        :raises StreamJobError: as `sort_out`.
        """
        if self._points.config.restore.allow_non_restored_state:
            return Missing()
        return sort_out(files, self._points, self.uids(files))

    def left_out(self, files: HadoopFiles, missing: Collection[str], waited: Collection[Run]) -> list[str]:
        """Those of `missing` that the main thread will not start any more, see the function `left_out`."""
        record = self._points.checkpoint(files)
        gone = [s for uid in missing if (s := stage_of(record, uid)) is not None]
        return left_out(gone, waited, lambda uid: stage_of(record, uid))


def sort_out(files: HadoopFiles, points: RestorePoints, missing: Collection[str]) -> Missing:
    """Say what the missing stages have left.

    Those from which nothing more comes are left out (`recovery.spent`).

    :param missing: uids of unfinished stages that have not started.
    :raises StreamJobError: as `RestorePoints.checkpoint`.
    """
    record = points.checkpoint(files) if missing else None
    nothing_left = spent(record.stages) if record else set()
    live, exhausted = [], []
    for uid in missing:
        stage = stage_of(record, uid)
        if stage is None or not _is_exhausted(files, points, stage):
            live.append(uid)
        elif uid not in nothing_left:
            exhausted.append(uid)
    return Missing(tuple(live), tuple(exhausted))


def _is_exhausted(files: HadoopFiles, points: RestorePoints, stage: StageRecord) -> bool:
    return stage.exhausted and all(
        task.finished or as_exhausted(points.directory(files, stage.uid, task), task) for task in stage.tasks
    )


def refuse_renamed(
    files: HadoopFiles,
    points: RestorePoints,
    uid: str,
    ends: RecordedEndpoints | None,
    missing: Collection[str],
) -> None:
    """Refuse a new stage that looks like a renamed one: a missing one has its endpoints (`same_as`).

    :param uid: the stage that starts, for which the checkpoint has no state.
    :param ends: what it reads and writes, None if that is not known.
    :param missing: stages of the restored checkpoint that have not started yet in this epoch.
    :raises NonRestoredState: the stage is probably a missing one under another name, and would start from
        nothing.
    """
    if points.config.restore.allow_non_restored_state or ends is None:
        return
    for other in missing:
        point = points.of(files, other)
        tasks = point.record.tasks if point.record else ()
        before = [endpoints.noted(point.directory(task)) for task in tasks]
        if any(theirs is not None and theirs.same_as(ends) for theirs in before):
            raise NonRestoredState(
                f"the script starts query {uid!r}, which reads and writes what query {other!r} did, and the "
                f"checkpoint has state of {other!r} only: it would begin from nothing",
                remedy=f"{REMEDY}. If it is another query, let the script start it after {other!r}",
            )


def not_started(missing: Collection[str], started: Collection[str]) -> NonRestoredState:
    """The error for a script that waits without end and has not started the stages `missing`."""
    names = ", ".join(map(repr, missing))
    return NonRestoredState(
        f"the checkpoint has state of query {names}, which the script does not start; it has started "
        f"{', '.join(map(repr, started)) or 'none'}",
        remedy=REMEDY,
    )


def not_drained(missing: Collection[str]) -> NonRestoredState:
    """The error for a drain whose script has ended and has not started `missing`."""
    names = ", ".join(map(repr, missing))
    return NonRestoredState(
        f"the job is asked to drain, and the checkpoint has state of {names}, which the script has not "
        "started: what that holds would never be emitted",
        remedy="Let the script start it in a drain too, for instance outside of the batch that starts it, or "
        "<allow-lost-state> and lose the state",
    )


def left_out(
    missing: Collection[StageRecord], waited: Collection[Run], before: Callable[[str], StageRecord | None]
) -> list[str]:
    """Uids of the missing stages that the script's main thread will not start any more.

    The main thread waits without end. When it last started these stages, it had not waited for any of the
    runs that it awaits now (`StageRecord.beside`), so it will not start them after this wait either.

    :param waited: the runs of which the main thread awaits one.
    :param before: returns the restored checkpoint's record of a stage, None if there is none.
    """

    def together(gone: StageRecord, run: Run) -> bool:
        record = before(run.uid)
        later = record is not None and record.beside is not None and gone.uid in record.beside
        return later or (gone.beside is not None and run.uid in gone.beside)

    return [
        gone.uid
        for gone in missing
        if gone.beside is not None and waited and all(together(gone, run) for run in waited)
    ]


def warning(missing: Collection[str]) -> Problem:
    """The warning for stages that the script has not started but may still start."""
    names = ", ".join(map(repr, missing))
    return Problem(
        "StateWithoutStage",
        f"the script has not started {names}, of which the checkpoint has state; each checkpoint keeps it as "
        "it is",
        "Nothing has to be done if the script starts them later",
    )
