"""A job begins: what is observed → phase, reason and what is done."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.api import Phase
from streamjob.controller.rules.actions import (
    CreateDriver,
    EnsureRuntime,
    EnsureSecret,
    SetFinalizer,
    WriteIndex,
)
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.status import not_made
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_status import DriverPhase

from ..factories import (
    MINUTE,
    NOW,
    driver,
    index,
    is_ready,
    job,
    look,
    observed,
    pod,
    ran,
    record,
    running,
)


class TestBeginning:
    def test_the_finalizer_comes_first(self) -> None:
        phase, _, do, _ = look(observed(job(finalizer=False)))
        assert (phase, do) == (Phase.PENDING, [SetFinalizer])

    def test_then_secret_index_and_driver_in_this_order(self) -> None:
        phase, reason, do, d = look(observed(job()))
        assert (phase, reason, do) == (Phase.STARTING, "Starting", [EnsureSecret, WriteIndex, CreateDriver])
        assert d.status.epoch == 1, "the epoch is recorded before its driver is made"
        assert d.status.driver is not None
        assert d.status.driver.uid is None

    def test_an_injected_runtime_is_there_before_the_driver_that_mounts_it(self) -> None:
        _, _, do, _ = look(observed(job(runtime="Injected"), index=index()))
        assert do == [EnsureSecret, EnsureRuntime, CreateDriver]

    def test_a_driver_that_may_not_have_been_created_is_created_again_in_the_same_epoch(self) -> None:
        status = {"phase": "Starting", "epoch": 3, "startedEpoch": 2, "driver": {"pod": "orders-driver-3"}}
        _, _, do, d = look(observed(job(status=status), index=index()))
        assert do == [EnsureSecret, CreateDriver]
        assert d.status.epoch == 3

    def test_a_driver_that_may_have_run_unseen_is_not_taken_for_one_that_never_began(self) -> None:
        """It was made, nobody looked, and it is gone: what it has done needs a savepoint."""
        status = {"phase": "Starting", "epoch": 1, "driver": {"pod": "orders-driver-1"}}
        phase, _, do, d = look(observed(job(state="Stopped", status=status), index=index()))
        assert (phase, do) == (Phase.STARTING, [EnsureSecret, CreateDriver])
        assert d.status.termination is not None
        assert d.status.started_epoch == 1

    def test_a_driver_that_has_left_a_checkpoint_is_not_created_again(self) -> None:
        """It was evicted, and its pod was gone before the status had it. The epoch has had its end."""
        status = {"phase": "Starting", "epoch": 1, "startedEpoch": 1, "driver": {"pod": "orders-driver-1"}}
        left = index(record(1, 1, Scenario.STOP, request="eviction-1"))
        _, _, do, d = look(observed(job(status=status), index=left))
        assert (do, d.status.epoch) == ([EnsureSecret, CreateDriver], 2)

    def test_a_driver_that_was_refused_has_not_run(self) -> None:
        given = job(state="Stopped", status={"epoch": 1, "driver": {"pod": "orders-driver-1"}})
        refused = given.model_copy(update={"status": not_made(given.status)})
        phase, *_ = look(observed(refused, index=index()))
        assert phase is Phase.STOPPED

    def test_a_job_that_is_stopped_from_the_start_never_begins(self) -> None:
        phase, _, do, d = look(observed(job(state="Stopped", finalizer=False)))
        assert (phase, do) == (Phase.STOPPED, [])
        assert is_ready(d)

    def test_the_first_driver_restores_the_named_savepoint(self) -> None:
        wanted = {"savepoint": "file:///data/sp/other/x", "allowDrained": True}
        *_, d = look(observed(job(restoreFrom=wanted)))
        config = next(a for a in d.actions if isinstance(a, CreateDriver)).config
        assert config.restore.savepoint == wanted["savepoint"]
        assert config.restore.allow_drained

    @pytest.mark.parametrize(
        ("reported", "expected"),
        [
            (None, Phase.STARTING),
            (driver(DriverPhase.STARTING), Phase.STARTING),
            (driver(), Phase.RUNNING),
        ],
    )
    def test_starting_until_a_query_runs(self, reported: Any, expected: Phase) -> None:
        phase, _, do, d = look(
            observed(job(status=ran()), pods=[running()], index=index(), reported=reported)
        )
        assert (phase, do) == (expected, [])
        assert is_ready(d) == (expected is Phase.RUNNING)

    def test_in_a_terminal_phase_nothing_is_written(self) -> None:
        o = observed(job(status=ran()), pods=[running()], index=index(), reported=driver())
        first = decide(o, NOW)
        again = observed(job(status=first.status.plain()), pods=[running()], index=index(), reported=driver())
        assert decide(again, NOW + MINUTE) == Decision(first.status)


def test_pending_pods_are_waited_for() -> None:
    phase, _, do, _ = look(observed(job(status={"epoch": 1}), pods=[pod()], index=index()))
    assert (phase, do) == (Phase.STARTING, [])
