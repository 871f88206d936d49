"""What holds whatever is observed, also what cannot happen: hypothesis makes up the worlds. More than 600
lines: every property is of the same worlds.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.api import Escalation, Phase, Specification, Status, UpgradeMode, UpgradeStep
from streamjob.api.specification import digest
from streamjob.controller.rules.actions import CreateDriver, DeletePod, OpenGate, SendTermination, WriteIndex
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import ExecutorPod, Observed, Pod
from streamjob.controller.rules.policies.past_drivers import TERMINAL_PHASES
from streamjob.controller.rules.status import final, own_end
from streamjob.protocol.formats.index import Index
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, Problem, TerminationStep

from ..factories import (
    MINUTE,
    NOW,
    at,
    driver,
    exited,
    failed,
    index,
    job,
    observed,
    pod,
    ran,
    record,
    requested,
    running,
    terminating,
    waiting,
)

PASSES = 5  # a driver that is lost in a stop past its timeout: lost, escalated, cancelled
EPOCHS = st.integers(1, 4)
IMAGES = st.sampled_from(["orders:1", "orders:2", "orders:3"])
PROBLEM = st.builds(Problem, st.just("QueryFailed"), st.just("boom"), st.just("fix it"), st.booleans())

EXAMPLES = int(os.environ.get("STREAMJOB_EXAMPLES", "100"))


@st.composite
def records(draw: st.DrawFn, epoch: int) -> Any:
    scenario = draw(st.sampled_from([Scenario.STOP, Scenario.DRAIN, Scenario.END_OF_INPUT]))
    request = draw(st.sampled_from([f"stop-{epoch}-1", f"drain-{epoch}-1", f"eviction-{epoch}", None]))
    return record(epoch, epoch, scenario, request=request)


@st.composite
def driver_statuses(draw: st.DrawFn, epoch: int) -> DriverStatus:
    completed = draw(st.one_of(st.none(), records(epoch)))
    evicted = draw(st.booleans())
    if draw(st.booleans()):
        phase = draw(st.sampled_from(DriverPhase))
        return driver(
            phase, epoch, completed=completed, evicted=evicted, problem=draw(st.one_of(st.none(), PROBLEM))
        )
    mode, step = draw(st.sampled_from(Mode)), draw(st.sampled_from(TerminationStep))
    return terminating(mode, epoch, step=step, completed=completed, evicted=evicted)


@st.composite
def pods(draw: st.DrawFn, epoch: int) -> Pod:
    made = Specification.of(job(image=draw(IMAGES)).spec)
    return replace(draw(_pods(epoch)), specification=draw(st.sampled_from([None, made])))


@st.composite
def _pods(draw: st.DrawFn, epoch: int) -> Pod:
    deleting = draw(st.booleans())
    kind = draw(st.sampled_from(["new", "stuck", "running", "exited", "evicted"]))
    if kind == "new":
        return pod(epoch, deleting=deleting)
    if kind == "stuck":
        reason = draw(st.sampled_from(["ErrImagePull", "CreateContainerConfigError"]))
        return waiting(reason, epoch, deleting=deleting, generation=draw(st.integers(1, 2)))
    if kind == "running":
        return running(epoch, deleting=deleting, grace=draw(st.sampled_from([None, 1, 60])))
    if kind == "evicted":
        return pod(epoch, phase="Failed", reason="Evicted", waiting=None, deleting=deleting)
    report = draw(st.one_of(st.none(), driver_statuses(epoch)))
    beside = draw(st.booleans())
    return exited(draw(st.sampled_from([0, 1, 137])), epoch, report=report, deleting=deleting, beside=beside)


@st.composite
def standbys(draw: st.DrawFn, epoch: int) -> Pod:
    made = Specification.of(job(image=draw(IMAGES)).spec)
    return replace(draw(_pods(epoch)), specification=made, prepared=True)


@st.composite
def upgrades(draw: st.DrawFn, epoch: int) -> dict[str, Any]:
    previous, target = (job(image=draw(IMAGES)).spec for _ in "12")
    return {
        "step": draw(st.sampled_from(UpgradeStep)),
        "generation": 1,
        "target": digest(target),
        "previous": draw(st.sampled_from([None, Specification.of(previous).text])),
        "epoch": draw(st.sampled_from([None, epoch])),
        "deadline": draw(st.sampled_from([None, at(-MINUTE), at(MINUTE)])),
    }


@st.composite
def standby_statuses(draw: st.DrawFn, epoch: int) -> dict[str, Any]:
    moments = st.sampled_from([None, at(-MINUTE), at(MINUTE)])
    return {
        "pod": f"orders-driver-{epoch}",
        "epoch": epoch,
        "phase": draw(st.sampled_from([None, "Running"])),
        "deadline": draw(moments),
        "failures": draw(st.integers(0, 3)),
        "generation": draw(st.integers(1, 3)),
        "nextAt": draw(moments),
    }


@st.composite
def rounds(draw: st.DrawFn, epoch: int) -> dict[str, Any]:
    moments = st.sampled_from([None, at(-20 * MINUTE), at(-4 * MINUTE), at(56 * MINUTE)])
    return {
        "next": draw(moments),
        "began": draw(moments),
        "afterEpoch": draw(st.integers(0, epoch)),
        "nonce": draw(st.sampled_from([None, 1])),
        "madeFrom": draw(st.sampled_from([None, Specification.of(job(image=draw(IMAGES)).spec).text])),
    }


@st.composite
def worlds(draw: st.DrawFn) -> Observed:
    epoch = draw(st.integers(0, 4))
    status: dict[str, Any] = {}
    if epoch:
        status = ran(
            epoch,
            draw(
                st.sampled_from(
                    ["Starting", "Running", "Stopping", "Stopped", "Cancelled", "Failed", "Waiting"]
                )
            ),
        )
        status["startedEpoch"] = draw(st.integers(0, epoch))
        if draw(st.booleans()):
            del status["driver"]
        if draw(st.booleans()):
            mode = draw(st.sampled_from(["Stop", "Drain"]))
            status["termination"] = requested(mode, epoch, ago=draw(st.sampled_from([MINUTE, 20 * MINUTE])))
        if draw(st.booleans()):
            again = draw(st.one_of(st.none(), st.sampled_from([-MINUTE, MINUTE])))
            status["restarts"] = failed(
                draw(st.integers(1, epoch)), count=draw(st.integers(1, 12)), again=again
            )
        if draw(st.integers(0, 3)) == 0:
            escalated = draw(st.sampled_from(["Running", "Stopped", "Drained"]))
            status["escalation"] = {
                "state": escalated,
                # A suspension becomes a cancel, never a stop, for which a driver would begin.
                "mode": draw(st.sampled_from(Escalation)) if escalated != "Running" else Escalation.CANCEL,
                "epoch": draw(st.integers(1, epoch)),
                "requestId": "drain-1-1",
                "since": at(-MINUTE),
                "waitedFor": "a batch",
            }
        if draw(st.booleans()):
            status["upgrade"] = draw(upgrades(epoch))
        if draw(st.booleans()):
            status["standby"] = draw(standby_statuses(epoch + 1))
    rounds_of = draw(st.sampled_from(["none", "new", "known"]))
    schedule = {} if rounds_of == "none" else {"schedule": {"cron": "0 * * * *", "timeout": "10m"}}
    if rounds_of == "known":
        status["rounds"] = draw(rounds(epoch))
    modes = [m for m in UpgradeMode if not schedule or m is not UpgradeMode.HANDOVER]
    known: Index | None = None
    if draw(st.booleans()):
        known = index(
            *[draw(records(e)) for e in sorted(draw(st.sets(st.integers(1, max(epoch, 1)), max_size=3)))]
        )
    live = [draw(pods(e)) for e in sorted(draw(st.sets(EPOCHS, max_size=3)))]
    newest = max([epoch, *[p.epoch for p in live]])
    reported = draw(st.one_of(st.none(), driver_statuses(newest))) if newest else None
    ahead: list[Pod] = [draw(standbys(newest + n)) for n in range(1, draw(st.integers(0, 2)) + 1)]
    phase_of_it = draw(st.sampled_from([DriverPhase.STARTING, DriverPhase.PREPARED, DriverPhase.FAILED]))
    prepared = driver(phase_of_it, ahead[-1].epoch) if bool(ahead) and draw(st.booleans()) else None
    restarts = status.get("restarts")
    over = bool(live) and live[-1].epoch == newest and live[-1].over
    counted = restarts is not None and restarts["epoch"] == newest
    left = (ExecutorPod("orders-exec-1", "exec-1"),) if over and counted and draw(st.booleans()) else ()
    deleted = draw(st.sampled_from([None, None, timedelta(seconds=5), 60 * MINUTE]))
    asked_state = draw(st.sampled_from(["Running", "Stopped", "Drained", "Cancelled"]))
    return observed(
        job(
            state=asked_state,
            suspend=draw(st.booleans()),
            image=draw(IMAGES),
            upgrade={"mode": draw(st.sampled_from(modes))},
            driver={"standby": rounds_of == "none" and draw(st.booleans())},
            restart={"failedDriversHistoryLimit": draw(st.integers(0, 2))},
            generation=draw(st.integers(1, 3)),
            status=status,
            **schedule,
            deleted=deleted,
            finalizer=draw(st.integers(0, 9)) > 0,
            termination={
                "onDelete": draw(st.sampled_from(["Stop", "Drain", "Cancel"])),
                "escalation": draw(st.sampled_from([[], ["Stop"], ["Cancel"], ["Stop", "Cancel"]])),
            },
        ),
        pods=live,
        index=known,
        reported=reported,
        silent=draw(st.sampled_from([0.0, 0.0, 45.0])),
        executors_left=left,
        standbys=tuple(ahead),
        prepared=prepared,
    )


def cancelled(o: Observed) -> bool:
    """The user cancelled: by the state, by a deletion past its timeout, or by a declared escalation."""
    job, e = o.job, o.job.status.escalation
    if e is not None and e.state is job.spec.state and (e.state.value != "Running" or job.spec.suspended):
        return True
    return job.spec.state.value == "Cancelled" or (
        job.deleting and (job.spec.termination.on_delete.value == "Cancel" or decide_is_late(o))
    )


def decide_is_late(o: Observed) -> bool:
    return (
        o.job.metadata.deletion_timestamp is not None
        and o.job.metadata.deletion_timestamp < "2026-01-02T02:34:06Z"
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_no_driver_is_torn_down_early(o: Observed) -> None:
    """V2. A deleted pod has exited, or never began, or the user cancelled, or a newer epoch has begun.
    The driver of a deleted job that has started no query gets a SIGTERM. Executors are deleted only when
    their driver has failed and nothing of it runs.

    A pod that never began is deleted only in the observed version. If a pod exited with a final
    checkpoint, the index has it.
    """
    by_name, executors = {p.name: p for p in o.pods}, {e.name for e in o.executors_left}
    waiting_ones = {p.name for p in o.standbys}  # have written nothing
    for action in decide(o, NOW).actions:
        if not isinstance(action, DeletePod):
            continue
        if action.name in waiting_ones:
            continue
        if action.name in executors:
            newest = o.pod
            assert newest is not None
            assert newest.over
            continue
        gone = by_name[action.name]
        assert action.uid == gone.uid
        if cancelled(o) or gone.epoch < o.epoch:
            continue
        idle = o.driver is not None and o.driver.phase is DriverPhase.STARTING
        if o.job.deleting and idle and not gone.terminated and gone.started:
            assert action.grace is None, "a query may start just now"
            continue
        assert gone.terminated or (not gone.started and action.version == gone.version)
        left = gone.exit.report.completed if gone.exit and gone.exit.report else None
        if left is not None and final(left) and left.epoch == gone.epoch:
            assert o.index is not None
            assert left.checkpoint in {c.checkpoint for c in o.index.checkpoints}


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_nothing_runs_of_a_job_at_rest(o: Observed) -> None:
    """V2. The containers of each of its drivers have exited, whether their pods are gone or not."""
    status = decide(o, NOW).status
    if status.phase in TERMINAL_PHASES and status.phase is not o.job.status.phase:
        assert all(p.exited and not p.beside for p in o.pods)


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_there_are_never_two_drivers(o: Observed) -> None:
    made = [a for a in decide(o, NOW).actions if isinstance(a, CreateDriver)]
    assert len(made) <= 1
    if made and made[0].config.prepared:
        assert made[0].config.restore == Restore()
        assert made[0].config.epoch > o.epoch
        assert made[0].config.epoch not in {p.epoch for p in (*o.pods, *o.standbys)}
    elif made:
        assert all(p.over for p in o.pods)
        assert len(o.pods) <= o.job.spec.restart.failed_drivers_history_limit
        assert made[0].config.epoch >= o.epoch
        assert made[0].config.epoch not in {p.epoch for p in o.pods}


@st.composite
def hand_overs(draw: st.DrawFn) -> Observed:
    """A hand-over is about to be done: all that it takes is there, but for one or two things at most."""
    off = [draw(st.sampled_from([*AMISS])) for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    seen = AS_IT_SHOULD_BE | {field: draw(st.sampled_from(AMISS[field])) for field in off}
    records, reported = seen["end"]
    old, new = (Specification.of(job(image=image).spec) for image in ("orders:1", "orders:2"))
    upgrade = {
        "step": seen["step"],
        "generation": 2,
        "target": digest(job(image="orders:2").spec),
        "previous": old.text,
        "epoch": seen["epoch"],
        "deadline": at(MINUTE),
    }
    status = ran(1, "Stopping", termination=requested("Stop", 1) | {"requestId": "upgrade-1-2"})
    status |= {"upgrade": upgrade, **({"restarts": seen["restarts"]} if seen["restarts"] else {})}
    spec = {"state": seen["state"], "image": seen["image"], "upgrade": {"mode": seen["mode"]}}
    return observed(
        job(generation=2, status=status, **spec),
        pods=[replace(p, specification=old) for p in seen["pods"]],
        index=index(*records),
        reported=reported,
        acknowledged=frozenset({"checkpoint-1-completed", "upgrade-1-2"}),
        standbys=tuple(replace(p, specification=new, prepared=True) for p in seen["standbys"]),
        prepared=seen["prepared"],
    )


ENDED = record(1, 1, Scenario.STOP, request="upgrade-1-2")
CLOSED = replace(terminating(request="upgrade-1-2", completed=ENDED), phase=DriverPhase.TERMINATED)
AS_IT_SHOULD_BE: dict[str, Any] = {
    "step": UpgradeStep.STOPPING,
    "epoch": 2,
    "restarts": None,
    "state": "Running",
    "image": "orders:2",
    "mode": UpgradeMode.HANDOVER,
    "pods": [running(1)],
    "end": ([ENDED], CLOSED),
    "standbys": [running(2)],
    "prepared": driver(DriverPhase.PREPARED, 2),
}
AMISS: dict[str, list[Any]] = {  # what may be instead
    "step": [UpgradeStep.PREPARING, UpgradeStep.STARTING, UpgradeStep.ROLLED_BACK],
    "epoch": [3],
    "restarts": [failed(1, again=-MINUTE), failed(1, again=MINUTE)],
    "state": ["Stopped", "Drained", "Cancelled"],
    "image": ["orders:1", "orders:3"],
    "mode": [UpgradeMode.SAVEPOINT],
    "pods": [[], [exited(0, 1, report=CLOSED)], [exited(137, 1)]],
    "end": [  # what the index has, and what the driver says
        *(
            ([r], replace(CLOSED, completed=None))
            for r in (
                record(1, 1, None),
                record(1, 1, Scenario.STOP, request=None),
                record(1, 1, Scenario.END_OF_INPUT, request=None),
                record(1, 1, Scenario.STOP, request="upgrade-1-2", transactions=("t",)),
                record(1, 1, Scenario.STOP, request="upgrade-1-2", stages=False),
            )
        ),
        *(
            ([ENDED], said)
            for said in (
                None,
                driver(),
                replace(CLOSED, phase=DriverPhase.TERMINATING),
                replace(CLOSED, problem=Problem("QueryFailed", "boom", "Look")),
            )
        ),
    ],
    "standbys": [[], [exited(1, 2)], [running(2, deleting=True)], [running(2), running(3)]],
    "prepared": [None, driver(DriverPhase.STARTING, 2), driver(DriverPhase.FAILED, 2)],
}


@st.composite
def failovers(draw: st.DrawFn) -> Observed:
    """A driver has died, and its standby is about to take over: but for one or two things at most."""
    off = [draw(st.sampled_from([*AMISS_AT_A_DEATH])) for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    seen = DEAD | {field: draw(st.sampled_from(AMISS_AT_A_DEATH[field])) for field in off}
    records, reported = seen["end"]
    made = Specification.of(job(image="orders:1").spec)
    status = ran(1, "Restarting") | {"restarts": seen["restarts"], "standby": seen["named"]}
    wanted = {"image": seen["image"], "driver": {"standby": seen["asked"]}, **seen["wanted"]}
    return observed(
        job(status={k: v for k, v in status.items() if v is not None}, **wanted),
        pods=[replace(p, specification=made) for p in seen["pods"]],
        index=index(*records),
        reported=reported,
        standbys=tuple(replace(p, specification=made, prepared=True) for p in seen["standbys"]),
        prepared=seen["prepared"],
    )


NAMED = {"pod": "orders-driver-2", "epoch": 2, "phase": "Running"}
DEAD: dict[str, Any] = {
    "asked": True,
    "named": NAMED,
    "restarts": failed(1, again=MINUTE),
    "wanted": {},
    "image": "orders:1",
    "pods": [exited(137, 1)],
    "end": ([record(1, 1, None)], None),
    "standbys": [running(2)],
    "prepared": driver(DriverPhase.PREPARED, 2),
}
AMISS_AT_A_DEATH: dict[str, list[Any]] = {
    "asked": [False],
    "named": [None, NAMED | {"epoch": 3}, NAMED | {"nextAt": at(MINUTE)}],
    "restarts": [None, failed(1), failed(1, again=-MINUTE)],
    "wanted": [{"state": "Stopped"}, {"state": "Drained"}, {"state": "Cancelled"}, {"suspend": True}],
    "image": ["orders:2"],
    "pods": [
        [],
        [running(1)],
        [running(1, deleting=True)],
        [exited(137, 1, deleting=True)],
        [exited(137, 1, reason="ContainerStatusUnknown")],
        [running(1, phase="Failed")],
        [exited(1, 0), exited(137, 1, beside=True)],
        [running(0), exited(137, 1)],
    ],
    "end": [
        ([record(1, 1, Scenario.END_OF_INPUT, request=None)], None),
        ([record(1, 1, Scenario.STOP, request="eviction-1")], driver(DriverPhase.TERMINATED)),
        ([record(1, 1, Scenario.STOP, request="eviction-1")], driver()),
        ([record(1, 1, Scenario.STOP, request="eviction-1", stages=False)], None),
    ],
    "standbys": AMISS["standbys"],
    "prepared": AMISS["prepared"],
}


@settings(max_examples=3 * EXAMPLES, deadline=None)
@given(st.one_of(hand_overs(), hand_overs(), failovers(), failovers(), worlds()))
def test_a_gate_opens_only_when_no_other_driver_can_commit(o: Observed) -> None:
    """V2, V12. Its epoch is in the status before: with the same status, nothing else begins."""
    d = decide(o, NOW)
    for action in d.actions:
        if not isinstance(action, OpenGate):
            continue
        assert d.status.epoch == d.status.started_epoch == action.gate.epoch
        assert not cancelled(o)
        assert action.gate.restore.recorded is None, "it is only read at a start"
        driver = o.driver
        if action.gate.epoch == o.epoch:
            assert o.pod is not None
            assert o.pod.prepared
            assert driver is not None
            assert driver.phase is DriverPhase.PREPARED
            continue
        asked, standby = o.job.status.upgrade, o.job.status.standby
        by_upgrade = asked is not None and asked.epoch == action.gate.epoch
        assert by_upgrade or o.job.spec.driver.standby
        assert by_upgrade or standby is None or standby.epoch <= action.gate.epoch
        assert action.gate.epoch == o.standbys[-1].epoch
        assert (o.job.spec.state.value, o.job.spec.suspended, o.job.deleting) == ("Running", False, False)
        lost = o.job.status.restarts
        assert lost is None or lost.epoch != o.epoch or lost.next_at is not None, "it has failed for good"
        assert o.prepared is not None
        assert (o.prepared.epoch, o.prepared.phase) == (action.gate.epoch, DriverPhase.PREPARED)
        latest = o.index.latest if o.index is not None else None
        for older in (p for p in o.pods if not p.exited):
            assert older.epoch == o.epoch
            assert driver is not None
            assert (driver.phase, driver.problem) == (DriverPhase.TERMINATED, None)
            assert latest is not None
            assert (final(latest), latest.epoch) == (True, older.epoch)
            assert not latest.uncommitted
            assert not own_end(latest), "the job is over"


@pytest.mark.parametrize("worlds_of", [hand_overs, failovers])
def test_the_worlds_of_hand_overs_reach_the_gate(worlds_of: Any) -> None:
    opened = []

    @settings(max_examples=200, deadline=None, derandomize=True, database=None)
    @given(worlds_of())
    def note(o: Observed) -> None:
        opened.append(any(isinstance(a, OpenGate) for a in decide(o, NOW).actions))

    note()
    # Hypothesis shows no world twice, and what is as it should be is one of them.
    assert sum(opened) > len(opened) / 10
    assert not all(opened)


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_no_driver_begins_while_the_job_is_suspended(o: Observed) -> None:
    d = decide(o, NOW)
    if o.job.spec.suspended and not o.job.deleting:  # a deletion ends the suspension
        assert not [a for a in d.actions if isinstance(a, CreateDriver)]
    if d.status.phase is Phase.SUSPENDED and d.status.phase is not o.job.status.phase:
        assert o.job.spec.suspended
        assert all(p.over for p in o.pods)


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_a_driver_that_only_runs_begins_in_a_round(o: Observed) -> None:
    """With a schedule. One that ends something (a stop, a drain) begins without."""
    d, before = decide(o, NOW), o.job.status.rounds
    made = [a for a in d.actions if isinstance(a, CreateDriver)]
    if o.job.spec.schedule is None:
        assert d.status.rounds is None
        assert not any(a.config.round for a in made)
    elif made and d.status.termination is None:
        assert d.status.rounds is not None
        assert d.status.rounds.began is not None
        assert made[0].config.round
    elif before is not None and d.status.rounds is not None:
        assert d.status.rounds.missed >= before.missed


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_status_never_goes_back(o: Observed) -> None:
    """V7."""
    d = decide(o, NOW)
    old, new = o.job.status, d.status
    assert new.epoch >= old.epoch
    assert new.started_epoch >= old.started_epoch
    assert (new.checkpoint.latest if new.checkpoint else 0) >= (
        old.checkpoint.latest if old.checkpoint else 0
    )
    assert Status.model_validate(new.plain()) == new


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_intent_comes_before_effect(o: Observed) -> None:
    """What is sent or made is recorded in the status that is written first."""
    d = decide(o, NOW)
    for action in d.actions:
        if isinstance(action, SendTermination):
            t = d.status.termination
            assert t is not None
            assert (t.request_id, t.mode, t.savepoint) == (
                action.request.request_id,
                action.request.mode.value,
                action.request.savepoint,
            )
            assert action.request.epoch == d.status.epoch
        if isinstance(action, CreateDriver) and action.config.prepared:
            named = (d.status.upgrade, d.status.standby)
            assert action.config.epoch in [n.epoch for n in named if n is not None]
            assert d.status.epoch < action.config.epoch
        elif isinstance(action, CreateDriver):
            assert d.status.epoch == action.config.epoch
            assert d.status.driver is not None
            carried = action.config.termination
            assert (carried.request_id if carried else None) == (
                d.status.termination.request_id if d.status.termination else None
            )


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_the_index_only_grows(o: Observed) -> None:
    for action in decide(o, NOW).actions:
        if isinstance(action, WriteIndex):
            before = o.index.checkpoints if o.index else ()
            assert set(before) <= set(action.index.checkpoints)
            assert action.version == o.index_version


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_success_is_claimed_only_with_the_checkpoint_in_the_index(o: Observed) -> None:
    """A lost node means resume, never success."""
    d: Decision = decide(o, NOW)
    if d.status.phase is None or d.status.phase == o.job.status.phase:
        return
    if d.status.phase.value in ("Stopped", "Drained", "Finished") and d.status.started_epoch:
        assert o.index is not None
        assert o.index.latest is not None
        assert o.index.latest.epoch >= d.status.started_epoch


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_what_is_written_is_looked_at_again_if_it_leads_to_more(o: Observed) -> None:
    """The event of our own write enqueues nothing: what the new status requires would wait forever."""
    decision = decide(o, NOW)
    if decision.actions or decision.status == o.job.status or decision.requeue_after == 0:
        return
    after = decide(replace(o, job=o.job.model_copy(update={"status": decision.status})), NOW)
    assert not after.actions
    assert after.status == decision.status


@settings(max_examples=EXAMPLES, deadline=None)
@given(worlds())
def test_deciding_twice_settles(o: Observed) -> None:
    """With nothing to do, the status settles: no two rules write it in turn."""
    for _ in range(PASSES):
        decision = decide(o, NOW)
        if decision.actions or decision.status == o.job.status:
            return
        o = replace(o, job=o.job.model_copy(update={"status": decision.status}))
    pytest.fail(f"after {PASSES} passes it still changes: {decision.status}")
