"""Several tasks of one job: one final checkpoint for all, and what failures and late starts do to it."""

from __future__ import annotations

from types import ModuleType

from streamjob.protocol.engine.effects import (
    AnnounceCheckpoint,
    Close,
    Finish,
    FireMaxWatermark,
    NotifyComplete,
    StopAtBoundary,
    StoreCheckpoint,
    Terminated,
)
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


# --- several tasks (V3) -------------------------------------------------------------------------------------


def test_the_final_checkpoint_is_one_for_all_and_comes_when_all_have_ended(module: ModuleType) -> None:
    d = Driver(module, "a", "b", "c")
    d.tell("termination_requested", DRAIN)
    for task in ("c", "a"):
        d.do(StopAtBoundary, task)
        d.do(FireMaxWatermark, task)
        assert d.do(Finish, task) == []
        assert d.tell("retry_due") == []
    d.run()
    stored = [e for e in d.log if isinstance(e, StoreCheckpoint)]
    assert stored == [StoreCheckpoint(1, frozenset("abc"))]
    assert {e.number for e in d.log if isinstance(e, NotifyComplete)} == {1}
    assert d.log[-1] == Terminated()
    assert d.log.count(Terminated()) == 1


def test_a_query_that_ended_by_itself_waits_for_the_others(module: ModuleType) -> None:
    d = Driver(module, "a", "b")
    d.tell("input_ended", "a")
    d.run()
    assert d.states() == {"a": "WaitingForFinalCheckpoint", "b": "Running"}
    assert not d.c.terminating
    d.tell("input_ended", "b")
    assert d.c.terminating
    d.run()
    assert {e.number for e in d.log if isinstance(e, NotifyComplete)} == {1}


def test_task_started_during_a_termination(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.run(until=StoreCheckpoint)
    assert d.tell("task_started", "b") == [StopAtBoundary("b")]
    assert d.do(StoreCheckpoint) == []
    d.run()
    assert d.kinds("b")[-4:] == STOPPING[-4:]
    assert {e.number for e in d.log if isinstance(e, NotifyComplete)} == {2}
    assert d.c.terminated


def test_task_started_after_the_final_checkpoint_gets_one_of_its_own(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("termination_requested", DRAIN)
    d.run(until=Close)
    d.tell("task_started", "b")
    d.todo.reverse()  # b comes to its boundary while a is still being closed
    d.run()
    assert StoreCheckpoint(2, frozenset("ab")) in d.log
    assert d.c.terminated
    assert d.log[-1] == Terminated()


def test_finished_stays_finished_in_later_checkpoints(module: ModuleType) -> None:
    """V6: a script that runs one bounded query after the other."""
    d = Driver(module, "a")
    d.tell("input_ended", "a")
    d.run()
    d.tell("task_started", "b")
    assert not d.c.terminating
    assert not d.c.terminated
    d.tell("script_stopped", "b")
    d.run()
    assert StoreCheckpoint(2, frozenset({"a"})) in d.log


def test_the_steps_of_a_closed_task_do_not_go_back(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("input_ended", "a")
    d.run()
    d.tell("task_started", "b")
    d.tell("input_ended", "b")
    d.run(until=NotifyComplete)
    assert d.c.tasks["a"].step is TerminationStep.CLOSED
    assert d.c.tasks["b"].step is TerminationStep.COMPLETING


def test_a_finished_task_is_not_started_again(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("input_ended", "a")
    d.run()
    assert d.tell("task_started", "a") == []
    assert d.c.terminated


def test_a_query_that_the_script_stopped_may_be_started_again(module: ModuleType) -> None:
    d = Driver(module, "a", "b")
    d.tell("script_stopped", "a")
    d.run()
    assert d.tell("task_started", "a") == []
    assert d.states() == {"a": "Running", "b": "Running"}
    d.tell("termination_requested", DRAIN)
    d.run()
    assert StoreCheckpoint(1, frozenset("ab")) in d.log


def test_a_run_that_waits_for_its_upstream_is_followed_by_another(module: ModuleType) -> None:
    """Batches of a stage run another query to its end, each again, after the main thread has ended."""
    d = Driver(module)
    d.tell("task_started", "a")
    d.tell("task_started", "b", ("a",), own_sources=True)
    d.tell("script_ended")
    for _ in range(2):
        assert not d.c.tasks["b"].exhausted
        assert d.tell("run_ended", "b", exhausted=True) == []
        assert d.c.tasks["b"].exhausted
        assert d.tell("task_started", "b", ("a",), own_sources=True) == []
    d.tell("run_ended", "b", exhausted=True)
    d.tell("termination_requested", DRAIN)
    d.run()
    assert d.states() == {"a": "Closed", "b": "Closed"}


# --- failures -----------------------------------------------------------------------------------------------


def test_what_a_failed_task_had_on_its_way_changes_nothing(module: ModuleType) -> None:
    for until in (StopAtBoundary, FireMaxWatermark, Finish):
        d = Driver(module, "a")
        d.tell("termination_requested", DRAIN)
        d.run(until=until)
        assert d.tell("task_failed", "a") == []
        d.run()
        assert d.states() == {"a": "Failed"}
        assert d.log[-1] == until("a")


def test_a_failed_task_does_not_end_by_request_or_input(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("task_failed", "a")
    for event in (("input_ended", "a"), ("script_stopped", "a"), ("task_failed", "a")):
        assert d.tell(*event) == []
    assert d.tell("termination_requested", DRAIN) == []
    assert d.states() == {"a": "Failed"}
    assert not d.c.terminated


def test_a_stop_of_a_failed_task_takes_its_last_batch(module: ModuleType) -> None:
    d = Driver(module, "a")
    d.tell("task_failed", "a")
    (store,) = d.tell("termination_requested", STOP)
    assert isinstance(store, StoreCheckpoint)
    assert store.batches == {}
    assert store.pre_commit == {"a": store.number}
    d.run()
    assert d.c.terminated
    assert d.states() == {"a": "Failed"}


def test_a_drain_does_not_end_without_the_failed_task(module: ModuleType) -> None:
    d = Driver(module, "a", "b")
    d.tell("task_failed", "b")
    d.tell("termination_requested", DRAIN)
    d.run()
    assert d.tell("retry_due") == []
    assert d.states() == {"a": "WaitingForFinalCheckpoint", "b": "Failed"}


def test_a_task_that_fails_while_it_waits_makes_the_checkpoint_of_a_stop_void(module: ModuleType) -> None:
    d = Driver(module, "a", "b")
    d.tell("termination_requested", STOP)
    d.run(until=AnnounceCheckpoint)
    assert d.tell("task_failed", "b") == [StoreCheckpoint(2, NONE)]
    assert d.do(AnnounceCheckpoint) == []
    d.run()
    assert d.states() == {"a": "Closed", "b": "Failed"}
    assert d.c.terminated


def test_a_task_that_failed_behind_its_finish_takes_its_place_again(module: ModuleType) -> None:
    d = Driver(module, "a", "b")
    d.tell("termination_requested", DRAIN)
    d.run(until=StoreCheckpoint)
    d.tell("task_failed", "b")
    d.run()
    assert not d.c.terminated
    assert d.tell("task_started", "b") == [StoreCheckpoint(2, frozenset("ab"))]
    d.run()
    assert d.c.terminated
    assert {e.number for e in d.log if isinstance(e, NotifyComplete)} == {2}


def test_what_fails_behind_the_final_checkpoint_closes_nothing(module: ModuleType) -> None:
    """It may be the commit of what that checkpoint has."""
    d = Driver(module, "a")
    d.tell("termination_requested", STOP)
    d.run(until=Close)
    assert d.tell("task_failed", "a") == []
    assert d.states() == {"a": "Finished"}
    assert d.tell("closed", "a") == [Terminated()]
    assert d.states() == {"a": "Closed"}


def test_terminated_comes_only_when_all_are_closed(module: ModuleType) -> None:
    d = Driver(module, "a", "b")
    d.tell("termination_requested", STOP)
    d.run(until=Close)
    assert d.do(Close, "b") == []
    assert not d.c.terminated
    d.run(until=Close)
    assert d.do(Close, "a") == [Terminated()]


def test_row10_what_has_finished_before_a_task_is_known_when_it_is_flushed(module: ModuleType) -> None:
    """Directly upstream of it or not; not what is beside it. The driver marks them as drained."""
    d = Driver(module, "a", "beside")
    d.tell("task_started", "b", ("a",))
    d.tell("task_started", "c", ("b",))
    d.tell("task_started", "d", ("c",))
    assert d.c.finished_before("d") == []
    d.tell("termination_requested", DRAIN)
    while FireMaxWatermark("d") not in d.todo:
        d.carry_out(d.todo.pop(0))
    assert sorted(d.c.finished_before("d")) == ["a", "b", "c"]


def test_row4_who_reads_a_flush_ends_behind_it_or_reads_on(module: ModuleType) -> None:
    """A reader that has other sources, which are live, is not among them, nor is what reads from that one."""
    d = Driver(module, "a", script_runs=True)
    d.tell("task_started", "b", ("a",))
    d.tell("task_started", "c", ("b",))
    d.tell("task_started", "live", ("a",), own_sources=True)
    d.tell("task_started", "behind", ("live",))
    assert d.c.ending_readers("a") == ["b", "c"]
    assert d.c.ending_readers("c") == []
    d.tell("termination_requested", DRAIN)
    assert sorted(d.c.ending_readers("a")) == ["b", "behind", "c", "live"]


def test_row2_what_the_script_has_stopped_stays_stopped_in_a_drain(module: ModuleType) -> None:
    d = Driver(module, "stopped", "ended", "runs", script_runs=True)
    d.tell("script_stopped", "stopped")
    d.tell("run_ended", "ended", exhausted=True)
    d.run()
    d.tell("termination_requested", DRAIN)
    d.tell("script_ended")
    d.run()
    names = ("stopped", "ended", "runs", "unknown")
    assert [name for name in names if d.c.stays_stopped(name)] == ["stopped"]


def test_row4_what_has_been_flushed_is_known_to_whoever_starts_behind_it(module: ModuleType) -> None:
    d = Driver(module, "beside", script_runs=True)
    d.tell("task_started", "drained", drained=True)
    d.tell("task_restored_finished", "finished", (), 7)
    flushed = [name for name in ("beside", "drained", "finished", "unknown") if d.c.has_flushed([name])]
    assert flushed == ["drained", "finished"]


# --- the recorded graph (docs/adr/0055) ---------------------------------------------------------------------


def recorded(module: ModuleType) -> Driver:
    """The restored checkpoint has `b` behind `a`, and both have started."""
    d = Driver(module, "a", "b", script_runs=True, expected=("a", "b"), edges=(("a", "b"),))
    assert d.c.connected("b") == {"a", "b"}
    return d


def test_w9_an_edge_that_the_script_has_turned_round_gives_way(module: ModuleType) -> None:
    d = recorded(module)
    d.c.reads("a", "b")
    assert d.c.upstream("b") == ()
    assert d.tell("termination_requested", DRAIN) == [StopAtBoundary("b")]
    d.run()
    assert "CatchUp" in d.kinds("a")


def test_w9_a_record_keeps_an_edge_that_the_script_has_yet_to_show(module: ModuleType) -> None:
    d = recorded(module)
    d.tell("all_started")
    assert d.c.connected("b") == {"b"}
    assert d.c.upstream("b") == ("a",)


def test_w9_an_edge_of_the_record_that_is_declared_counts_from_then_on(module: ModuleType) -> None:
    d = recorded(module)
    d.tell("edge_declared", "b", "a")
    d.tell("all_started")
    assert d.c.connected("b") == {"a", "b"}
