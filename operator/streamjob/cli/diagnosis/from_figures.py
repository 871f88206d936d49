"""Findings from figures: lag, batches that hang, checkpoints that are old, executors that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..printing.times import amount, moment, seconds, size, span
from ..views.job import Stage
from ..views.progress import Mover
from .facts import Evidence, Facts, Finding, Severity

LATE = 600.0  # seconds of lag, as the alert StreamJobBehind has it
SILENT = 1800.0  # seconds without a commit, as the alert StreamJobNoCommit
INTERVALS = 3  # without a checkpoint, as the alert StreamJobCheckpointOld


def lag(f: Facts) -> Iterator[Finding]:
    """A query is behind, and by what its batches take their time."""
    for stage in f.job.stages if f.job.phase == "Running" else ():
        behind = stage.lag_seconds
        if behind is None or behind < LATE:
            continue
        evidence = [
            Evidence(
                f"stage {stage.uid}, source {s.uid}",
                _left(s.lag_rows, s.lag_files, s.lag_bytes, s.lag_seconds),
            )
            for s in stage.sources
            if s.lag_seconds
        ]
        evidence += _durations(stage)
        yield Finding(
            Severity.WARNING,
            "Behind",
            f"The query {stage.uid} is {span(behind)} behind its input.",
            tuple(evidence),
            _faster(stage, f.job.spec.get("executor") or {}),
            Mover.YOU,
        )


def hangs(f: Facts) -> Iterator[Finding]:
    """A query has input and commits nothing."""
    for stage in f.job.stages if f.job.phase == "Running" else ():
        if stage.last_commit is None or not stage.lag_seconds:
            continue
        silent = (f.at - stage.last_commit).total_seconds()
        if silent < max(SILENT, 10 * (stage.batch_seconds or 0)):
            continue
        yield Finding(
            Severity.ERROR,
            "NoCommit",
            f"The query {stage.uid} has input and has committed nothing for {span(silent)}: its batch is "
            "very long, "
            "or hangs.",
            (Evidence(f"stage {stage.uid}", f"batch {stage.batch} was the last"), *_durations(stage)),
            f"See Spark's UI ({_ui(f)}) for the task that runs, and the driver's log.",
            Mover.JOB,
        )


def _ui(f: Facts) -> str:
    return "http://localhost:4040" if f.local else "`kubectl port-forward` to the driver, port 4040"


def old_checkpoint(f: Facts) -> Iterator[Finding]:
    interval = seconds((f.job.spec.get("checkpoint") or {}).get("interval"))
    done, began = (
        moment(f.job.part("checkpoint").get("completedAt")),
        moment(f.job.part("driver").get("startedAt")),
    )
    if not interval or f.job.phase != "Running" or began is None:
        return
    since = max(done, began) if done else began
    age = (f.at - since).total_seconds()
    if age > INTERVALS * interval:
        yield Finding(
            Severity.WARNING,
            "CheckpointOld",
            f"The running job has had no checkpoint for {span(age)}; there should be one every "
            f"{span(interval)}.",
            (Evidence("status.checkpoint", f"{f.job.part('checkpoint').get('latest') or 'none'}"),),
            "See status.abortedCheckpoint and the driver's log; a batch that takes longer than the "
            "interval holds "
            "a checkpoint up.",
            Mover.YOU,
        )


def grace(f: Facts) -> Iterator[Finding]:
    """An eviction would not leave enough time for the batch that runs."""
    given = seconds((f.job.spec.get("termination") or {}).get("gracePeriod") or "60s")
    longest = max((s.batch_seconds for s in f.job.stages if s.batch_seconds), default=0.0)
    if given is None or f.local or f.job.phase != "Running" or longest <= given:
        return
    yield Finding(
        Severity.WARNING,
        "GracePeriodShort",
        f"A batch takes {span(longest)}, and an eviction leaves {span(given)}: the driver would be killed "
        "before it "
        "has written a savepoint. Nothing would be lost; the batch would run again.",
        (Evidence("spec.termination.gracePeriod", span(given)),),
        "Raise spec.termination.gracePeriod above the time of the longest batch and a savepoint.",
        Mover.YOU,
    )


def executors(f: Facts) -> Iterator[Finding]:
    found = f.job.part("executors")
    missing = found.get("wanted", 0) - found.get("running", 0)
    if missing <= 0 or not f.runs:
        return
    none = not found.get("running")
    waits = ": the stop waits for its batch" if f.job.phase in ("Stopping", "Draining") else ""
    effect = f"no batch can run{waits}" if none else "the job runs with the others"
    pending = [p for p in f.pods if p.role == "executor" and p.phase == "Pending"]
    evidence = [
        Evidence("status.executors", f"{found.get('running')} of {found.get('wanted')} are connected")
    ]
    evidence += [
        Evidence(f"pod {p.name}", p.unschedulable or (": ".join(p.waiting) if p.waiting else "Pending"))
        for p in pending[:3]
    ]
    no_node = any(p.unschedulable for p in pending)
    yield Finding(
        Severity.ERROR if none else Severity.WARNING,
        "ExecutorsMissing",
        f"{missing} of {found.get('wanted')} executors are missing; {effect}.",
        tuple(evidence),
        "Lower spec.executor.cores or memory, add nodes, or ask for fewer instances."
        if no_node
        else "See the executors' pods: kubectl get pods -l streamjob.dev/job="
        f"{f.job.name},spark-role=executor",
        Mover.KUBERNETES if no_node else Mover.YOU,
    )


def _durations(stage: Stage) -> list[Evidence]:
    if stage.batch_seconds is None:
        return []
    parts = sorted(stage.parts_of_batch.items(), key=lambda part: -part[1])[:3]
    shown = ", ".join(f"{name} {span(value)}" for name, value in parts)
    return [
        Evidence(
            f"stage {stage.uid}, last batch", f"{span(stage.batch_seconds)}" + (f": {shown}" if shown else "")
        )
    ]


def _left(rows: int | None, files: int | None, size_: int | None, age: float | None) -> str:
    parts = [
        f"{amount(rows)} rows" if rows is not None else "",
        f"{amount(files)} files" if files is not None else "",
        size(size_),
        f"the oldest from {span(age)} ago" if age else "",
    ]
    return "left: " + ", ".join(part for part in parts if part)


def _faster(stage: Stage, executor: Mapping[str, Any]) -> str:
    incoming, done = stage.rows_per_second, stage.processed_per_second
    if incoming and done and done > 1.2 * incoming:
        return f"It catches up: it processes {amount(done)} rows/s, and {amount(incoming)} arrive."
    parts = stage.parts_of_batch
    slow = max(parts, key=lambda name: parts[name]) if parts else ""
    if slow == "latestOffset":
        return "Most of the time goes into listing the source: fewer files per folder, or a longer trigger."
    if slow in ("walCommit", "commitOffsets", "commitBatch"):
        return "Most of the time goes into Spark's checkpoint files: see the storage of the checkpoints."
    return f"{_room(executor)}, or slow the input down. Spark's UI shows what a batch takes its time for."


def _room(executor: Mapping[str, Any]) -> str:
    """Where the batches get more cores."""
    for way in ("dynamicAllocation", "autoscale"):
        if executor.get(way):
            return f"Let it have more executors (spec.executor.{way}.max takes effect without a restart)"
    if executor.get("instances"):
        return "Give it more executors (spec.executor.instances takes effect without a restart)"
    return (
        "Everything runs in the driver: give that more cores (spec.driver.cores, which needs a new driver; "
        "of a local job, spark.master)"
    )
