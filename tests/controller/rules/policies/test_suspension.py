"""A job is suspended: its driver stops with a savepoint, and no other begins until it is resumed."""

from __future__ import annotations

from typing import Any

from streamjob.api import Condition, ConditionType, Phase
from streamjob.controller.rules.actions import CreateDriver, DeletePod, SendTermination
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode

from ...factories import (
    MINUTE,
    NOW,
    OUT_OF_INPUT,
    SECOND,
    at,
    driver,
    exited,
    failed,
    index,
    is_ready,
    job,
    observed,
    pod,
    ran,
    record,
    requested,
    running,
    terminating,
)

SUSPENDED = {"phase": "Suspended", "epoch": 1, "startedEpoch": 1}
END = record(request="suspend-1-2")


def suspended(o: Observed) -> Condition | None:
    return decide(o, NOW).status.condition(ConditionType.SUSPENDED)


def look(o: Observed) -> tuple[Phase | None, tuple[type, ...], Decision]:
    d = decide(o, NOW)
    return d.status.phase, tuple(type(a) for a in d.actions), d


def suspend(status: dict[str, Any] | None = None, **spec: Any) -> Any:
    return job(suspend=True, generation=2, status=status or {}, **spec)


def test_a_job_that_is_created_suspended_is_left_alone() -> None:
    """Nothing is written but its status: no finalizer, index or Secret."""
    phase, do, d = look(observed(suspend(finalizer=False)))
    assert (phase, do) == (Phase.SUSPENDED, ())
    assert is_ready(d)
    condition = d.status.condition(ConditionType.SUSPENDED)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "Suspended")
    assert condition.message.startswith("Suspended before it began")


def test_a_running_driver_stops_with_a_savepoint() -> None:
    o = observed(suspend(ran()), pods=[running()], index=index(), reported=driver())
    phase, do, d = look(o)
    assert (phase, do) == (Phase.STOPPING, (SendTermination,))
    (sent,) = d.actions
    assert isinstance(sent, SendTermination)
    assert (sent.request.request_id, sent.request.mode) == ("suspend-1-2", Mode.STOP)
    assert sent.request.savepoint is not None
    condition = suspended(o)
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "Suspending")


def test_it_is_suspended_when_no_driver_is_left() -> None:
    status = ran(phase="Stopping", termination=requested() | {"requestId": "suspend-1-2"})
    gone = observed(suspend(status), pods=[exited()], index=index(END))
    assert look(gone)[1] == (DeletePod,), "the pod holds its resources until it is gone"
    phase, do, d = look(observed(suspend(status), index=index(END)))
    assert (phase, do) == (Phase.SUSPENDED, ())
    assert is_ready(d)
    assert d.status.condition(ConditionType.SUSPENDED).status == "True"  # type: ignore[union-attr]
    assert "with checkpoint 1" in d.status.condition(ConditionType.READY).message  # type: ignore[union-attr]


def test_it_resumes_from_its_savepoint() -> None:
    status = SUSPENDED | {"conditions": [condition("True", "Suspended")]}
    _, do, d = look(observed(job(generation=3, status=status), index=index(END)))
    assert do[-1] is CreateDriver
    create = d.actions[-1]
    assert isinstance(create, CreateDriver)
    assert create.config.restore.latest is not None
    assert create.config.restore.exact
    found = d.status.condition(ConditionType.SUSPENDED)
    assert found is not None
    assert (found.status, found.reason) == ("False", "Resumed")


def test_other_jobs_do_not_have_the_condition() -> None:
    assert suspended(observed(job(status=ran()), pods=[running()], index=index(), reported=driver())) is None


def test_a_stop_that_is_in_progress_is_enough() -> None:
    o = observed(
        suspend(ran(phase="Stopping", termination=requested())),
        pods=[running()],
        index=index(),
        reported=terminating(),
        acknowledged=frozenset({"stop-1-1"}),
    )
    assert look(o)[:2] == (Phase.STOPPING, ())


def test_no_driver_begins_to_complete_what_its_driver_has_not() -> None:
    """Unlike a stop, it frees the resources."""
    status = ran(phase="Stopping", termination=requested())
    for waits in ({}, {"restarts": failed(again=MINUTE)}):
        _, do, d = look(observed(suspend(status | waits), index=index()))
        assert CreateDriver not in do
    phase, _, d = look(observed(suspend(status | {"restarts": failed(again=MINUTE)}), index=index()))
    assert phase is Phase.SUSPENDED
    assert d.status.termination is None
    assert "without a savepoint" in d.status.condition(ConditionType.READY).message  # type: ignore[union-attr]


def test_a_driver_that_has_not_run_is_deleted_at_once() -> None:
    o = observed(suspend(ran(phase="Starting", startedEpoch=0)), pods=[pod()], index=index())
    (delete,) = decide(o, NOW).actions
    assert isinstance(delete, DeletePod)
    assert delete.version == "5", "if the kubelet starts it just now, it stays"


def test_an_end_that_is_requested_is_not_held_up() -> None:
    for state, phase in (("Stopped", Phase.STOPPED), ("Cancelled", Phase.CANCELLED)):
        assert look(observed(suspend(SUSPENDED, state=state), index=index(END)))[0] is phase
    _, do, d = look(observed(suspend(SUSPENDED, state="Drained"), index=index(END)))
    assert do[-1] is CreateDriver
    assert d.status.termination is not None
    assert d.status.termination.mode == "Drain"


def test_a_job_that_has_ended_or_failed_stays_so() -> None:
    for phase, latest in (
        ("Finished", OUT_OF_INPUT),
        ("Drained", record(1, 1, Scenario.DRAIN, request="drain-1-1")),
    ):
        assert look(observed(suspend(ran(phase=phase, pod=False)), index=index(latest)))[0] is Phase(phase)
    for generation in (1, 2):
        status = ran(phase="Failed", restarts=failed(generation=generation))
        assert look(observed(suspend(status), index=index()))[0] is Phase.FAILED


def test_a_deletion_ends_it() -> None:
    o = observed(suspend(SUSPENDED, deleted=SECOND), index=index(END))
    (action,) = decide(o, NOW).actions
    assert type(action).__name__ == "SetFinalizer"


def test_a_suspension_that_takes_too_long_is_escalated_as_declared() -> None:
    late = requested(ago=20 * MINUTE) | {"requestId": "suspend-1-2"}
    policy: dict[str, Any] = {"termination": {"escalation": ["Cancel"]}}
    o = observed(
        suspend(ran(phase="Stopping", termination=late), **policy),
        pods=[running()],
        index=index(),
        reported=terminating(request="suspend-1-2"),
        acknowledged=frozenset({"suspend-1-2"}),
    )
    d = decide(o, NOW)
    assert d.status.escalation is not None
    status = d.status.plain()
    assert look(observed(suspend(status, **policy), pods=[running()], index=index()))[1] == (DeletePod,)
    phase, do, d = look(observed(suspend(status | {"startedEpoch": 1}, **policy), index=index()))
    assert (phase, do) == (Phase.SUSPENDED, ())
    assert is_ready(d)
    resumed = observed(job(generation=3, status=d.status.plain(), **policy), index=index())
    _, do, d = look(resumed)
    assert do[-1] is CreateDriver, "the escalation was of the suspension"
    assert d.status.escalation is None


def condition(status: str, reason: str) -> dict[str, Any]:
    return {
        "type": "Suspended",
        "status": status,
        "reason": reason,
        "message": "x",
        "observedGeneration": 2,
        "lastTransitionTime": at(-MINUTE),
    }
