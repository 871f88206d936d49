"""Which Events tell what happened, and what each of them names."""

from __future__ import annotations

from dataclasses import replace

from streamjob.api import Phase, Status
from streamjob.controller.reports.events import event_object, events
from streamjob.controller.reports.messages import KubernetesEvent
from streamjob.controller.rules.status import fail, seen, settle
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_status import AbortedCheckpoint, Problem
from streamjob.protocol.times import timestamp

from ..factories import NOW, UID, driver, index, job, observed, ran, record, requested, running

PROBLEM = Problem("StorageFull", "no space on /data.", "Make room")


def test_events_report_what_happened() -> None:
    before = job(status=ran(termination=requested())).status
    after = seen(observed(job(status=ran(termination=requested())), index=index(record(1, 1, Scenario.STOP))))
    after = settle(
        fail(after, PROBLEM, NOW), job(), NOW, Phase.STOPPED, "Stopped", "Stopped with checkpoint 1"
    )
    assert [(e.warning, e.reason) for e in events(before, after)] == [
        (True, "StorageFull"),
        (False, "CheckpointCompleted"),
        (False, "SavepointCompleted"),
        (False, "Stopped"),
    ]
    assert events(after, after) == []


def test_another_number_of_executors_is_reported() -> None:
    def status(least: int, most: int, running: int) -> Status:
        executors = {"wanted": least, "running": running, "min": least, "max": most}
        return job(status=ran(executors=executors)).status

    (event,) = events(status(1, 1, 1), status(2, 2, 1))
    assert event == KubernetesEvent(
        False, "ExecutorsChanged", "Executors wanted from the driver of epoch 1: 2; running: 1"
    )
    (event,) = events(status(1, 2, 1), status(1, 4, 1))
    assert "1 to 4" in event.message
    assert events(status(1, 2, 1), status(1, 2, 2)) == []


def test_of_periodic_checkpoints_the_first_of_an_epoch_is_reported() -> None:
    def after(*records: CheckpointRecord) -> Status:
        return seen(observed(job(status=ran()), pods=[running()], index=index(*records)))

    first, second = (record(n, scenario=None, request=None) for n in (1, 2))
    none, one, two = after(), after(first), after(first, second)
    assert [e.reason for e in events(none, one)] == ["CheckpointCompleted"]
    assert events(one, two) == []


def test_an_aborted_checkpoint_is_reported_once_and_stays_in_the_status() -> None:
    before = job(status=ran())
    reported = driver(aborted=AbortedCheckpoint(3, "it was not done after 600 s", timestamp(NOW)))
    after = seen(observed(before, pods=[running()], reported=reported))
    (event,) = events(before.status, after)
    assert (event.warning, event.reason) == (True, "CheckpointAborted")
    assert "Checkpoint 3 of epoch 1" in event.message
    assert "it was not done after 600 s" in event.message
    later = seen(observed(job(status=after.plain()), pods=[running(2)], reported=driver(epoch=2)))
    assert later.aborted_checkpoint == after.aborted_checkpoint
    assert events(after, later.model_copy(update={"driver": after.driver})) == []


def test_a_warning_is_reported_once() -> None:
    moved = Problem("SinkMoved", "the output comes to file:/new", "Nothing has to be done if that is meant")
    o = observed(job(status=ran()), pods=[running()], reported=driver(warnings=(moved,)))
    found = seen(o)
    (event,) = [e for e in events(o.job.status, found) if e.reason == "SinkMoved"]
    assert event.warning
    assert event.message == "the output comes to file:/new. Nothing has to be done if that is meant."
    again = seen(replace(o, job=o.job.model_copy(update={"status": found})))
    assert again.warnings == found.warnings
    assert not [e for e in events(found, again) if e.reason == "SinkMoved"]
    silent = replace(o, driver=None, job=o.job.model_copy(update={"status": found}))
    assert seen(silent).warnings == found.warnings


def test_an_event_names_its_object() -> None:
    body = event_object(job(), KubernetesEvent(True, "StorageFull", "x" * 5000), NOW)
    regarding = body["regarding"]
    assert (regarding["kind"], regarding["name"], regarding["uid"]) == ("StreamJob", "orders", UID)
    assert (body["type"], body["reason"]) == ("Warning", "StorageFull")
    assert body["eventTime"].endswith(".000000Z")
    assert all(body[field] for field in ("reportingController", "reportingInstance", "action"))


def test_the_note_of_an_event_is_short_enough_in_bytes() -> None:
    for message in ("x" * 5000, "ü" * 5000, "a" + "€" * 5000):
        note = event_object(job(), KubernetesEvent(True, "StorageFull", message), NOW)["note"]
        assert 990 < len(note.encode()) <= 1024
        assert message.startswith(note)
