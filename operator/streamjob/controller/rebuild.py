"""An index that was deleted, or edited so that it cannot be read, is made anew from what the running driver knows. Pure.

The driver knows the checkpoint that it began with and those that it took, and can read the manifests of the job's savepoints.
Together that is enough if it reaches as far as the status says that the index did; anything less would turn the job back. An
index of a newer version, or of another job, is left untouched: nothing is wrong with it. Without a driver there is nobody to ask.
"""

from __future__ import annotations

from ..protocol import index as indices
from ..protocol.errors import FormatError, StreamJobError
from ..protocol.index import Index
from ..protocol.messages import DriverPhase, DriverStatus, Problem, RecordsRequest
from .actions import AskForRecords, WriteIndex
from .case import Case, Decision
from .status import fail, sentence

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
