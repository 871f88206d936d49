"""The finishing protocol by name.

Each case takes the coordinator module, so that test_mutations can pass another.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from streamjob.protocol.engine.effects import (
    AnnounceCheckpoint,
    Close,
    Finish,
    FireMaxWatermark,
    NotifyComplete,
    RetryLater,
    StopAtBoundary,
    StoreCheckpoint,
)
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_status import TerminationStep
from tests.protocol.engine.minimal_driver import DRAIN, STOP, Driver

NONE: frozenset[str] = frozenset()
STOPPING = [
    "StopAtBoundary",
    "StoreCheckpoint",
    "AnnounceCheckpoint",
    "NotifyComplete",
    "Close",
    "Terminated",
]
DRAINING = ["StopAtBoundary", "FireMaxWatermark", "Finish", *STOPPING[1:]]


# --- one task: the three scenarios, in order (V4) -----------------------------------------------------------


def test_stop(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.run(until=Close)
    assert d.c.tasks["a"].operator.value == "Running"
    d.run()
    assert d.kinds("a") == STOPPING
    assert d.log[1] == StoreCheckpoint(1, NONE)
    assert d.c.tasks["a"].batch == 7
    assert d.c.terminated
    assert d.c.final_checkpoint == 1


def test_drain(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", DRAIN)
    d.run()
    assert d.kinds("a") == DRAINING
    assert d.log[3] == StoreCheckpoint(1, frozenset({"a"}))
    assert d.c.tasks["a"].batch == 8


def test_end_of_input(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("input_ended", "a")
    d.run()
    assert d.kinds("a") == DRAINING
    assert StoreCheckpoint(1, frozenset({"a"})) in d.log


def test_script_stopped(module: ModuleType) -> None:
    d = Driver(module, "a")
    assert d.tell("script_stopped", "a") == [StopAtBoundary("a")]
    assert d.tell("script_stopped", "a") == []
    d.run()
    assert d.kinds("a") == STOPPING
    assert StoreCheckpoint(1, NONE) in d.log
    assert d.c.request is None
    assert d.tell("script_stopped", "a") == []


def test_numbers_go_on_where_the_index_ends(module: ModuleType) -> None:
    d = Driver(module, "a", next_checkpoint=42)
    d.tell("termination_requested", STOP)
    d.run()
    assert StoreCheckpoint(42, NONE) in d.log
    assert d.c.next_checkpoint == 43


def test_steps_are_reported_in_order(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", DRAIN)
    seen = []
    while d.todo:
        seen.append(d.c.tasks["a"].step)
        d.carry_out(d.todo.pop(0))
    assert list(dict.fromkeys(seen)) == list(TerminationStep)


# --- the order cannot be broken from outside ----------------------------------------------------------------


def test_finish_is_not_done_before_the_max_watermark(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", DRAIN)
    d.do(StopAtBoundary)
    assert d.tell("finished", "a") == []
    assert d.do(FireMaxWatermark) == [Finish("a")]


def test_max_watermark_answered_twice_finishes_once(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", DRAIN)
    d.do(StopAtBoundary)
    assert d.do(FireMaxWatermark) == [Finish("a")]
    assert d.tell("max_watermark_fired", "a", 9) == []
    assert d.c.tasks["a"].batch == 8


def test_every_event_twice_has_one_effect(module: ModuleType) -> None:
    d = Driver(module, "a", "b")
    d.tell("termination_requested", DRAIN)
    told: list[tuple[object, ...]] = [("termination_requested", DRAIN)]
    tell = d.tell

    def tell_and_remember(event: str, *args: object) -> Any:
        told.append((event, *args))
        return tell(event, *args)

    d.tell = tell_and_remember  # type: ignore[method-assign]
    while d.todo:
        d.carry_out(d.todo.pop(0))
        before = d.states()
        for event, *args in [("task_started", "a"), ("task_started", "b"), *told]:
            assert tell(str(event), *args) == []
        assert d.states() == before
    assert d.c.terminated


def test_events_before_any_end_has_begun_change_nothing(module: ModuleType) -> None:
    d = Driver(module, "a")
    for event in (
        ("boundary_reached", "a", 1),
        ("max_watermark_fired", "a", 1),
        ("finished", "a"),
        ("closed", "a"),
        ("checkpoint_durable", 1),
        ("checkpoint_failed", 1),
        ("checkpoint_completed", 1),
        ("retry_due",),
        ("task_started", "a"),
    ):
        assert d.tell(*event) == [], event
    assert d.states() == {"a": "Running"}
    assert not d.c.terminating


def test_no_max_watermark_on_a_stop_even_if_one_is_reported(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    assert d.tell("max_watermark_fired", "a", 9) == []
    d.run()
    assert d.kinds("a") == STOPPING


# --- checkpoints --------------------------------------------------------------------------------------------


def test_what_is_not_durable_cannot_complete(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.run(until=StoreCheckpoint)
    assert d.tell("checkpoint_completed", 1) == []
    assert d.states() == {"a": "WaitingForFinalCheckpoint"}
    d.run()
    assert d.c.terminated


def test_durable_is_not_complete(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.run(until=AnnounceCheckpoint)
    assert d.states() == {"a": "WaitingForFinalCheckpoint"}
    assert "Close" not in d.kinds("a")


def test_another_checkpoint_does_not_end_a_stop(module: ModuleType) -> None:
    d = Driver(module, "a", next_checkpoint=5)
    d.tell("termination_requested", STOP)
    d.run(until=AnnounceCheckpoint)
    for number in (1, 4, 6, 99):
        assert d.tell("checkpoint_completed", number) == []
    assert d.do(AnnounceCheckpoint) == [NotifyComplete("a", 5), Close("a")]


def test_a_stop_does_not_end_by_a_checkpoint_triggered_before_it_was_asked_for(module: ModuleType) -> None:
    """Row 6: the input ran out and its checkpoint, which is no savepoint, is on its way to the index."""
    d = Driver(module, "a")
    d.tell("input_ended", "a")
    d.run(until=AnnounceCheckpoint)
    assert d.tell("termination_requested", STOP) == [StoreCheckpoint(2, frozenset({"a"}))]
    assert d.do(AnnounceCheckpoint) == []
    d.run()
    assert NotifyComplete("a", 2) in d.log
    assert NotifyComplete("a", 1) not in d.log
    assert d.c.final_checkpoint == 2


def test_a_checkpoint_triggered_before_the_end_of_a_task_does_not_end_it(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.run(until=AnnounceCheckpoint)
    d.tell("task_started", "b")
    assert d.tell("checkpoint_completed", 1) == []
    assert d.do(StopAtBoundary, "b") == [StoreCheckpoint(2, NONE)]
    assert d.tell("checkpoint_completed", 1) == []
    assert d.states() == {"a": "WaitingForFinalCheckpoint", "b": "WaitingForFinalCheckpoint"}
    d.todo = [e for e in d.todo if e != AnnounceCheckpoint(1)]
    d.run()
    assert [e for e in d.log if isinstance(e, NotifyComplete)] == [
        NotifyComplete("a", 2),
        NotifyComplete("b", 2),
    ]


def test_failed_checkpoint_then_retry(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.do(StopAtBoundary)
    d.todo.clear()
    assert d.tell("checkpoint_failed", 1) == [RetryLater()]
    assert d.c.final_checkpoint is None
    assert d.tell("retry_due") == [StoreCheckpoint(2, NONE)]
    assert d.tell("retry_due") == []
    for late in ("checkpoint_durable", "checkpoint_failed", "checkpoint_completed"):
        assert d.tell(late, 1) == []
    d.run()
    assert [e for e in d.log if isinstance(e, NotifyComplete)] == [NotifyComplete("a", 2)]
    assert d.c.final_checkpoint == 2


def test_durable_is_durable_whatever_is_said_later(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.run(until=AnnounceCheckpoint)
    assert d.tell("checkpoint_failed", 1) == []
    assert d.do(AnnounceCheckpoint) == [NotifyComplete("a", 1), Close("a")]


def test_lost_notification_is_taken_when_it_comes_at_last(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.run(until=AnnounceCheckpoint)
    d.todo.clear()
    assert d.tell("retry_due") == []
    assert d.tell("checkpoint_completed", 1) == [NotifyComplete("a", 1), Close("a")]
    assert d.tell("checkpoint_completed", 1) == []
    d.run()
    assert d.tell("checkpoint_completed", 1) == []
    assert d.kinds().count("Terminated") == 1


def test_retry_takes_no_second_final_checkpoint(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    while d.todo:
        d.carry_out(d.todo.pop(0))
        assert d.tell("retry_due") == []


# --- requests -----------------------------------------------------------------------------------------------


def test_same_request_twice(module: ModuleType) -> None:
    d = Driver(module, "a")
    assert d.tell("termination_requested", STOP) == [StopAtBoundary("a")]
    assert d.tell("termination_requested", STOP) == []


def test_another_request_is_refused(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    other = TerminationRequest("r2", 1, Mode.DRAIN)
    for _ in range(2):  # while it is in progress and when it is done
        with pytest.raises(module.TerminationConflict, match="r1") as e:
            d.tell("termination_requested", other)
        assert e.value.reason == "TerminationInProgress"
        d.run()
    assert d.kinds("a") == STOPPING


def test_request_before_any_task_started(module: ModuleType) -> None:
    d = Driver(module)
    assert d.tell("termination_requested", DRAIN) == []
    assert d.c.terminating
    assert not d.c.terminated
    assert d.tell("task_started", "a") == [StopAtBoundary("a")]
    d.run()
    assert d.kinds("a") == DRAINING


def test_request_after_the_end_changes_nothing(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("input_ended", "a")
    d.run()
    assert d.tell("termination_requested", STOP) == []
    assert d.c.terminated
    assert d.c.final_checkpoint == 1


def test_stop_of_a_job_of_which_one_input_ran_out(module: ModuleType) -> None:
    d = Driver(module, "a", "b")
    d.tell("input_ended", "a")
    d.run()
    assert d.tell("termination_requested", STOP) == [StopAtBoundary("b")]
    d.run()
    assert d.kinds("b") == STOPPING
    assert d.kinds("a")[:3] == DRAINING[:3]
    assert StoreCheckpoint(1, frozenset({"a"})) in d.log


def test_input_that_ends_during_a_stop_fires_nothing(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    assert d.tell("input_ended", "a") == []
    assert d.tell("script_stopped", "a") == []
    d.run()
    assert d.kinds("a") == STOPPING
