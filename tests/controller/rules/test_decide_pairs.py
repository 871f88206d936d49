"""A second patch at any moment: each pending operation with each new state.

The outcomes are those of the table in docs/operations.md. The test reads the table, so that the manual
and `decide` cannot differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from streamjob.api import ConditionType, Specification
from streamjob.api.specification import digest
from streamjob.controller.rules.actions import CreateDriver, DeletePod, SendTermination, completed_token
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed, Pod
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverStatus, TerminationStep

from ..factories import (
    MINUTE,
    NOW,
    OUT_OF_INPUT,
    SECOND,
    at,
    driver,
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

MANUAL = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
STATES: dict[str, dict[str, Any]] = {  # column of the manual: the patch
    "Running": {"state": "Running"},
    "Stopped": {"state": "Stopped"},
    "Drained": {"state": "Drained"},
    "Cancelled": {"state": "Cancelled"},
    "suspended": {"state": "Running", "suspend": True},
}
STOPPED, DRAINED = record(), record(1, 1, Scenario.DRAIN, request="drain-1-1")


@dataclass(frozen=True)
class Moment:
    """What is pending when the patch comes. `end`: the final checkpoint of the acknowledged request."""

    status: dict[str, Any] = field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    latest: CheckpointRecord | None = None
    reported: DriverStatus | None = None
    acknowledged: tuple[str, ...] = ()
    end: CheckpointRecord | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    silent: float = 0.0

    def observed(self, state: str) -> Observed:
        return observed(
            job(**STATES[state], generation=2, status=self.status, **self.spec),
            pods=list(self.pods),
            index=None if not self.status else index(self.latest) if self.latest else index(),
            reported=self.reported,
            acknowledged=frozenset(self.acknowledged),
            silent=self.silent,
        )

    def after(self, state: str, decision: Decision) -> Observed:
        """The driver has ended in order and its pod is gone."""
        assert self.end is not None
        return observed(
            job(**STATES[state], generation=2, status=decision.status.plain(), **self.spec),
            index=index(self.end),
        )


def ending(mode: Mode, end: CheckpointRecord, *, durable: bool = False) -> Moment:
    """A driver that has acknowledged a termination."""
    phase = "Draining" if mode is Mode.DRAIN else "Stopping"
    request = f"{mode.value.lower()}-1-1"
    reported = (
        terminating(mode, step=TerminationStep.COMPLETING, completed=end) if durable else terminating(mode)
    )
    return Moment(
        ran(phase=phase, termination=requested(mode.value)),
        (running(),),
        end if durable else None,
        reported,
        (request, completed_token(1)) if durable else (request,),
        end,
    )


def too_late(mode: Mode, *escalation: str, became: str = "") -> Moment:
    """The timeout of a stop or drain has passed. `became`: the recorded escalation, in its driver's epoch."""
    before = ending(mode, DRAINED if mode is Mode.DRAIN else STOPPED)
    status = {**before.status, "termination": requested(mode.value, ago=40 * MINUTE)}
    if became:
        state = "Drained" if mode is Mode.DRAIN else "Stopped"
        record = {"state": state, "mode": became, "epoch": 1, "requestId": "x", "waitedFor": "a batch"}
        status |= {"escalation": {**record, "since": at(-SECOND)}}
    return replace(before, status=status, end=None, spec={"termination": {"escalation": list(escalation)}})


def recorded(mode: Mode) -> Moment:
    """The intent is in the status, and the request has not been sent."""
    phase = "Draining" if mode is Mode.DRAIN else "Stopping"
    return Moment(ran(phase=phase, termination=requested(mode.value)), (running(),), reported=driver())


def failing(phase: str, mode: Mode | None = None) -> Moment:
    entry = failed(again=MINUTE if phase == "Restarting" else None)
    asked_for = {"termination": requested(mode.value)} if mode else {}
    return Moment(ran(phase=phase, restarts=entry) | asked_for)


def resting(phase: str, latest: CheckpointRecord | None) -> Moment:
    return Moment(ran(phase=phase, pod=False), latest=latest)


def upgrading(sent: bool) -> Moment:
    """The driver is made from another image than the spec has by now."""
    spec, made = {"image": "orders:2"}, Specification.of(job().spec)
    pods = (running(specification=made),)
    if not sent:
        return Moment(ran(), pods, reported=driver(), spec=spec)
    upgrade = {"step": "Stopping", "generation": 2, "target": "x", "previous": made.text}
    status = ran(phase="Stopping", termination=requested() | {"requestId": "upgrade-1-2"}, upgrade=upgrade)
    reported, end = terminating(request="upgrade-1-2"), record(request="upgrade-1-2")
    return Moment(status, pods, reported=reported, acknowledged=("upgrade-1-2",), end=end, spec=spec)


NEW: dict[str, Any] = {"image": "orders:2"}


def upgraded(step: str, epoch: int, pods: tuple[Pod, ...] = (), phase: str = "", **more: Any) -> Moment:
    """An upgrade after the savepoint of epoch 1. `step`: how far the driver of the new image is."""
    target = digest(job(**NEW).spec)
    upgrade = {"step": step, "generation": 1, "target": target, "previous": Specification.of(job().spec).text}
    if step == "Starting":
        upgrade |= {"epoch": 2, "deadline": at(MINUTE), "savepoint": "file:///data/sp/x/upgrade-1-2"}
    else:
        upgrade |= {"epoch": 2, "error": {"reason": "X", "message": "boom", "time": at(-MINUTE)}}
    seen = {"pod": bool(pods)} if not more else {}
    status = ran(epoch, phase=phase or "Running", **seen, upgrade=upgrade, **more)
    reported = driver(epoch=epoch) if pods and pods[0].started else None
    return Moment(status, pods, record(request="upgrade-1-2"), reported, spec=NEW)


def new(**more: Any) -> Pod:
    """The second epoch's, of the image that the spec has by now."""
    return pod(2, **{"specification": Specification.of(job(**NEW).spec), **more})


NEW_RUNS = new(phase="Running", ip="10.0.0.9", waiting=None, started_at=NOW - SECOND)
BACK_RUNS = running(3, specification=Specification.of(job().spec))
SAVING = {
    "requestId": "savepoint-1-1",
    "cause": "Manual",
    "requestedAt": at(-SECOND),
    "deadline": at(MINUTE),
    "savepoint": "file:///data/sp/x/savepoint-1-1",
}
MOMENTS = {
    "nothing yet": Moment(),
    "the driver is starting": Moment(ran(phase="Starting", startedEpoch=0), (pod(),)),
    "its driver cannot start": Moment(ran(phase="Starting", startedEpoch=0), (waiting("ErrImagePull"),)),
    "it runs": Moment(ran(), (running(),), reported=driver()),
    "it takes a live savepoint": Moment(
        ran(savepointRequest=SAVING), (running(),), reported=driver(), acknowledged=("savepoint-1-1",)
    ),
    "its driver does not answer": Moment(ran(), (running(),), reported=driver(), silent=40.0),
    "it is evicted": Moment(
        ran(phase="Stopping"),
        (running(deleting=True, grace=30),),
        reported=terminating(request="eviction-1"),
        end=record(request="eviction-1"),
    ),
    "a stop is recorded, not yet sent to the driver": recorded(Mode.STOP),
    "it is stopping": ending(Mode.STOP, STOPPED),
    "it is stopping, the checkpoint is in the index": ending(Mode.STOP, STOPPED, durable=True),
    "a drain is recorded, not yet sent to the driver": recorded(Mode.DRAIN),
    "it is draining": ending(Mode.DRAIN, DRAINED),
    "it is draining, the checkpoint is in the index": ending(Mode.DRAIN, DRAINED, durable=True),
    "the specification has changed": upgrading(sent=False),
    "it is stopping for an upgrade": upgrading(sent=True),
    "the specification has changed, for the next epoch": replace(
        upgrading(sent=False), spec={**NEW, "upgrade": {"mode": "NextEpoch"}}
    ),
    "the upgraded driver is starting": upgraded("Starting", 2, (new(),), "Starting", startedEpoch=1),
    "the upgraded driver cannot start": upgraded(
        "Starting", 2, (new(waiting=("ErrImagePull", "it is not there")),), "Starting", startedEpoch=1
    ),
    "the upgraded driver runs, its probation has not passed": upgraded("Starting", 2, (NEW_RUNS,)),
    "the upgraded driver has failed once": upgraded(
        "Starting", 2, (), "Restarting", restarts=failed(2, again=MINUTE)
    ),
    "the upgrade is rolled back": upgraded("RolledBack", 2, (), "Restarting"),
    "it runs the previous specification again": upgraded("RolledBack", 3, (BACK_RUNS,)),
    "the drain has passed its timeout and may become a stop": too_late(Mode.DRAIN, "Stop"),
    "its drain has become a stop": too_late(Mode.DRAIN, "Stop", became="Stop"),
    "its drain has become a cancel": too_late(Mode.DRAIN, "Cancel", became="Cancel"),
    "the stop has passed its timeout and may become a cancel": too_late(Mode.STOP, "Cancel"),
    "its stop has become a cancel": too_late(Mode.STOP, "Cancel", became="Cancel"),
    "waiting for a restart": failing("Restarting"),
    "waiting for a restart in a stop": failing("Restarting", Mode.STOP),
    "waiting for a restart in a drain": failing("Restarting", Mode.DRAIN),
    "Failed": failing("Failed"),
    "Failed in a stop": failing("Failed", Mode.STOP),
    "Failed in a drain": failing("Failed", Mode.DRAIN),
    "Stopped": resting("Stopped", STOPPED),
    "Drained": resting("Drained", DRAINED),
    "Finished": resting("Finished", OUT_OF_INPUT),
    "Cancelled": resting("Cancelled", None),
}
CONTINUES = {
    "Starting": "waits for it",
    "Running": "keeps running",
    "Stopping": "the stop continues",
    "Draining": "the drain continues",
}


def describe(d: Decision, mode_is_new: bool) -> str:
    """A decision in the words of the manual."""
    for action in d.actions:
        match action:
            case DeletePod(version=None):
                return "killed"
            case DeletePod():
                return "abandoned"
            case SendTermination(request):
                return "is told to stop" if request.mode is Mode.STOP else "is told to drain"
            case CreateDriver(config):
                end = config.termination
                return f"a driver that {end.mode.value.lower()}s" if end else "a driver that runs"
    ready = d.status.condition(ConditionType.READY)
    assert ready is not None
    assert d.status.phase is not None
    phase = d.status.phase.value
    if phase in ("Stopping", "Draining") and mode_is_new:
        return (
            "is told to stop when it answers" if phase == "Stopping" else "is told to drain when it answers"
        )
    if ready.reason == "Escalated":
        return "becomes a stop" if phase == "Stopping" else "becomes a cancel"
    text = CONTINUES.get(phase, phase)
    return text if ready.reason in (phase, text) else f"{text} ({ready.reason})"


def outcome(moment: Moment, state: str) -> str:
    d = decide(moment.observed(state), NOW)
    now = describe(d, mode_is_new=moment.reported is None)
    if moment.end is None or now == "killed":
        return now
    return f"{now}, then {describe(decide(moment.after(state, d), NOW), mode_is_new=False)}"


def table() -> dict[tuple[str, str], str]:
    """(what is pending, the new state) → outcome, from the manual."""
    section = MANUAL.partition("## A second patch")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \|$", section, re.MULTILINE)
    cells = [row.split(" | ") for row in rows]
    assert cells[0][1:] == list(STATES)
    return {(row[0], state): cell for row in cells[1:] for state, cell in zip(STATES, row[1:], strict=True)}


def test_the_manual_has_every_pair() -> None:
    assert set(table()) == {(moment, state) for moment in MOMENTS for state in STATES}


@pytest.mark.parametrize(("moment", "state"), [(m, s) for m in MOMENTS for s in STATES])
def test_the_outcome_is_that_of_the_manual(moment: str, state: str) -> None:
    assert outcome(MOMENTS[moment], state) == table()[moment, state]
