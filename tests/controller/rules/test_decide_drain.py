"""A job is drained, or cancelled: what is observed → phase, reason and what is done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from streamjob.api import ConditionType, Phase
from streamjob.controller.rules.actions import CreateDriver, DeletePod, EnsureSecret, SendTermination
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase, Problem

from ..factories import (
    DRAINED,
    OUT_OF_INPUT,
    driver,
    exited,
    index,
    is_ready,
    is_stalled,
    job,
    look,
    observed,
    ran,
    record,
    requested,
    running,
    terminating,
)


class TestDrain:
    def test_what_it_leaves_in_state_is_reported(self) -> None:
        reported = terminating(Mode.DRAIN).termination
        assert reported is not None
        end = driver(DriverPhase.TERMINATED, termination=replace(reported, state_rows_left=7, flushed_rows=3))
        before = job(state="Drained", status=ran(termination=requested("Drain")))
        status = look(observed(before, pods=[exited(report=end)], index=index(DRAINED)))[3].status
        assert status.termination is not None
        assert (status.termination.flushed_rows, status.termination.state_rows_left) == (3, 7)
        gone = observed(job(state="Drained", status=status.plain()), index=index(DRAINED))
        ready = look(gone)[3].status.condition(ConditionType.READY)
        assert ready is not None
        assert "7 rows of state are left" in ready.message

    def test_a_query_that_the_script_had_stopped_is_named(self) -> None:
        """What it has left does not come out: the job must not say that everything has."""
        unfinished = replace(DRAINED, stages=record(2, 1, Scenario.STOP).stages)
        before = job(state="Drained", status=ran(termination=requested("Drain")))
        *_, d = look(observed(before, index=index(unfinished)))
        ready = d.status.condition(ConditionType.READY)
        assert ready is not None
        assert "every window is flushed, but nothing of windows" in ready.message

    @pytest.mark.parametrize(("state", "seconds"), [("Stopped", 90.0), ("Drained", 5400.0)])
    def test_the_script_has_the_time_of_its_kind_of_end(self, state: str, seconds: float) -> None:
        patience = {"stopTimeout": "90s", "drainTimeout": "1h30m"}
        o = observed(
            job(state=state, status=ran(), termination=patience),
            pods=[running()],
            index=index(),
            reported=driver(),
        )
        (send,) = look(o)[3].actions
        assert isinstance(send, SendTermination)
        assert send.request.timeout == seconds

    def test_like_a_stop(self) -> None:
        o = observed(job(state="Drained", status=ran()), pods=[running()], index=index(), reported=driver())
        phase, _, _, d = look(o)
        (send,) = d.actions
        assert isinstance(send, SendTermination)
        assert (phase, send.request.mode, send.request.request_id) == (
            Phase.DRAINING,
            Mode.DRAIN,
            "drain-1-1",
        )

    def test_it_is_an_end(self) -> None:
        status = ran(termination=requested("Drain"))
        phase, _, do, d = look(observed(job(state="Drained", status=status), index=index(DRAINED)))
        assert (phase, do) == (Phase.DRAINED, [])
        assert is_ready(d)
        assert d.status.savepoint is not None
        assert d.status.savepoint.drained

    def test_there_is_no_way_back(self) -> None:
        phase, reason, do, d = look(observed(job(status=ran(phase="Drained")), index=index(DRAINED)))
        assert (phase, reason, do) == (Phase.DRAINED, "AlreadyDrained", [])
        assert is_stalled(d)
        assert "restoreFrom.allowDrained: true" in d.status.conditions[0].message

    def test_also_when_the_report_had_no_room_for_the_stages(self) -> None:
        cut = record(2, 1, Scenario.DRAIN, request="drain-1-1", stages=False)
        assert look(observed(job(status=ran(phase="Drained")), index=index(cut)))[1] == "AlreadyDrained"

    def test_cancelling_a_drained_job_changes_nothing(self) -> None:
        phase, _, do, _ = look(
            observed(job(state="Cancelled", status=ran(phase="Drained")), index=index(DRAINED))
        )
        assert (phase, do) == (Phase.DRAINED, [])

    def test_a_stopped_job_is_drained_by_a_driver_that_does_only_that(self) -> None:
        status = ran(phase="Stopped", pod=False, termination=requested(finalCheckpoint=1))
        o = observed(job(state="Drained", generation=2, status=status), index=index(record()))
        *_, d = look(o)
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert config.termination is not None
        assert (config.termination.mode, config.termination.request_id) == (Mode.DRAIN, "drain-2-2")

    def test_a_pending_stop_is_finished_first(self) -> None:
        status = ran(termination=requested())
        o = observed(
            job(state="Drained", status=status), pods=[running()], index=index(), reported=terminating()
        )
        assert look(o)[:3] == (Phase.STOPPING, "Stopping", [])

    def test_a_stop_that_was_never_sent_becomes_a_drain(self) -> None:
        status = ran(termination=requested())
        o = observed(job(state="Drained", status=status), pods=[running()], index=index(), reported=driver())
        (send,) = look(o)[3].actions
        assert isinstance(send, SendTermination)
        assert send.request.mode is Mode.DRAIN

    def test_out_of_input_the_job_has_finished(self) -> None:
        phase, _, do, d = look(observed(job(status=ran()), index=index(OUT_OF_INPUT)))
        assert (phase, do) == (Phase.FINISHED, [])
        assert is_ready(d)

    def test_a_stop_is_none_where_all_had_finished_and_the_script_had_not_ended(self) -> None:
        """Its next driver runs the script again; the end of that is in a checkpoint of its own."""
        finished = replace(OUT_OF_INPUT, scenario=Scenario.STOP, request_id="stop-1-1")
        end = {"epoch": 1, "code": 0, "phase": "Terminated"}
        stopped = observed(job(state="Stopped", status=ran(lastExit=end)), index=index(finished))
        assert look(stopped)[:3] == (Phase.STOPPED, "Stopped", [])
        resumed = observed(job(status=ran(phase="Stopped", lastExit=end)), index=index(finished))
        assert look(resumed)[2] == [EnsureSecret, CreateDriver]
        again = observed(
            job(status=ran(epoch=2, lastExit=end | {"epoch": 2})),
            index=index(finished, replace(OUT_OF_INPUT, checkpoint=OUT_OF_INPUT.checkpoint + 1, epoch=2)),
        )
        assert look(again)[:3] == (Phase.FINISHED, "Finished", [])

    def test_what_such_a_stop_has_left_can_go_on_without_the_index(self) -> None:
        """Its savepoint has the record, and is no drained one (see `rebuild`)."""
        finished = replace(OUT_OF_INPUT, scenario=Scenario.STOP, savepoint="file:/sp/stop-1-1")
        *_, d = look(observed(job(state="Stopped", status=ran()), index=index(finished)))
        assert d.status.savepoint is not None
        assert not d.status.savepoint.drained

    def test_a_script_that_stops_its_query_is_not_run_again_and_again(self) -> None:
        o = observed(job(status=ran()), index=index(record(request=None)))
        assert look(o)[:3] == (Phase.FINISHED, "ScriptEnded", [])
        stopped = observed(job(status=ran(phase="Stopped")), index=index(record(request=None)))
        assert look(stopped)[2] == [EnsureSecret, CreateDriver]


class TestADrainThatBecomesAStop:
    """Whether a query had read everything could not be established (`Task.leaves_rest`)."""

    STOPPED = record(2, 1, Scenario.STOP, request="drain-1-1")

    def test_it_is_stopped_and_says_so(self) -> None:
        end = {"epoch": 1, "code": 0, "phase": "Terminated"}
        asked = job(
            state="Drained", status=ran(phase="Draining", termination=requested("Drain"), lastExit=end)
        )
        *found, d = look(observed(asked, index=index(self.STOPPED)))
        assert found == [Phase.STOPPED, "EndOfInputUnknown", []]
        assert is_stalled(d)
        ready = d.status.condition(ConditionType.READY)
        assert ready is not None
        assert "whether windows have read everything cannot be established" in ready.message
        again = observed(asked.model_copy(update={"status": d.status}), index=index(self.STOPPED))
        assert look(again)[:3] == (Phase.STOPPED, "EndOfInputUnknown", []), "no driver follows"

    def test_another_request_tries_again(self) -> None:
        status = ran(phase="Stopped", termination=requested("Drain"))
        again = job(state="Drained", generation=3, status=status)
        assert look(observed(again, index=index(self.STOPPED)))[2] == [EnsureSecret, CreateDriver]
        resumed = job(state="Running", generation=2, status=status)
        assert look(observed(resumed, index=index(self.STOPPED)))[2] == [EnsureSecret, CreateDriver]


class TestCancel:
    @pytest.mark.parametrize("reported", [None, driver(), terminating(), driver(DriverPhase.STARTING)])
    def test_at_any_time(self, reported: Any) -> None:
        o = observed(
            job(state="Cancelled", status=ran(termination=requested())),
            pods=[running()],
            index=index(),
            reported=reported,
        )
        phase, _, _, d = look(o)
        assert phase is Phase.CANCELLING
        assert d.actions == (DeletePod("orders-driver-1", "pod-1", grace=1),)

    def test_also_one_that_exits_slowly(self) -> None:
        slow = running(deleting=True, grace=60)
        assert look(observed(job(state="Cancelled", status=ran()), pods=[slow], index=index()))[2] == [
            DeletePod
        ]
        quick = running(deleting=True, grace=1)
        assert look(observed(job(state="Cancelled", status=ran()), pods=[quick], index=index()))[2] == []

    def test_also_without_an_index(self) -> None:
        broken = Problem("UnknownFormatVersion", "version 9", "Upgrade")
        o = observed(job(state="Cancelled", status=ran()), pods=[running()], index_problem=broken)
        assert look(o)[2] == [DeletePod]

    def test_then_it_is_cancelled(self) -> None:
        o = observed(job(state="Cancelled", status=ran(termination=requested())), index=index())
        phase, _, do, d = look(o)
        assert (phase, do, d.status.termination) == (Phase.CANCELLED, [], None)

    @pytest.mark.parametrize(
        ("status", "latest", "spec", "says"),
        [
            ({}, [record()], {}, "continues from the latest checkpoint"),
            ({"stages": [{"uid": "a"}]}, [], {}, "continues from the last committed batches"),
            (
                {},
                [],
                {"restoreFrom": {"savepoint": "/data/sp/other/stop-1"}},
                "begins as spec.restoreFrom says",
            ),
            ({}, [], {}, "begins from nothing"),
        ],
    )
    def test_where_running_begins_is_said(
        self, status: dict[str, Any], latest: list[Any], spec: dict[str, Any], says: str
    ) -> None:
        o = observed(job(state="Cancelled", status=ran(**status), **spec), index=index(*latest))
        phase, _, _, d = look(o)
        assert phase is Phase.CANCELLED
        assert d.status.conditions[0].message.startswith(f"Cancelled; Running {says}")

    def test_and_running_continues_from_the_latest_checkpoint_whose_directories_may_be_ahead(self) -> None:
        status = {"phase": "Cancelled", "epoch": 2, "startedEpoch": 2}
        *_, d = look(observed(job(status=status), index=index(record())))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert (config.epoch, config.restore.latest, config.restore.exact) == (3, record(), False)
