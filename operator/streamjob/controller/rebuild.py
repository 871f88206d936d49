"""An index that was deleted, or edited so that it cannot be read, is made anew from what a driver knows. Pure.

The driver knows the checkpoint that it began with and those that it took, and can read the manifests of the job's savepoints.
Together that is enough if it reaches as far as the status says that the index did; anything less would turn the job back. An
index of a newer version, or of another job, is left untouched: nothing is wrong with it.

Where no driver runs, one that is wanted anyway begins without the index, if the newest checkpoint is a savepoint (as after each
stop): the status says where that is, its manifest has the record, and the driver that goes by it is then asked as any other. Is
the newest one no savepoint, its record is lost with the index, and nothing begins: older flags and transactions would be wrong.
"""

from __future__ import annotations

from dataclasses import replace

from ..protocol import index as indices
from ..protocol.errors import FormatError, StreamJobError
from ..protocol.index import Index
from ..protocol.messages import DriverPhase, DriverStatus, Problem, RecordsRequest
from .actions import AskForRecords, WriteIndex
from .case import Case, Decision, Goal
from .status import fail
from .words import sentence

MENDED = ("IndexMissing", FormatError.reason)


def rebuild(c: Case) -> Decision | None:
    """The next step; None if it cannot be made anew."""
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
    """A driver is wanted, and can do without the index until it is asked what it knows."""
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
    """The savepoint whose manifest has the newest checkpoint; None if it is none, or an end."""
    checkpoint, savepoint = c.s.checkpoint, c.s.savepoint
    if checkpoint is None or savepoint is None or savepoint.drained:
        return None
    return savepoint.latest if savepoint.checkpoint == checkpoint.latest else None


def how_to_go_on(c: Case, problem: Problem) -> Problem:
    """What is wrong with the index, and the way that is open."""
    savepoint = recorded(c)
    if problem.reason not in MENDED or savepoint is None or c.o.pod is not None:
        return problem
    remedy = (
        f"Set spec.state to Running: the job goes on from {savepoint}, and its driver has the index made anew"
    )
    return replace(problem, remedy=remedy)


def _index(job_uid: str, word: DriverStatus) -> Index | None:
    """None if what it knows does not fit together."""
    assert word.known is not None
    records = {r.checkpoint: r for r in (*word.known.records, *word.durable)}
    newest = max(records, default=0)
    index = indices.empty(job_uid)
    try:
        for number in sorted(records):
            # Only of the newest may something still be to be committed.
            record = records[number] if number == newest else records[number].committed
            index = indices.add(index, record)
    except (StreamJobError, ValueError):
        return None
    return index
