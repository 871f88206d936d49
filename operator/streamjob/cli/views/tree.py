"""A job as a tree: epochs, stages, tasks, operators, and what needs attention. And jobs as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..printing.text import BAD, BUSY, DIM, GOOD, STRONG, WARN, Line, Node, Span, Table, line
from ..printing.times import ago, amount, moment, size, span, until
from .job import ENDING, Job, Problem, Source, Stage, said_of

if TYPE_CHECKING:
    from .checkpoints import Checkpoint, Index

COLUMNS = (
    "NAME",
    "READY",
    "STATE",
    "PHASE",
    "RESTARTS",
    "EPOCH",
    "CHECKPOINT",
    "LAG",
    "ROWS/S",
    "AGE",
    "MESSAGE",
)
NUMBERS = frozenset({"RESTARTS", "EPOCH", "LAG", "ROWS/S"})
PHASES = {
    "Running": GOOD,
    "Stopped": GOOD,
    "Drained": GOOD,
    "Finished": GOOD,
    "Waiting": DIM,
    "Suspended": DIM,
    "Cancelled": WARN,
    "Failed": BAD,
    "Restarting": WARN,
}
TASKS = {
    "Running": GOOD,
    "WaitingForFinalCheckpoint": BUSY,
    "Finished": GOOD,
    "Closed": DIM,
    "Failed": BAD,
    "Canceled": WARN,
}
OLD_EPOCHS = 5  # as many earlier epochs are shown


def table(jobs: Iterable[Job], at: datetime, *, all_namespaces: bool) -> Table:
    """Many jobs, one line each."""
    rows = [_row(job, at, all_namespaces) for job in jobs]
    return Table(("NAMESPACE", *COLUMNS) if all_namespaces else COLUMNS, rows, NUMBERS)


def _row(job: Job, at: datetime, all_namespaces: bool) -> list[Line]:
    ready, why = job.conditions.get("Ready"), job.reason
    answer = "Unknown" if ready is None or not job.seen else ready.status
    stages = job.stages if job.runs else ()
    rates = [s.rows_per_second for s in stages if s.rows_per_second is not None]
    lags = [s.lag_seconds for s in stages if s.lag_seconds is not None]
    checkpoint = moment(job.part("checkpoint").get("completedAt"))
    says = "" if job.ready or why is None else f"{why.reason}: {why.message}".splitlines()[0][:80]
    due = moment(job.part("rounds").get("next"))
    if job.phase == "Waiting" and due is not None:
        says = says or f"next round in {until(due, at)}"
    return [
        *([line(job.namespace)] if all_namespaces else []),
        line(Span(job.name, STRONG)),
        line(Span(answer, GOOD if answer == "True" else BAD if job.is_true("Stalled") else WARN)),
        line(job.wanted),
        line(phase(job)),
        line(str(job.part("restarts").get("count") or 0)),
        line(str(job.epoch)),
        line(ago(checkpoint, at) or "-"),
        line(span(max(lags)) if lags else "-"),
        line(amount(sum(rates)) if rates else "-"),
        line(span(at - job.created) if job.created else ""),
        line(says),
    ]


def phase(job: Job) -> Span:
    if job.deleting:
        return Span(f"{job.phase} (being deleted)", WARN)
    if job.failures:
        return Span(job.phase, BAD if job.crash_loops else WARN)
    return Span(job.phase, PHASES.get(job.phase, BUSY))


def tree(job: Job, index: Index, at: datetime) -> Node:
    """One job."""
    root = Node(line(Span(job.name, STRONG), Span(f"in {job.namespace}", DIM), phase(job), _ready(job)))
    for problem in _attention(job, at):
        root.children.append(problem)
    if not job.seen:
        root.add(Span("the operator has not seen the newest spec yet", WARN))
    root.add(Span("wanted", DIM), job.wanted, *_image(job))
    if job.phase in ENDING or (job.part("termination") and job.phase == "Running"):
        _termination(root, job, at)
    _request(root, job, at)
    if job.epoch:
        _epoch(root, job, index, at)
    _earlier(root, job, index, at)
    _rounds(root, job, at)
    _savepoint(root, job, at)
    return root


def _image(job: Job) -> tuple[Span | str, ...]:
    back = job.part("upgrade").get("step") == "RolledBack"
    if job.runs_image is None:
        return Span("image", DIM), job.image
    text = f"the spec asks for {job.image}" + (", rolled back" if back else "")
    return Span("runs image" if job.runs else "image", DIM), job.runs_image, Span(text, WARN)


def _ready(job: Job) -> Span:
    if job.ready:
        return Span("ready", GOOD)
    if job.is_true("Stalled"):
        return Span("needs a person", BAD)
    if job.failures:
        return Span(f"not ready, {job.failures} failures in a row" if job.crash_loops else "not ready", WARN)
    return Span("not ready", WARN)


def _attention(job: Job, at: datetime) -> Iterator[Node]:
    for kind in ("Stalled", "Degraded"):
        if job.is_true(kind):
            found = job.conditions[kind]
            yield Node(
                line(Span(f"{kind}: {found.reason}", BAD)),
                [Node(line(text)) for text in _wrapped(found.message)],
            )
    ui = job.conditions.get("UIAvailable")
    if ui is not None and ui.status == "False":
        yield Node(line(Span(f"Spark's UI: {ui.reason}", WARN)), [Node(line(ui.message))])
    for warning in job.warnings:
        yield Node(
            line(Span(f"warning: {warning.reason}", WARN)), [Node(line(t)) for t in _wrapped(warning.message)]
        )
    error = job.failed_before if job.is_true("Stalled") else job.open_error
    if error is not None and not job.ready:
        yield _problem(f"last error {ago(error.time, at)}".rstrip(), error)


def _problem(what: str, problem: Problem) -> Node:
    node = Node(line(Span(f"{what}: {problem.reason}", WARN)))
    for text in _wrapped(problem.message):
        node.add(text)
    if problem.remedy:
        node.add(Span("remedy:", DIM), problem.remedy)
    return node


def _wrapped(text: str) -> list[str]:
    return [part for part in text.splitlines() if part.strip()] or [""]


def _termination(root: Node, job: Job, at: datetime) -> None:
    t = job.part("termination")
    if t.get("finalCheckpoint") is not None and job.phase == "Running":
        return
    deadline = moment(t.get("deadline"))
    left = None if deadline is None else (deadline - at).total_seconds()
    node = root.add(
        Span(t.get("mode") or job.phase, BUSY),
        said_of(t.get("step")),
        None
        if left is None
        else Span(f"{span(left)} left" if left > 0 else f"late by {span(-left)}", DIM if left > 0 else BAD),
    )
    if t.get("progress"):
        node.add(t["progress"])
    if t.get("flushedRows") is not None:
        node.add(f"{amount(t['flushedRows'])} rows flushed by timers")


def _request(root: Node, job: Job, at: datetime) -> None:
    request = job.part("savepointRequest")
    if request.get("failure"):
        root.add(Span(f"savepoint {request.get('requestId')} was aborted:", WARN), request["failure"])
    elif request and request.get("checkpoint") is None:
        asked = moment(request.get("requestedAt"))
        root.add(
            Span(f"savepoint {request.get('requestId')}", BUSY),
            request.get("progress") or "waits",
            Span(f"asked for {ago(asked, at)}", DIM),
        )
    upgrade = job.part("upgrade")
    if upgrade and upgrade.get("step") != "Completed":
        style = BAD if upgrade.get("step") == "RolledBack" else BUSY
        root.add(
            Span(f"upgrade: {upgrade.get('step')}", style),
            Span(f"generation {upgrade.get('generation')}", DIM),
            job.standby,
            _rolls_back(job, at),
        )


def _rolls_back(job: Job, at: datetime) -> Span | None:
    back = job.rolls_back_at
    if back is not None and job.part("upgrade").get("step") == "Preparing":
        return Span(f"given up in {until(back, at)}; the running driver stays", DIM)
    if back is None or job.phase == "Running":
        return None
    return Span(f"back to the previous specification in {until(back, at)}", DIM)


def _autoscale(found: Mapping[str, Any]) -> Span | None:
    if not found:
        return None
    limited = f", limited by {found['limitedBy']}" if found.get("limitedBy") else ""
    later = f", soon {found['next']}" if found.get("next") else ""
    return Span(f"autoscale to {found.get('desired')}{later}{limited}", DIM)


def _epoch(root: Node, job: Job, index: Index, at: datetime) -> None:
    driver, executors = job.part("driver"), job.part("executors")
    since = moment(driver.get("startedAt"))
    node = root.add(
        Span(f"epoch {job.epoch}", STRONG),
        f"driver {driver['pod']} {driver.get('phase') or 'is being created'}"
        if driver.get("pod")
        else Span("no driver", DIM),
        Span(f"since {span(at - since)}", DIM) if since and driver.get("pod") else None,
        f"executors {executors.get('running')}/{executors.get('wanted')}" if executors else None,
        _autoscale(job.part("autoscale")),
    )
    checkpoint = job.part("checkpoint")
    if checkpoint:
        interval = (job.spec.get("checkpoint") or {}).get("interval")
        node.add(
            "checkpoint",
            str(checkpoint.get("latest")),
            f"of epoch {checkpoint['epoch']}" if checkpoint.get("epoch") != job.epoch else None,
            Span(ago(moment(checkpoint.get("completedAt")), at), DIM),
            Span(f"every {interval}", DIM) if interval else None,
        )
    left = job.part("termination").get("stateRowsLeft")
    if job.phase == "Drained" and left is not None:
        node.add(Span("state", DIM), f"{amount(left)} rows are left" if left else "nothing is left")
    if job.stages and not job.runs:
        node = node.add(Span("as last reported:", DIM))
    for stage in job.stages:
        node.children.append(stage_node(stage, at, runs=job.runs, drained=job.phase == "Drained"))
    if job.epoch and not job.stages:
        node.add(Span("no query yet" if driver.get("pod") else "no query", DIM))


def stage_node(stage: Stage, at: datetime, *, runs: bool = True, drained: bool = False) -> Node:
    """A stage with its tasks and operators.

    :param runs: whether a driver runs it. Otherwise rates and lags are those of the past.
    :param drained: whether every window was emitted since the driver last measured state and watermark.
    """
    lag = stage.lag_seconds if runs else None
    node = Node(
        line(
            Span("stage", DIM),
            Span(stage.uid, STRONG),
            f"batch {stage.batch}" if stage.batch is not None else Span("no batch yet", DIM),
            f"{amount(stage.rows_per_second)} rows/s" if runs and stage.rows_per_second is not None else None,
            f"in {span(stage.batch_seconds)}" if stage.batch_seconds is not None else None,
            Span(f"committed {ago(stage.last_commit, at)}", DIM) if stage.last_commit else None,
            Span(f"{span(lag)} behind", WARN if lag >= 600 else "") if lag is not None else None,
        )
    )
    if stage.upstream:
        node.add(Span("reads from", DIM), ", ".join(stage.upstream))
    if stage.watermark is not None and not drained:
        node.add(
            Span("watermark", DIM),
            f"{stage.watermark:%Y-%m-%d %H:%M:%S}",
            f"({span(stage.watermark_delay)} behind the clock)"
            if runs and stage.watermark_delay is not None
            else None,
        )
    if stage.state_rows is not None and not drained:
        memory = f", {size(stage.state_bytes)}" if stage.state_bytes is not None else ""
        node.add(Span("state", DIM), f"{amount(stage.state_rows)} rows{memory}")
    for task in stage.tasks:
        node.add(
            Span(f"task {task.index}", DIM),
            Span(task.state, TASKS.get(task.state, "")),
            f"batch {task.batch}" if task.batch is not None else None,
        )
    lags = {s.uid: s for s in stage.sources}
    for operator in stage.operators:
        node.add(
            Span(operator.kind, DIM),
            Span(operator.uid),
            operator.name if operator.name != operator.uid else None,
            Span("finished", GOOD) if operator.finished else None,
            _lag(lags.get(operator.uid)) if runs else None,
        )
    return node


def _lag(source: Source | None) -> str | None:
    if source is None:
        return None
    parts = [
        f"{amount(source.lag_rows)} rows" if source.lag_rows is not None else "",
        f"{amount(source.lag_files)} files" if source.lag_files is not None else "",
        size(source.lag_bytes),
    ]
    left = ", ".join(part for part in parts if part)
    age = f"the oldest from {span(source.lag_seconds)} ago" if source.lag_seconds else ""
    if not source.lag_seconds and not any((source.lag_rows, source.lag_files, source.lag_bytes)):
        return "nothing left to read"
    return "left: " + ", ".join(part for part in (left, age) if part)


def _earlier(root: Node, job: Job, index: Index, at: datetime) -> None:
    last = job.part("lastExit")
    epochs = sorted(
        {c.epoch for c in index.checkpoints if c.epoch < job.epoch}
        | ({last["epoch"]} if last.get("epoch") and last["epoch"] <= job.epoch else set()),
        reverse=True,
    )
    if not epochs:
        return
    node = root.add(Span("ended epochs", DIM))
    for epoch in epochs[:OLD_EPOCHS]:
        found = index.of_epoch(epoch)
        said = None
        if last.get("epoch") == epoch:
            code = last.get("code")
            said = f"exit code {'unknown' if code is None else code}"
            said += f": {last['reason']}" if last.get("reason") else ""
        node.add(f"epoch {epoch}", _ended(found, at), said)
    if len(epochs) > OLD_EPOCHS:
        node.add(Span(f"and {len(epochs) - OLD_EPOCHS} more: see timeline", DIM))


def _ended(found: tuple[Checkpoint, ...], at: datetime) -> str | None:
    if not found:
        return None
    last = found[-1]
    how = {"Stop": "stopped", "Drain": "drained", "EndOfInput": "finished"}.get(last.scenario or "", "last")
    return f"{how} with checkpoint {last.number} {ago(last.completed, at)}"


def _rounds(root: Node, job: Job, at: datetime) -> None:
    found = job.part("rounds")
    if not found:
        return
    began, due = moment(found.get("began")), moment(found.get("next"))
    said = [f"the present one began {ago(began, at)}"] if began is not None else []
    last = moment(found.get("last"))
    if last is not None:
        said.append(f"the last one began {ago(last, at)} and took {found.get('lastDuration')}")
    said += [f"the next one is due in {until(due, at)}"] if due is not None else []
    said += [f"{found['missed']} missed"] if found.get("missed") else []
    root.add(Span("rounds", DIM), "; ".join(said))


def _savepoint(root: Node, job: Job, at: datetime) -> None:
    found = job.part("savepoint")
    if found:
        root.add(
            Span("savepoint", DIM),
            found.get("latest"),
            Span(ago(moment(found.get("completedAt")), at), DIM),
            Span("drained", DIM) if found.get("drained") else None,
        )
    due = moment(job.status.get("nextSavepointAt"))
    if due is not None:
        root.add(Span("next savepoint", DIM), f"in {until(due, at)}")
