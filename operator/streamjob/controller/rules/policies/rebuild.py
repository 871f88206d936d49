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

from ....protocol import index as indices
from ....protocol.errors import FormatError, StreamJobError
from ....protocol.index import Index
from ....protocol.messages import DriverPhase, DriverStatus, Problem, RecordsRequest
from ...reports.messages import sentence
from ..actions import AskForRecords, WriteIndex
from ..context import Case, Decision, Goal
from ..status import fail

MENDED = ("IndexMissing", FormatError.reason)


def rebuild(c: Case) -> Decision | None:
    """The next step of the rebuild: ask the driver for its records, then write the index.

    :returns: None if there is nothing to rebuild, if no driver can answer or has answered yet, or if its
        records do not suffice.
    """
    problem, word, pod = c.o.index_problem, c.o.driver, c.o.pod
    if problem is None or problem.reason not in MENDED or word is None or pod is None or pod.over:
        return None
    if word.phase not in (DriverPhase.RUNNING, DriverPhase.TERMINATING) or word.epoch != c.s.epoch:
        return None
    reached = c.s.checkpoint.latest if c.s.checkpoint else 0
    if word.known is None or word.known.asked != reached:
        asked = RecordsRequest(c.s.epoch, reached)
        return None if asked.token in c.o.acknowledged else Decision(c.s, (AskForRecords(asked),))
    index = _index(c.o.job.metadata.uid, word)
    if index is None or index.latest is None or index.latest.checkpoint < reached:
        return None
    said = Problem(
        "IndexRebuilt",
        f"{problem.message}: it was made anew from {len(index.checkpoints)} checkpoints that the driver and the savepoints know",
        "Nothing has to be done; see who changes the ConfigMap, it is the operator's own",
    )
    s = fail(c.s, said, c.now)
    do = (WriteIndex(index, c.o.index_version),)
    return c.decide(c.phase, said.reason, sentence(said), do=do, status=s)


def may_begin(c: Case) -> bool:
    """Whether a driver is wanted and can start without the index, until it can be asked for its records."""
    problem, word, pod = c.o.index_problem, c.o.driver, c.o.pod
    if problem is None or problem.reason not in MENDED or recorded(c) is None:
        return False
    if c.goal is not Goal.RUN or c.o.job.deleting:
        return False
    return (
        pod is None
        or pod.over
        or word is None
        or word.problem is not None
        or word.phase is DriverPhase.STARTING
    )


def recorded(c: Case) -> str | None:
    """URI of the savepoint whose manifest has the newest checkpoint's record. None if the newest checkpoint
    is not a savepoint, or if the savepoint is drained.
    """
    checkpoint, savepoint = c.s.checkpoint, c.s.savepoint
    if checkpoint is None or savepoint is None or savepoint.drained:
        return None
    return savepoint.latest if savepoint.checkpoint == checkpoint.latest else None


def how_to_go_on(c: Case, problem: Problem) -> Problem:
    """The index problem, with the remedy that resumes the job if its newest checkpoint is a savepoint."""
    savepoint = recorded(c)
    if problem.reason not in MENDED or savepoint is None or c.o.pod is not None:
        return problem
    remedy = (
        f"Set spec.state to Running: the job goes on from {savepoint}, and its driver has the index made anew"
    )
    return replace(problem, remedy=remedy)


def _index(job_uid: str, word: DriverStatus) -> Index | None:
    """The index built from what the driver knows; None if the records contradict each other."""
    assert word.known is not None
    records = {r.checkpoint: r for r in (*word.known.records, *word.durable)}
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
