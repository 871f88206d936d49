"""Rebuilds an index that was deleted, or edited so that it is unreadable, from what a driver knows. Pure.

The driver knows the checkpoint that it started from and those that it took, and can read the manifests of the
job's savepoints. Together these suffice if they reach the checkpoint that the status last saw in the index;
anything less would set the job back. An index of a newer version or of another job is left untouched: nothing
is wrong with it.

If no driver runs but one is wanted, it starts without the index, provided that the newest checkpoint is a
savepoint (as after each stop): the status has its location, its manifest has the record, and the driver that
starts from it is then asked like any other. If the newest checkpoint is not a savepoint, its record is lost
with the index and no driver starts: older finished flags and transactions would be wrong.
"""

from __future__ import annotations

from dataclasses import replace

from ....protocol.errors import FormatError, StreamJobError
from ....protocol.formats import index as indices
from ....protocol.formats.index import Index
from ....protocol.messages.commands import RecordsRequest
from ....protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from ...reports.messages import sentence
from ..actions import AskForRecords, WriteIndex
from ..context import Context, Decision, DesiredState
from ..observed import BEFORE_GATE
from ..status import fail

MENDED = ("IndexMissing", FormatError.reason)


def rebuild(c: Context) -> Decision | None:
    """The next step of the rebuild: ask the driver for its records, then write the index.

    :returns: None if there is nothing to rebuild, if no driver can answer or has answered yet, or if its
        records do not suffice.
    """
    problem, driver, pod = c.observed.index_problem, c.observed.driver, c.observed.pod
    if problem is None or problem.reason not in MENDED or driver is None or pod is None or pod.terminated:
        return None
    if driver.phase not in (DriverPhase.RUNNING, DriverPhase.TERMINATING) or driver.epoch != c.status.epoch:
        return None
    reached = c.status.checkpoint.latest if c.status.checkpoint else 0
    if driver.known is None or driver.known.reached != reached:
        asked = RecordsRequest(c.status.epoch, reached)
        return None if asked.token in c.observed.acknowledged else Decision(c.status, (AskForRecords(asked),))
    index = _index(c.observed.job.metadata.uid, driver)
    if index is None or index.latest is None or index.latest.checkpoint < reached:
        return None
    rebuilt = Problem(
        "IndexRebuilt",
        f"{problem.message}: it was rebuilt from {len(index.checkpoints)} checkpoints that the driver and "
        "the savepoints know",
        "Nothing has to be done; see who changes the ConfigMap, it is the operator's own",
    )
    s = fail(c.status, rebuilt, c.now)
    do = (WriteIndex(index, c.observed.index_version),)
    return c.decide(c.phase, rebuilt.reason, sentence(rebuilt), do=do, status=s)


def may_begin(c: Context) -> bool:
    """Whether a driver is wanted and can start without the index, until it can be asked for its records."""
    problem, driver, pod = c.observed.index_problem, c.observed.driver, c.observed.pod
    if problem is None or problem.reason not in MENDED or recorded(c) is None:
        return False
    if c.desired is not DesiredState.RUN or c.observed.job.deleting:
        return False
    return (
        pod is None
        or pod.terminated
        or driver is None
        or driver.problem is not None
        or driver.phase in BEFORE_GATE
    )


def recorded(c: Context) -> str | None:
    """URI of the savepoint whose manifest has the newest checkpoint's record. None if the newest checkpoint
    is not a savepoint, or if the savepoint is drained.
    """
    checkpoint, savepoint = c.status.checkpoint, c.status.savepoint
    if checkpoint is None or savepoint is None or savepoint.drained:
        return None
    return savepoint.latest if savepoint.checkpoint == checkpoint.latest else None


def how_to_go_on(c: Context, problem: Problem) -> Problem:
    """The index problem, with the remedy that resumes the job if its newest checkpoint is a savepoint."""
    savepoint = recorded(c)
    if problem.reason not in MENDED or savepoint is None or c.pods:
        return problem
    remedy = (
        f"Set spec.state to Running: the job continues from {savepoint}, and its driver rebuilds the index"
    )
    return replace(problem, remedy=remedy)


def _index(job_uid: str, report: DriverStatus) -> Index | None:
    """The index built from what the driver knows; None if the records contradict each other."""
    assert report.known is not None
    records = {r.checkpoint: r for r in (*report.known.records, *report.durable)}
    newest = max(records, default=0)
    index = indices.empty(job_uid)
    try:
        for number in sorted(records):
            # Only the newest checkpoint may still have transactions to commit.
            record = records[number] if number == newest else records[number].committed
            index = indices.add(index, record)
    except (StreamJobError, ValueError):
        return None
    return index
