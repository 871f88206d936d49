"""Sinks with two-phase commit: a job has ended when they have committed, not when the index has its
final checkpoint.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamjob.api import Phase
from streamjob.controller.rules.actions import CreateDriver, DeletePod, WriteIndex, completed_token
from streamjob.protocol.formats import index as indices
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_status import DriverPhase, Problem, TerminationStep

from ..factories import (
    MINUTE,
    SECOND,
    driver,
    exited,
    failed,
    index,
    job,
    look,
    observed,
    ran,
    record,
    requested,
    running,
    terminating,
)

WAITS = record(transactions=("shop.orders.windows.abc@7.1",))
ACKNOWLEDGED = frozenset({"stop-1-1", completed_token(1)})


def test_the_driver_is_waited_for_until_its_sinks_have_committed() -> None:
    reported = terminating(step=TerminationStep.COMPLETING, completed=WAITS)
    stopped = job(state="Stopped", status=ran(termination=requested()))
    o = observed(stopped, pods=[running()], index=index(WAITS), reported=reported, acknowledged=ACKNOWLEDGED)
    phase, _, do, _ = look(o)
    assert (phase, do) == (Phase.STOPPING, [])


def test_row5_when_it_has_exited_in_order_nothing_is_left_to_commit() -> None:
    report = driver(DriverPhase.TERMINATED, completed=WAITS)
    stopped = job(state="Stopped", status=ran(termination=requested()))
    o = observed(stopped, pods=[exited(report=report)], index=index(WAITS))
    assert look(o)[3].actions == (WriteIndex(index(WAITS.committed), "20"),)
    after = observed(stopped, pods=[exited(report=report)], index=index(WAITS.committed))
    assert look(after)[2] == [DeletePod]
    gone = observed(job(state="Stopped", status=look(after)[3].status.plain()), index=index(WAITS.committed))
    assert look(gone)[0] is Phase.STOPPED


@pytest.mark.parametrize(
    "left",
    [
        exited(137, reason="Error"),
        exited(
            1, report=driver(DriverPhase.FAILED, problem=Problem("SinkFailed", "no server", retryable=True))
        ),
        exited(0, report=driver(DriverPhase.TERMINATED, problem=Problem("SinkFailed", "no server"))),
        None,
    ],
)
def test_one_that_died_before_is_followed_by_another_that_commits(left: object) -> None:
    stopped = job(state="Stopped", status=ran(termination=requested()))
    pods = [left] if left else []
    phase, _, _, d = look(observed(stopped, pods=pods, index=index(WAITS)))  # type: ignore[arg-type]
    assert phase in (Phase.RESTARTING, Phase.FAILED)
    status = ran(termination=requested(), phase="Restarting", restarts=failed(again=-SECOND))
    phase, _, do, d = look(observed(job(state="Stopped", status=status), index=index(WAITS)))
    assert CreateDriver in do
    (create,) = [a for a in d.actions if isinstance(a, CreateDriver)]
    assert create.config.epoch == 2
    assert create.config.restore.latest == WAITS
    assert create.config.termination is not None
    assert create.config.termination.request_id == "stop-1-1", "the same request, so the same savepoint"


def test_what_the_later_epoch_brings_is_the_same_checkpoint() -> None:
    again = replace(WAITS.committed, epoch=2)
    reported = terminating(epoch=2, request="stop-1-1", step=TerminationStep.COMPLETING, completed=again)
    stopped = job(state="Stopped", status=ran(2, termination=requested()))
    o = observed(stopped, pods=[running(2)], index=index(WAITS), reported=reported)
    assert look(o)[3].actions == (WriteIndex(index(again), "20"),)
    gone = observed(stopped, pods=[exited(epoch=2)], index=index(again))
    assert look(gone)[2] == [DeletePod]


def test_row14_a_drained_job_whose_sinks_are_committed_later_is_drained() -> None:
    drained = record(2, 1, Scenario.DRAIN, request="drain-1-1", transactions=("o@7.2",))
    report = driver(DriverPhase.TERMINATED, 2)
    wanted = job(state="Drained", status=ran(2, termination=requested("Drain")))
    *_, d = look(observed(wanted, pods=[exited(epoch=2, report=report)], index=index(drained)))
    (write,) = d.actions
    assert isinstance(write, WriteIndex)
    latest = write.index.latest
    assert latest is not None
    assert (latest.epoch, latest.uncommitted) == (2, False)
    assert look(observed(wanted, index=write.index))[0] is Phase.DRAINED


def test_a_deleted_job_keeps_its_finalizer_until_its_sinks_have_committed() -> None:
    status = ran(
        termination=requested(),
        phase="Restarting",
        restarts=failed(again=-SECOND),
        stages=[{"uid": "windows"}],
    )
    deleted = job(deleted=MINUTE, status=status)
    assert CreateDriver in look(observed(deleted, index=index(WAITS)))[2]


def test_only_what_waits_can_be_brought_to_its_end_by_a_later_epoch() -> None:
    assert indices.committed(index(record()), 5) == index(record())
    with pytest.raises(ValueError, match="other contents"):
        indices.add(index(record()), replace(record(), epoch=2))
