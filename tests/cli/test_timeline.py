"""The life of a job, from the index, the status, the pods and the Events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamjob.cli.views.checkpoints import Index, parsed
from streamjob.cli.views.events import events
from streamjob.cli.views.job import Obj, job
from streamjob.cli.views.pods import pods
from streamjob.cli.views.timeline import TimelineEntry, table, timeline
from streamjob.cli.views.timeline.entry import OK
from streamjob.controller.reports import events as reports
from streamjob.protocol.formats import index as indices
from streamjob.protocol.times import timestamp

from ..controller.factories import NOW
from ..controller.factories import job as a_job
from .recorded import lives


def at(minutes: float) -> str:
    return timestamp(NOW + timedelta(minutes=minutes))


def checkpoint(number: int, epoch: int, minute: float, **more: Any) -> dict[str, Any]:
    return {"checkpoint": number, "epoch": epoch, "completed_at": at(minute), "stages": [], **more}


def index(*checkpoints: dict[str, Any]) -> Index:
    import json

    return parsed(json.dumps({"checkpoints": checkpoints}))


def status(**more: Any) -> Obj:
    return {"metadata": {"name": "orders", "uid": "u"}, "status": {"phase": "Running", "epoch": 3, **more}}


def event(minute: float, reason: str, text: str, *, warning: bool = False) -> dict[str, Any]:
    return {
        "metadata": {"uid": f"{reason} {minute}"},
        "eventTime": at(minute),
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": text,
        "involvedObject": {"kind": "StreamJob", "name": "orders"},
    }


def driver(epoch: int, began: float, ended: float | None = None, code: int = 0) -> dict[str, Any]:
    state: dict[str, Any] = {"running": {"startedAt": at(began)}}
    if ended is not None:
        state = {"terminated": {"startedAt": at(began), "finishedAt": at(ended), "exitCode": code}}
    return {
        "metadata": {
            "name": f"orders-driver-{epoch}",
            "labels": {"streamjob.dev/epoch": str(epoch), "streamjob.dev/component": "driver"},
        },
        "status": {"phase": "Running", "containerStatuses": [{"name": "driver", "state": state}]},
    }


def of_kind(entries: tuple[TimelineEntry, ...], kind: str) -> list[TimelineEntry]:
    return [e for e in entries if e.kind == kind]


LIFE = index(
    checkpoint(1, 1, -60),
    checkpoint(2, 1, -50, scenario="Stop", request_id="stop-1-2", savepoint="s3a://b/sp/j/stop-1-2"),
    checkpoint(3, 2, -40, request_id="savepoint-manual-3", savepoint="s3a://b/sp/j/savepoint-manual-3"),
    checkpoint(4, 3, -5),
)


def test_each_epoch_has_a_beginning_an_end_and_how_it_ended() -> None:
    obj = status(
        lastExit={"epoch": 2, "code": 1, "reason": "ValueError: no", "time": at(-30)},
        driver={"pod": "orders-driver-3", "phase": "Running", "startedAt": at(-20)},
    )
    found = of_kind(
        timeline(job(obj), LIFE, (), pods([driver(2, -45, -30, 1), driver(3, -20)]), NOW), "epoch"
    )
    assert [(e.epoch, e.outcome, e.detail) for e in found] == [
        (1, "ok", "stopped with checkpoint 2"),
        (2, "failed", "exit code 1: ValueError: no"),
        (3, "going", "runs"),
    ]
    assert [e.seconds for e in found] == [600.0, 900.0, None]
    assert found[2].begin == NOW - timedelta(minutes=20)


def test_a_stop_comes_after_the_beginning_of_its_epoch_within_one_second() -> None:
    """The index has whole seconds, and the status has fractions."""
    life = index(checkpoint(1, 3, -1, scenario="Stop", request_id="stop-1", savepoint="s3a://b/sp/j/stop-1"))
    began = (NOW - timedelta(minutes=1) + timedelta(seconds=0.7)).isoformat()
    obj = status(phase="Stopped", driver={"pod": "orders-driver-3", "startedAt": began})
    found = timeline(job(obj), life, (), (), NOW)
    assert [(e.kind, e.seconds) for e in found] == [("epoch", 0.0), ("stop", None)]


NO_NODE = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes fit"}


@pytest.mark.parametrize(
    ("phase", "of_driver", "pod", "text"),
    [
        ("Starting", None, None, "its driver's pod is pending"),
        ("Starting", "Pending", None, "its driver's pod is pending"),
        ("Starting", "Pending", [NO_NODE], "its driver's pod is pending: 0/3 nodes fit"),
        ("Starting", "Running", None, "starts"),
        ("Running", "Running", None, "runs"),
        ("Draining", "Running", None, "is being drained"),
    ],
)
def test_the_newest_epoch_says_what_it_does(
    phase: str, of_driver: str | None, pod: list[dict[str, Any]] | None, text: str
) -> None:
    """It does not run before its driver does."""
    obj = status(phase=phase, driver=of_driver and {"pod": "orders-driver-3", "phase": of_driver})
    pending = {"phase": "Pending", "conditions": pod}
    found = pods([{**driver(3, -1), "status": pending}] if pod else [])
    entry = of_kind(timeline(job(obj), LIFE, (), found, NOW), "epoch")[-1]
    assert (entry.epoch, entry.outcome, entry.detail) == (3, "going", text)


def test_stops_and_savepoints_know_when_they_were_requested_if_the_status_does() -> None:
    obj = status(
        termination={"requestId": "stop-1-2", "requestedAt": at(-52), "finalCheckpoint": 2},
        savepointRequest={"requestId": "savepoint-manual-3", "requestedAt": at(-41), "checkpoint": 3},
    )
    found = timeline(job(obj), LIFE, (), (), NOW)
    (stop,), (savepoint,) = of_kind(found, "stop"), of_kind(found, "savepoint")
    assert (stop.title, stop.seconds, stop.outcome) == ("stop", 120.0, "ok")
    assert (savepoint.title, savepoint.seconds) == ("savepoint savepoint-manual-3", 60.0)


def test_what_goes_on_has_no_end() -> None:
    obj = status(
        phase="Draining",
        termination={
            "requestId": "drain-3-9",
            "mode": "Drain",
            "requestedAt": at(-1),
            "step": "FiringTimers",
        },
        savepointRequest={
            "requestId": "savepoint-manual-8",
            "requestedAt": at(-2),
            "failure": "the job ends",
        },
    )
    found = timeline(job(obj), LIFE, (), (), NOW)
    (drain,) = of_kind(found, "drain")
    assert (drain.outcome, drain.end, drain.detail) == ("going", None, "timers fire: every window is emitted")
    assert [(e.outcome, e.detail) for e in of_kind(found, "savepoint")][-1] == ("failed", "the job ends")


def test_an_upgrade_lasts_from_its_event_to_its_outcome() -> None:
    told = [
        event(-30, "Upgrading", "The driver with the previous specification is stopping"),
        event(-29, "Upgrading", "Epoch 2 starts with the new specification, from savepoint x"),
        event(-28, "Upgraded", "The new specification runs in epoch 2"),
        event(-10, "Upgrading", "The driver with the previous specification is stopping"),
        event(-6, "RolledBack", "The new specification did not start", warning=True),
    ]
    found = of_kind(timeline(job(status()), Index(), events(told), (), NOW), "upgrade")
    assert [(e.seconds, e.outcome) for e in found] == [(120.0, "ok"), (240.0, "failed")]


BROKEN = "The new specification did not start (ScriptFailed): PermissionError: /data/out. The job runs on"


def test_an_event_that_is_counted_twice_begins_two_upgrades() -> None:
    """The recorder counts an equal Event within six minutes as one: it has a first and a last time only."""
    stops = event(-9, "Upgrading", "The driver with the previous specification is stopping")
    stops["series"] = {"count": 2, "lastObservedTime": at(-6)}
    told = [
        stops,
        event(-8, "Upgrading", "Epoch 2 starts with the new specification, from savepoint x"),
        event(-7, "Upgraded", "The new specification runs in epoch 2"),
        event(-5, "Upgrading", "Epoch 3 starts with the new specification, from savepoint y"),
        event(-1, "RolledBack", BROKEN, warning=True),
    ]
    found = of_kind(timeline(job(status()), Index(), events(told), (), NOW), "upgrade")
    assert [(e.begin, e.seconds, e.outcome) for e in found] == [
        (NOW - timedelta(minutes=9), 120.0, "ok"),
        (NOW - timedelta(minutes=6), 300.0, "failed"),
    ]


def test_an_upgrade_that_another_one_replaces_has_no_outcome_of_that_one() -> None:
    told = [
        event(-9, "Upgrading", "The driver is stopping: the next one starts with generation 4 of the spec"),
        event(-8, "Upgrading", "Epoch 2 starts with the new specification, from savepoint x"),
        event(-6, "Upgrading", "The driver is stopping: the next one starts with generation 5 of the spec"),
        event(-5, "Upgrading", "Epoch 3 starts with the new specification, from savepoint y"),
    ]
    obj = status(upgrade={"step": "Starting", "generation": 5})
    first, second = of_kind(timeline(job(obj), Index(), events(told), (), NOW), "upgrade")
    assert (first.title, first.seconds, first.outcome) == ("upgrade to generation 4", 180.0, "")
    assert (second.title, second.begin) == ("upgrade to generation 5", NOW - timedelta(minutes=6))
    assert (second.end, second.outcome) == (None, "going")


def test_the_controller_tells_two_upgrades_two_stops_and_two_savepoints_apart() -> None:
    """Its Events are equal for none of them, so that none is counted as another one."""
    old = a_job(status={"phase": "Running", "epoch": 1}).status
    said: list[str] = []
    for n in (2, 3):
        ending = {
            "phase": "Stopping",
            "epoch": 1,
            "termination": {
                "requestId": f"stop-1-{n}", "mode": "Stop", "requestedAt": at(0), "deadline": at(9),
            },
            "savepointRequest": {
                "requestId": f"savepoint-manual-{n}", "cause": "Manual", "savepoint": "x",
                "requestedAt": at(0), "deadline": at(9),
            },
            "upgrade": {"step": "Stopping", "generation": n, "target": f"{n}"},
        }  # fmt: skip
        new = a_job(status=ending).status
        said += [e.message for e in reports.events(old, new)]
    assert len(said) == len(set(said)) == 6


def test_stops_and_savepoints_of_the_past_began_with_their_events() -> None:
    told = [
        event(-51, "Stopping", "The request is on its way to the driver. (request stop-1-2)"),
        event(-42, "SavepointRequested", "Savepoint savepoint-manual-3 was requested"),
        event(-30, "Stopping", "The request is on its way to the driver. (request stop-1-22)"),
    ]
    found = timeline(job(status()), LIFE, events(told), (), NOW)
    (stop,), (savepoint,) = of_kind(found, "stop"), of_kind(found, "savepoint")
    assert (stop.seconds, savepoint.seconds) == (60.0, 120.0)


@pytest.mark.parametrize("when", ["in 10 s", "at once"])
def test_epochs_without_a_checkpoint_are_known_from_events_with_their_reasons(when: str) -> None:
    """Neither the index nor a pod has them, and the status knows the last exit only."""
    text = f"Restart 1 {when}. the script ended: PermissionError."
    failed = event(-29, "Restarting", text, warning=True)
    failed["series"] = {"count": 2, "lastObservedTime": at(-27)}
    told = [
        *(event(-30 + n, "Starting", f"The driver of epoch {n} is being created") for n in (1, 3)),
        event(-28, "Starting", "The driver of epoch 2 is being created"),
        failed,
    ]
    obj = status(lastExit={"epoch": 3, "code": 1, "reason": "ValueError", "time": at(-2)}, phase="Restarting")
    ended = driver(2, -28, -27.5, 1)
    ended["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = "Error"
    gone = pods([ended])
    found = of_kind(timeline(job(obj), Index(), events(told), gone, NOW), "epoch")
    assert [(e.epoch, e.begin, e.detail) for e in found] == [
        (1, NOW - timedelta(minutes=29), "ended: the script ended: PermissionError."),
        (2, NOW - timedelta(minutes=28), "exit code 1: the script ended: PermissionError."),
        (3, NOW - timedelta(minutes=27), "exit code 1: ValueError"),
    ]


def test_failures_are_what_was_a_warning_and_is_no_phase() -> None:
    told = [
        event(-30, "ScriptFailed", "the script ended with exit code 1", warning=True),
        event(-30, "Restarting", "Restart 1 in 10 s. the script ended", warning=True),
        event(-20, "SavepointAborted", "Savepoint x was aborted", warning=True),
    ]
    obj = status(lastError={"reason": "ScriptFailed", "message": "the script ended", "time": at(-30)})
    found = of_kind(timeline(job(obj), Index(), events(told), (), NOW), "failure")
    assert [e.title for e in found] == ["ScriptFailed"]
    forgotten = of_kind(timeline(job(obj), Index(), (), (), NOW), "failure")
    assert [e.title for e in forgotten] == ["ScriptFailed"], "the status knows the last one for longer"


def test_a_warning_is_no_failure() -> None:
    obj = status(warnings=[{"reason": "SourceMoved", "message": "It reads from other brokers."}])
    told = [event(-20, "SourceMoved", "It reads from other brokers.", warning=True)]
    found = timeline(job(obj), Index(), events(told), (), NOW)
    assert [(e.kind, e.outcome) for e in found if e.kind != "epoch"] == [("warning", "")]


def test_it_is_in_order_and_has_a_line_for_each() -> None:
    found = timeline(job(status()), LIFE, (), (), NOW)
    times = [e.begin or e.end for e in found]
    assert times == sorted(t for t in times if t)
    assert len(list(table(found, NOW).lines())) == len(found) + 1


def test_lives_can_be_told_from_the_events_that_the_controller_writes() -> None:
    """Of simulated lives: status by status, with the Events between them and the index as it is at the "
    "end."""
    kinds: set[str] = set()
    for life in lives().values():
        told, old = [], a_job().status
        for n, obj in enumerate(life):
            new = type(old).model_validate(obj["status"])
            subject = a_job()
            told += [
                reports.event_object(subject, e, NOW + timedelta(seconds=n)) | {"involvedObject": {}}
                for e in reports.events(old, new)
            ]
            old = new
        entries = timeline(job(life[-1]), parsed(indices.dumps(indices.empty("u"))), events(told), (), NOW)
        assert all(e.title for e in entries)
        assert all(e.begin or e.end or e.kind in ("epoch", "savepoint") for e in entries)
        kinds |= {e.kind for e in entries}
    assert {"epoch", "failure", "upgrade"} <= kinds


def test_nothing_takes_less_than_no_time() -> None:
    """A checkpoint's time is cut to the second: it may be before that of the Event that began its stop."""
    assert TimelineEntry("stop", "stop", NOW, NOW - timedelta(seconds=0.8), OK).seconds == 0.0
