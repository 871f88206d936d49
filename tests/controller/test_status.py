"""What people read: conditions, Events, and the error with its remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamjob.api import ConditionType, Phase, Status
from streamjob.api.types import timestamp
from streamjob.controller.events import event_object, events
from streamjob.controller.status import fail, seen, settle
from streamjob.controller.words import Event, sentence
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages import AbortedCheckpoint, Problem
from streamjob.protocol.records import CheckpointRecord, OperatorKind, OperatorRecord

from .given import MINUTE, NOW, UID, asked, driver, index, job, observed, ran, record, running

PROBLEM = Problem("StorageFull", "no space on /data.", "Make room")


def flags(phase: Phase, *, stalled: bool = False) -> dict[str, str]:
    s = settle(job().status, job(), NOW, phase, "Because", "so", stalled=stalled)
    return {c.type.value: c.status for c in s.conditions}


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_is_exactly_one_of_ready_reconciling_stalled(phase: Phase) -> None:
    assert sorted(flags(phase).values()) == ["False", "False", "True"]
    assert flags(phase, stalled=True) == {"Ready": "False", "Reconciling": "False", "Stalled": "True"}


def test_the_time_of_a_condition_changes_with_it_only() -> None:
    j = job()
    first = settle(j.status, j, NOW, Phase.STARTING, "Starting", "a")
    second = settle(first, j, NOW + MINUTE, Phase.STOPPING, "Stopping", "b")
    third = settle(second, j, NOW + MINUTE, Phase.STOPPED, "Stopped", "c")
    times = [c.last_transition_time for c in second.conditions]
    assert times == [timestamp(NOW)] * 3
    ready = third.condition(ConditionType.READY)
    assert ready is not None
    assert (ready.last_transition_time, ready.status) == (timestamp(NOW + MINUTE), "True")


def test_the_same_error_keeps_its_time() -> None:
    once = fail(job().status, PROBLEM, NOW)
    assert fail(once, PROBLEM, NOW + MINUTE) == once
    assert sentence(PROBLEM) == "no space on /data. Make room."


def test_what_the_driver_says_is_shown() -> None:
    o = observed(job(status=ran()), pods=[running()], index=index(record()), says=driver())
    s = seen(o)
    (stage,) = s.stages
    assert (stage.uid, stage.batch, stage.watermark) == ("windows", 7, "2026-01-02T03:00:00Z")
    assert s.checkpoint is not None
    assert s.checkpoint.latest == 1
    assert s.driver is not None
    assert s.driver.started_at == timestamp(NOW - MINUTE)


def test_a_termination_is_over_when_its_checkpoint_is_in_the_index() -> None:
    o = observed(job(status=ran(termination=asked())), index=index(record()))
    t = seen(o).termination
    assert t is not None
    assert t.final_checkpoint == 1
    other = observed(job(status=ran(termination=asked())), index=index(record(request="eviction-1")))
    t = seen(other).termination
    assert t is not None
    assert t.final_checkpoint is None, "exactly that savepoint, no other"


def test_events_tell_what_happened() -> None:
    before = job(status=ran(termination=asked())).status
    after = seen(observed(job(status=ran(termination=asked())), index=index(record(1, 1, Scenario.STOP))))
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


def test_of_periodic_checkpoints_the_first_of_an_epoch_is_told() -> None:
    def after(*records: CheckpointRecord) -> Status:
        return seen(observed(job(status=ran()), pods=[running()], index=index(*records)))

    first, second = (record(n, scenario=None, request=None) for n in (1, 2))
    none, one, two = after(), after(first), after(first, second)
    assert [e.reason for e in events(none, one)] == ["CheckpointCompleted"]
    assert events(one, two) == []


def test_a_checkpoint_that_was_given_up_is_told_once_and_stays_in_the_status() -> None:
    before = job(status=ran())
    says = driver(aborted=AbortedCheckpoint(3, "it was not done after 600 s", timestamp(NOW)))
    after = seen(observed(before, pods=[running()], says=says))
    (event,) = events(before.status, after)
    assert (event.warning, event.reason) == (True, "CheckpointAborted")
    assert "Checkpoint 3 of epoch 1" in event.message
    assert "it was not done after 600 s" in event.message
    later = seen(observed(job(status=after.plain()), pods=[running(2)], says=driver(epoch=2)))
    assert later.aborted_checkpoint == after.aborted_checkpoint
    assert events(after, later.model_copy(update={"driver": after.driver})) == []


def test_what_a_person_should_know_is_told_once() -> None:
    moved = Problem("SinkMoved", "the output comes to file:/new", "Nothing has to be done if that is meant")
    o = observed(job(status=ran()), pods=[running()], says=driver(warnings=(moved,)))
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
    body = event_object(job(), Event(True, "StorageFull", "x" * 5000), NOW)
    regarding = body["regarding"]
    assert (regarding["kind"], regarding["name"], regarding["uid"]) == ("StreamJob", "orders", UID)
    assert (body["type"], body["reason"]) == ("Warning", "StorageFull")
    assert body["eventTime"].endswith(".000000Z")
    assert all(body[field] for field in ("reportingController", "reportingInstance", "action"))


def test_the_note_of_an_event_is_short_enough_in_bytes() -> None:
    for message in ("x" * 5000, "ü" * 5000, "a" + "€" * 5000):
        note = event_object(job(), Event(True, "StorageFull", message), NOW)["note"]
        assert 990 < len(note.encode()) <= 1024
        assert message.startswith(note)


def test_operators_stay_when_a_final_report_had_no_room_for_them() -> None:
    says = driver()
    known = OperatorRecord("source-0", OperatorKind.SOURCE, "source-0", finished=True)
    full = replace(says, stages=tuple(replace(stage, operators=(known,)) for stage in says.stages))
    first = seen(observed(job(status=ran()), pods=[running()], says=full))
    later = seen(observed(job(status=first.plain()), pods=[running()], says=says))
    assert [o.finished for stage in later.stages for o in stage.operators] == [True]


def test_an_index_that_was_read_before_another_controller_wrote_it_turns_nothing_back() -> None:
    """V7. The world, seed 5173."""
    status = ran(checkpoint={"latest": 2, "epoch": 1, "completedAt": timestamp(NOW)})
    place = {"latest": "file:///2", "checkpoint": 2, "completedAt": timestamp(NOW), "drained": False}
    s = seen(observed(job(status=status | {"savepoint": place}), pods=[running()], index=index(record(1))))
    assert s.checkpoint is not None
    assert s.savepoint is not None
    assert (s.checkpoint.latest, s.savepoint.checkpoint) == (2, 2)
