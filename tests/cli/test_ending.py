"""How far a stop, drain, resume, cancel or suspension has come, and whose move it is."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamjob.cli.views.ending import GOALS, look, refused
from streamjob.cli.views.job import job
from streamjob.cli.views.progress import Mover, Outcome, Progress, picture, sentence
from streamjob.protocol.messages.driver_status import Problem, TerminationStep

from ..controller.factories import (
    NOW,
    exited,
    index,
    observed,
    pod,
    ran,
    record,
    requested,
    running,
    terminating,
    waiting,
)
from ..controller.factories import job as a_job
from ..gitops.cases import resource
from .recorded import lives, situations

STOPPING = ran(phase="Stopping", termination=requested())
FULL = Problem("StorageFull", "no space is left on the storage of savepoints", "Make room", retryable=True)


def seen(verb: str, obj: dict[str, Any]) -> Progress:
    return look(GOALS[verb], job(obj), NOW)


def stopping(**more: Any) -> dict[str, Any]:
    termination = replace(terminating().termination, **more)  # type: ignore[type-var]
    driver = replace(terminating(), termination=termination)
    return resource(observed(a_job(state="Stopped", status=STOPPING), pods=[running()], reported=driver))


def test_a_resume_that_waits_until_the_last_pod_is_gone() -> None:
    status = ran(phase="Stopped", termination=requested())
    o = observed(a_job(status=status, generation=2), pods=[exited(deleting=True)], index=index(record()))
    found = seen("resume", resource(o))
    assert [s.text for s in found.steps if s.mark == "now"] == ["the driver's pod is created"]
    assert (found.outcome, found.mover) == (Outcome.GOING, Mover.KUBERNETES)
    assert found.waits_for.endswith("orders-driver-1")
    assert "finalizers" in found.move


def test_a_job_that_is_there() -> None:
    for verb, name in (
        ("stop", "healthy_stopped"),
        ("drain", "healthy_drained"),
        ("resume", "healthy_running"),
        ("cancel", "healthy_cancelled"),
        ("suspend", "suspended"),
    ):
        found = seen(verb, situations()[name])
        assert found.outcome is Outcome.REACHED, verb
        assert all(s.mark == "done" for s in found.steps)


def test_a_job_that_had_ended_anyway_needs_no_stop() -> None:
    obj = situations()["healthy_finished"]
    obj = {**obj, "spec": {**obj["spec"], "state": "Stopped"}}
    assert seen("stop", obj).outcome is Outcome.REACHED


def test_another_request_supersedes_it() -> None:
    assert seen("stop", situations()["healthy_drained"]).outcome is Outcome.SUPERSEDED
    assert look(GOALS["stop"], None, NOW).outcome is Outcome.SUPERSEDED


def test_a_spec_that_nobody_has_seen_is_the_operators_move() -> None:
    obj = copy.deepcopy(situations()["healthy_running"])
    obj["metadata"]["generation"] = 2
    found = seen("resume", obj)
    assert (found.outcome, found.mover) == (Outcome.GOING, Mover.OPERATOR)
    assert "kubectl get lease" in found.move
    assert found.step == found.steps[0].text


@pytest.mark.parametrize(
    ("step", "text", "mover"),
    [
        (TerminationStep.BOUNDARY, "the running batch ends", Mover.JOB),
        (TerminationStep.SNAPSHOT, "the savepoint is written", Mover.JOB),
        (TerminationStep.COMPLETING, "the checkpoint is recorded in the index", Mover.OPERATOR),
        (TerminationStep.CLOSED, "the driver exits", Mover.JOB),
    ],
)
def test_the_steps_of_a_stop(step: TerminationStep, text: str, mover: Mover) -> None:
    found = seen("stop", stopping(step=step, progress="copied 3 of 9 files"))
    assert (found.outcome, found.step, found.mover) == (Outcome.GOING, text, mover)
    assert found.waits_for == "copied 3 of 9 files"
    assert found.left == 540.0
    marks = [s.mark.value for s in found.steps]
    assert marks == sorted(marks, key=["done", "now", "ahead"].index)
    assert not any("timers" in s.text for s in found.steps), "a stop fires none"


def test_the_batch_that_runs_is_named() -> None:
    found = seen("stop", stopping(step=TerminationStep.BOUNDARY))
    assert found.batches == ("windows: batch 7 is committed",)
    assert seen("stop", stopping(step=TerminationStep.SNAPSHOT)).batches == ()


def test_a_full_storage_is_your_move() -> None:
    found = seen("stop", stopping(step=TerminationStep.SNAPSHOT, problem=FULL))
    assert (found.outcome, found.mover, found.move) == (Outcome.GOING, Mover.YOU, "Make room")
    assert "no space is left" in found.waits_for


def test_a_late_stop_says_what_ends_it() -> None:
    status = ran(phase="Stopping", termination=requested(deadline="2026-01-02T03:04:00Z"))
    obj = resource(observed(a_job(state="Stopped", status=status), pods=[running()], reported=terminating()))
    found = seen("stop", obj)
    assert found.left == -5.0
    assert "cancel" in found.move


def test_a_pod_that_waits_is_the_move_of_kubernetes() -> None:
    obj = resource(observed(a_job(status=ran(phase="Starting")), pods=[pod()]))
    found = seen("resume", obj)
    assert (found.step, found.mover) == ("a node starts the pod", Mover.KUBERNETES)
    assert "kubectl describe pod orders-driver-1" in found.move


def test_an_image_that_is_not_there_is_your_move() -> None:
    obj = resource(observed(a_job(status=ran(phase="Starting")), pods=[waiting("ErrImagePull")]))
    found = seen("resume", obj)
    assert (found.outcome, found.mover) == (Outcome.GOING, Mover.YOU)
    assert "Correct spec.image" in found.move
    assert found.stalled_since == NOW


def test_a_failed_job_has_failed() -> None:
    found = seen("resume", situations()["degraded_failed"])
    assert (found.outcome, found.mover) == (Outcome.FAILED, Mover.YOU)
    assert found.move == "Fix the script"


def test_a_restart_says_when() -> None:
    obj = resource(observed(a_job(status=ran()), pods=[exited(137)]))
    found = seen("resume", obj)
    assert found.mover is Mover.OPERATOR
    assert "the next driver starts in 10s" in found.waits_for


def test_whatever_happens_in_a_life_a_request_is_never_there_too_early() -> None:
    """Held against phase and spec, not against the conditions that the view goes by."""
    outcomes = set()
    for obj in (obj for life in lives().values() for obj in life):
        for verb, goal in GOALS.items():
            found = look(goal, job(obj), NOW)
            outcomes.add((verb, found.outcome))
            assert picture(found).label
            assert sentence(found)
            if found.outcome is Outcome.REACHED:
                assert obj["status"]["phase"] in (goal.reached, "Drained", "Finished")
                assert obj["status"]["observedGeneration"] == obj["metadata"]["generation"]
            if found.outcome is Outcome.GOING:
                assert found.mover is not None
                assert found.waits_for
                assert sum(s.mark == "now" for s in found.steps) == 1
    assert {(verb, Outcome.GOING) for verb in GOALS} <= outcomes
    assert {(verb, Outcome.REACHED) for verb in ("stop", "drain", "resume", "cancel")} <= outcomes


# --- what a situation does not allow ------------------------------------------------------------------------

VERBS = ("stop", "drain", "resume", "cancel", "suspend", "upgrade", "savepoint", "restart")
REFUSED = Path(__file__).parents[2] / "ui" / "test" / "refused.json"


def cases() -> list[dict[str, Any]]:
    """Jobs as phase and state have them, and what each refuses."""
    found = []
    for phase, spec in (
        ("Running", {}),
        ("Restarting", {}),
        ("Failed", {}),
        ("Finished", {}),
        ("Draining", {"state": "Drained"}),
        ("Drained", {"state": "Drained"}),
        ("Drained", {"state": "Cancelled"}),
        ("Stopped", {"state": "Stopped"}),
        ("Stopped", {"state": "Drained"}),
        ("Suspended", {"suspend": True}),
        ("Cancelled", {"state": "Cancelled"}),
    ):
        one = job({"metadata": {"name": "clicks"}, "spec": spec, "status": {"phase": phase}})
        found.append({"phase": phase, "spec": spec, "refused": [v for v in VERBS if refused(one, v)]})
    return found


def test_the_page_knows_what_a_command_refuses() -> None:
    """ui/test/model.test.ts compares the buttons with the same file."""
    if os.environ.get("STREAMJOB_WRITE"):
        REFUSED.write_text(json.dumps(cases(), indent=2) + "\n")
    assert json.loads(REFUSED.read_text()) == cases()


@pytest.mark.parametrize("verb", ["stop", "resume", "suspend", "cancel", "upgrade", "savepoint"])
def test_a_drained_job_has_ended_and_says_so(verb: str) -> None:
    why = refused(
        job({"metadata": {"name": "clicks"}, "spec": {"state": "Drained"}, "status": {"phase": "Drained"}}),
        verb,
    )
    assert why is not None
    assert why[0] == "clicks is Drained, which is an end"
    assert why[1]


def test_a_request_that_the_operator_has_not_seen_can_be_cancelled() -> None:
    meta = {"name": "clicks", "generation": 3}
    obj = {
        "metadata": meta,
        "spec": {"state": "Running"},
        "status": {"phase": "Stopped", "observedGeneration": 2},
    }
    assert refused(job(obj), "cancel") is None
