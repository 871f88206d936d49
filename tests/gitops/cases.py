"""A StreamJob in each situation that Argo CD tells apart, with the status that the controller gives it.

python -m tests.gitops.cases     writes them to testdata/, as Argo CD's own tests read them
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from streamjob.api import GROUP, KIND, VERSION, Status
from streamjob.api.crd import UNSEEN
from streamjob.controller.rules.actions import DeletePod
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_status import DriverPhase, Problem

from ..controller.factories import (
    DRAINED,
    FATAL,
    NOW,
    OUT_OF_INPUT,
    driver,
    exited,
    index,
    job,
    observed,
    pod,
    ran,
    record,
    requested,
    running,
    terminating,
)

SCRIPTS = Path(__file__).parents[2] / "examples/gitops/argocd/streamjob.dev/StreamJob"
TESTDATA = SCRIPTS / "testdata"
Obj = dict[str, Any]
DEAD = Problem("QueryFailed", "windows: the broker is away", "Start the query again, or end the script")
STOP = record(1, 1, Scenario.STOP)


def resource(o: Observed, *, generation: int | None = None) -> Obj:
    """The object as the API server has it after the controller has reconciled `o`."""
    spec = o.job.spec
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {
            "name": o.job.metadata.name,
            "namespace": o.job.metadata.namespace,
            "generation": generation or o.job.metadata.generation,
        },
        "spec": {
            "state": spec.state.value,
            **({"suspend": True} if spec.suspend else {}),
            "image": spec.image,
            "application": {"file": spec.application.file},
            "storage": {"checkpoints": spec.storage.checkpoints, "savepoints": spec.storage.savepoints},
        },
        "status": settled(o).plain(),
    }


def settled(o: Observed) -> Status:
    """The status when the controller has nothing more to do; pods that it deletes are gone at once."""
    for _ in range(20):
        decision = decide(o, NOW)
        gone = {action.name for action in decision.actions if isinstance(action, DeletePod)}
        if not gone and decision.status == o.job.status:
            return decision.status
        job = o.job.model_copy(update={"status": decision.status})
        o = replace(o, job=job, pods=tuple(pod for pod in o.pods if pod.name not in gone))
    raise AssertionError("it does not settle")


def cases() -> dict[str, Obj]:
    """By name; the name begins with the health status."""
    runs = observed(job(status=ran()), pods=[running()], reported=driver())
    unseen = resource(observed(job())) | {"status": dict(UNSEEN)}
    stopping = job(state="Stopped", status=ran(phase="Stopping", termination=requested()))
    return {
        "progressing_unseen": unseen,
        "progressing_noStatus": {k: v for k, v in unseen.items() if k != "status"},
        "progressing_newGeneration": resource(runs, generation=2),
        "progressing_starting": resource(observed(job(status=ran(phase="Starting")), pods=[pod()])),
        "progressing_stopping": resource(observed(stopping, pods=[running()], reported=terminating())),
        "progressing_stoppingWithDeadQuery": resource(
            observed(stopping, pods=[running()], reported=replace(terminating(), degraded=DEAD))
        ),
        "progressing_restarting": resource(observed(job(status=ran()), pods=[exited(137)])),
        "healthy_running": resource(runs),
        "healthy_stopped": resource(
            observed(job(state="Stopped", status=ran()), pods=[exited()], index=index(STOP))
        ),
        "healthy_drained": resource(
            observed(job(state="Drained", status=ran()), pods=[exited()], index=index(DRAINED))
        ),
        "healthy_finished": resource(observed(job(status=ran()), pods=[exited()], index=index(OUT_OF_INPUT))),
        "healthy_cancelled": resource(observed(job(state="Cancelled", status=ran()), pods=[exited(137)])),
        "healthy_finishedWhileSuspended": resource(
            observed(job(suspend=True, status=ran()), pods=[exited()], index=index(OUT_OF_INPUT))
        ),
        "suspended": resource(observed(job(suspend=True))),
        "degraded_failed": resource(
            observed(job(status=ran()), pods=[exited(1, report=driver(DriverPhase.FAILED, problem=FATAL))])
        ),
        "degraded_deadQuery": resource(replace(runs, driver=driver(degraded=DEAD))),
        "degraded_alreadyDrained": resource(
            observed(job(status=ran(phase="Drained")), pods=[exited()], index=index(DRAINED))
        ),
    }


if __name__ == "__main__":
    TESTDATA.mkdir(exist_ok=True)
    for name, found in cases().items():
        (TESTDATA / f"{name}.yaml").write_text(yaml.safe_dump(found, sort_keys=False, width=100))
