"""Findings: on every state of simulated lives, on every reason of the manual, and on figures, pods and
logs. More than 600 lines, because every finding has its test here.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dev.docs.remedies import ROOT, manual, remedies
from streamjob.cli.diagnosis import knowledge
from streamjob.cli.diagnosis.diagnose import diagnose
from streamjob.cli.diagnosis.facts import Facts, Finding, Log, Severity
from streamjob.cli.views.checkpoints import Index, index
from streamjob.cli.views.controllers import controllers
from streamjob.cli.views.events import events
from streamjob.cli.views.job import job
from streamjob.cli.views.pods import pods
from streamjob.cli.views.progress import OF_KUBERNETES, Mover, waiting
from streamjob.controller.rules.observed import Pod, Unschedulable
from streamjob.protocol.messages.driver_status import Problem

from ..controller.factories import NOW, driver, exited, observed, ran, running, unschedulable
from ..controller.factories import job as a_job
from ..controller.factories import pod as a_pod
from ..controller.reports.reasons import all_reasons
from ..gitops.cases import resource
from .recorded import lives, situations
from .test_timeline import at, event

THERE = Index()  # it can be read


def facts(obj: dict[str, Any], **more: Any) -> Facts:
    return Facts(job(obj), more.pop("index", THERE), NOW, **more)


def found(obj: dict[str, Any], **more: Any) -> dict[str, Finding]:
    return {f.reason: f for f in diagnose(facts(obj, **more))}


def runs(**status: Any) -> dict[str, Any]:
    """A job that runs and is ready."""
    obj = situations()["healthy_running"]
    return {**obj, "status": {**obj["status"], **status}}


def stage(**figures: Any) -> dict[str, Any]:
    return {"uid": "windows", "tasks": [], "operators": [], "batch": 7, "sources": [], **figures}


# --- what the operator says ---------------------------------------------------------------------------------


def test_every_state_of_a_life_is_judged_as_its_conditions_are() -> None:
    """What needs a person is an error, and what is well has none. Nothing is said without evidence."""
    for life in lives().values():
        for obj in life:
            view = job(obj)
            findings = diagnose(facts(obj))
            errors = [f for f in findings if f.severity is Severity.ERROR]
            for kind in ("Stalled", "Degraded"):
                if view.is_true(kind):
                    assert view.conditions[kind].reason in {f.reason for f in errors}
            if view.ready:
                assert not errors
                assert (
                    view.phase in ("Drained", "Finished")
                    or {f.reason for f in findings} & {"Well", "Upgrading"}
                    or findings
                )
            assert all(f.evidence and f.what.endswith(".") for f in findings), findings
            assert all(f.remedy for f in errors if f.mover is Mover.YOU), errors


@pytest.mark.parametrize("reason", sorted(remedies(manual())))
def test_every_reason_of_the_manual_comes_with_its_remedy(reason: str) -> None:
    """The resource knows more: the manual speaks of every case, also of those in which the job goes on."""
    known = knowledge.table()[reason]["remedy"]
    for given in ("Do this", ""):
        fatal = Problem(reason, "something is wrong", given, retryable=False)
        report = driver(problem=fatal)
        obj = resource(observed(a_job(status=ran()), pods=[exited(1, report=report)]))
        finding = found(obj)[reason]
        assert finding.severity is Severity.ERROR
        if given:
            assert finding.remedy == "Do this."
        else:
            assert known == "see the message" or known[1:].rstrip(".") in finding.remedy
        assert any("something is wrong" in e.text for e in finding.evidence)


def test_the_knowledge_is_the_manuals() -> None:
    assert knowledge.table() == remedies(manual()), (
        "run python -m dev.docs.remedies > operator/streamjob/cli/diagnosis/remedies.json"
    )
    assert set(knowledge.table()) <= all_reasons() | {"Exposed"} | _of_kubernetes()
    assert set(knowledge.table()) | {"Conflict"} >= OF_KUBERNETES | knowledge.OF_OPERATOR


def _of_kubernetes() -> set[str]:
    """Reasons that the code takes over from Kubernetes: literals somewhere."""
    code = "".join(p.read_text() for p in (ROOT / "operator").rglob("*.py"))
    return {reason for reason in knowledge.table() if f'"{reason}"' in code}


def test_a_dead_query() -> None:
    finding = found(situations()["degraded_deadQuery"])["QueryFailed"]
    assert finding.severity is Severity.ERROR
    assert "the others keep running" in finding.what
    assert "the broker is away" in finding.evidence[0].text


def test_a_restart_says_why_and_when() -> None:
    obj = resource(observed(a_job(status=ran()), pods=[exited(137)]))
    finding = found(obj)["DriverKilled"]
    assert "the next one starts in 10s" in finding.what
    assert finding.mover is Mover.OPERATOR


def failed_before(phase: str, **status: Any) -> dict[str, Any]:
    """Five drivers have failed in a row; the sixth has run. The status keeps the count."""
    restarts = {"count": 5, "epoch": 5, "generation": 1, "nextAt": at(-50)}
    error = {"reason": "ScriptFailed", "message": "no price", "time": at(-51)}
    return runs(phase=phase, epoch=6, restarts=restarts, lastError=error, **status)


STOPPED = {"epoch": 6, "code": 0, "reason": "stopped by request stop-6-3"}
FAILED = {"epoch": 5, "code": 1, "reason": "no price"}


def test_failures_before_a_driver_that_ended_in_order_are_over() -> None:
    obj = failed_before("Stopped", lastExit=STOPPED)
    obj["spec"] = {**obj["spec"], "state": "Stopped"}
    (finding,) = diagnose(facts(obj, last_log=Log(5, ("AccessDenied",), NOW)))
    assert (finding.reason, finding.severity) == ("Well", Severity.NOTE)
    assert finding.what == "orders is Stopped, as its spec asks for."
    # Resumed: the driver that starts follows the one that was stopped.
    obj = failed_before("Starting", lastExit=STOPPED)
    obj["status"] |= {"epoch": 7, "conditions": situations()["progressing_starting"]["status"]["conditions"]}
    assert not {f for f in diagnose(facts(obj)) if f.severity is Severity.ERROR}


def test_a_driver_that_starts_after_failures_says_how_many() -> None:
    obj = failed_before("Starting", lastExit=FAILED)
    obj["status"]["conditions"] = situations()["progressing_starting"]["status"]["conditions"]
    finding = found(obj)["ScriptFailed"]
    assert finding.what == "The driver has failed 5 times in a row; the next one starts now."


def test_a_driver_that_waits_does_not_hide_why_the_one_before_failed() -> None:
    """Two findings: what the next driver waits for, and why there is a next one."""
    failing = resource(observed(a_job(status=ran()), pods=[exited(1)]))
    o = a_job(
        status={
            **failing["status"],
            "epoch": 2,
            "phase": "Starting",
            "lastError": failing["status"]["lastError"],
        }
    )
    waits = replace(unschedulable(timedelta(minutes=1)), name="orders-driver-2", epoch=2)
    obj = resource(observed(o, pods=[waits]))
    error = failing["status"]["lastError"]
    assert obj["status"]["lastError"]["reason"] == "Unschedulable"
    logs = "kubectl streamjob logs orders -n shop"
    both = found(obj, logs=logs)
    assert both["Unschedulable"].severity is Severity.ERROR
    failure = both[error["reason"]]
    assert failure.severity is Severity.ERROR
    assert failure.what == "The driver has failed once; the next one does not start (Unschedulable)."
    assert any(error["message"] in e.text for e in failure.evidence)
    assert f"`{logs} --epoch 1`" in failure.remedy
    # It has its node now: the wait is over, the failure is not.
    obj = resource(observed(a_job(status=obj["status"]), pods=[replace(waits, unschedulable=None, node="n")]))
    later = found(obj)
    assert "Unschedulable" not in later
    assert later[error["reason"]].what == "The driver has failed once; the next one starts now."


def test_a_remedy_that_speaks_of_the_log_names_the_command() -> None:
    logs = "kubectl streamjob logs orders -n shop"
    obj = situations()["degraded_deadQuery"]
    assert f"See the driver's log (`{logs}`)." in found(obj, logs=logs)["QueryFailed"].remedy
    assert "`" not in found(obj)["QueryFailed"].remedy, "a local job has no such command"


def test_a_job_that_is_well_says_so() -> None:
    (finding,) = diagnose(facts(runs()))
    assert (finding.reason, finding.severity) == ("Well", Severity.NOTE)


def test_a_spec_that_nobody_sees() -> None:
    """The job is old, the change is not; a status and labels are no change of the spec."""
    obj = situations()["progressing_newGeneration"]

    def changed(spec: float, created: float = -47) -> dict[str, Any]:
        fields = [
            {"time": at(created), "fieldsV1": {"f:spec": {}}},
            {"time": at(spec), "fieldsV1": {"f:spec": {"f:state": {}}}},
            {"time": at(-0.1), "fieldsV1": {"f:metadata": {}}},
            {"time": at(-0.1), "fieldsV1": {"f:status": {}}, "subresource": "status"},
        ]
        meta = {**obj["metadata"], "creationTimestamp": at(created), "managedFields": fields}
        return {**obj, "metadata": meta}

    finding = found(changed(-5))["NotObserved"]
    assert (finding.severity, finding.mover) == (Severity.ERROR, Mover.OPERATOR)
    assert "which is 5m old" in finding.what
    assert "NotObserved" not in found(changed(-0.5))
    # Without the fields nobody knows the change's age, only that it is not older than the job.
    unknown = {**obj, "metadata": {**obj["metadata"], "creationTimestamp": at(-47)}}
    assert found(unknown)["NotObserved"].what == "The operator has not looked at the newest spec."
    new = {**obj, "metadata": {**obj["metadata"], "creationTimestamp": at(-0.5)}}
    assert "NotObserved" not in found(new)


# --- nobody acts --------------------------------------------------------------------------------------------


def new(minutes: float = -0.1) -> dict[str, Any]:
    """A job that somebody has just made."""
    meta = {"name": "orders", "namespace": "shop", "uid": "u", "generation": 1}
    spec = {"image": "orders:1", "state": "Running"}
    return {"metadata": {**meta, "creationTimestamp": at(minutes)}, "spec": spec}


def deployed(*arguments: str, ready: int = 2) -> dict[str, Any]:
    container = {"name": "controller", "args": [*arguments, "--lease=streamjob"]}
    return {
        "metadata": {"namespace": "ops", "name": "streamjob"},
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
        "status": {"readyReplicas": ready},
    }


def lease(minutes: float, holder: str = "streamjob-7d5b") -> dict[tuple[str, str], Any]:
    return {("ops", "streamjob"): {"spec": {"holderIdentity": holder, "renewTime": at(minutes)}}}


def acting(*deployments: dict[str, Any], leases: Any = None) -> dict[str, Any]:
    return {"controllers": tuple(controllers(deployments, leases or {}))}


def test_something_is_said_of_a_job_that_nobody_has_looked_at_yet() -> None:
    (finding,) = diagnose(facts(new()))
    assert finding.what == (
        "orders is Pending, on its way to Running: the operator has not looked at the newest spec yet."
    )
    assert (finding.severity, finding.mover) == (Severity.NOTE, Mover.OPERATOR)


def test_there_is_no_controller() -> None:
    finding = found(new(), **acting())["NoController"]
    assert finding.what == "No controller acts on this job: none is installed in this cluster."
    assert (finding.severity, finding.mover) == (Severity.ERROR, Mover.YOU)
    assert "NotObserved" not in found(new(-30), **acting()), "the cause is known"
    assert "NoController" not in found(runs(), **acting()), "one that runs without the chart has seen it"


def test_no_controller_watches_the_namespace() -> None:
    finding = found(new(), **acting(deployed("--namespace=streams", "--namespace=ads")))[
        "NamespaceNotWatched"
    ]
    assert finding.what == "No controller acts on this job: none watches the namespace shop."
    assert finding.evidence[0].text == "watches ads, streams"
    assert "`watch.namespaces` of the chart" in finding.remedy
    for arguments in ("--all-namespaces", "--namespace=shop"):
        assert "NamespaceNotWatched" not in found(new(), **acting(deployed(arguments), leases=lease(0)))


def test_the_controller_is_away() -> None:
    away = acting(deployed("--all-namespaces", ready=0), leases=lease(-5))
    finding = found(new(), **away)["ControllerAway"]
    assert finding.what == "No controller acts on this job: that of ops/streamjob is away."
    assert finding.evidence[0].text == (
        "0 of 2 replicas are ready; its Lease is held by streamjob-7d5b, and was last renewed 5m ago"
    )
    ready = found(runs(), **away)["ControllerAway"]
    assert ready.severity is Severity.WARNING
    assert ready.what.endswith("is away; its driver runs on meanwhile.")
    for there in (lease(-0.1), {}):  # without permission to read Leases, the replicas count
        assert "ControllerAway" not in found(new(), **acting(deployed("--all-namespaces"), leases=there))
    released = acting(deployed("--all-namespaces"), leases=lease(-0.1, holder=""))
    assert "held by nobody" in found(new(), **released)["ControllerAway"].evidence[0].text
    other = acting(deployed("--namespace=ads", ready=0), deployed("--namespace=shop"))
    assert "ControllerAway" not in found(new(), **other), "that one does not watch the job's namespace"


def test_a_late_drain_says_what_it_waits_for() -> None:
    termination = {
        "mode": "Drain",
        "step": "WaitingForBoundary",
        "progress": "the batch runs",
        "deadline": at(-10),
    }
    obj = runs(
        phase="Draining", termination=termination, stages=[stage(batchSeconds={"triggerExecution": 700.0})]
    )
    obj["status"]["conditions"] = []
    finding = found(obj)["TerminationTimedOut"]
    assert "10m longer than its timeout" in finding.what
    assert [e.text for e in finding.evidence] == [
        "WaitingForBoundary: the batch runs",
        "batch 7 is committed, the last took 11m40s",
    ]


def test_an_index_that_is_gone() -> None:
    had = runs(checkpoint={"latest": 7, "completedAt": at(-1)})
    assert found(had, index=index(None))["IndexMissing"].severity is Severity.ERROR
    assert "IndexMissing" not in found(runs(epoch=5, checkpoint=None), index=index(None)), "none was made yet"


@pytest.mark.parametrize(
    ("phase", "state", "checkpoint", "remedy", "mover"),
    [
        ("Running", "Running", 7, "the operator rebuilds it from what the driver knows", Mover.OPERATOR),
        ("Stopped", "Stopped", 7, "Resume the job: it continues from s3://sp/7", Mover.YOU),
        ("Restarting", "Running", 7, "the next driver rebuilds it from s3://sp/7", Mover.OPERATOR),
        ("Cancelled", "Cancelled", 9, "restoreFrom.savepoint: s3://sp/7, which is older", Mover.YOU),
    ],
)
def test_how_an_index_comes_back(phase: str, state: str, checkpoint: int, remedy: str, mover: Mover) -> None:
    """As the controller's `rebuild`: a resume rebuilds it from the savepoint that the job has ended with."""
    obj = runs(
        phase=phase,
        checkpoint={"latest": checkpoint, "completedAt": at(-1)},
        savepoint={"latest": "s3://sp/7", "checkpoint": 7, "completedAt": at(-1), "drained": False},
    )
    obj["spec"] = {**obj["spec"], "state": state}
    finding = found(obj, index=index(None))["IndexMissing"]
    assert remedy in finding.remedy
    assert finding.mover is mover


def test_at_a_terminal_nothing_is_said_of_pods_and_fields() -> None:
    slow = stage(
        batchSeconds={"triggerExecution": 900.0},
        lastCommitAt=at(-600),
        sources=[{"uid": "s", "lagSeconds": 9}],
    )
    dead, failed = situations()["degraded_deadQuery"], situations()["degraded_failed"]
    failed = {**failed, "status": {**failed["status"], "lastError": None}}
    jobs = [runs(stages=[slow], checkpoint={"latest": 7, "completedAt": at(-1)}), dead, failed]
    said = [f for obj in jobs for f in diagnose(facts(obj, local=True, index=index(None)))]
    assert {"NoCommit", "IndexMissing", "QueryFailed"} <= {f.reason for f in said}
    for finding in said:
        text = f"{finding.what} {finding.remedy}"
        assert not re.search(r"kubectl|\bpods?\b|ConfigMap|spec\.|driver's log|eviction", text), text


def test_an_index_without_any_savepoint_is_lost() -> None:
    obj = runs(phase="Cancelled", savepoint=None, checkpoint={"latest": 7, "completedAt": at(-1)})
    assert "There is no savepoint" in found(obj, index=index(None))["IndexMissing"].remedy


def test_what_was_aborted_while_the_job_went_on() -> None:
    obj = runs(
        savepointRequest={"requestId": "savepoint-manual-4", "failure": "the disk is full"},
        checkpoint={"latest": 8, "completedAt": at(-1)},
        abortedCheckpoint={"checkpoint": 9, "reason": "it took longer than 10m"},
        warnings=[{"reason": "SourceMoved", "message": "It reads from other brokers. That may be intended."}],
    )
    findings = found(obj)
    assert findings["SavepointAborted"].evidence[0].text == "the disk is full"
    assert "none has completed since" in findings["CheckpointAborted"].what
    assert findings["SourceMoved"].what == "It reads from other brokers."
    assert findings["SourceMoved"].remedy == "None if that is intended."
    assert {f.severity for f in findings.values()} == {Severity.WARNING}


# --- figures ------------------------------------------------------------------------------------------------


def test_a_query_that_is_behind_says_what_takes_the_time() -> None:
    behind = stage(
        sources=[{"uid": "source-0", "lagRows": 120000, "lagSeconds": 900.0}],
        batchSeconds={"triggerExecution": 60.0, "addBatch": 5.0, "latestOffset": 50.0},
        lastCommitAt=at(-1),
    )
    finding = found(runs(stages=[behind]))["Behind"]
    assert finding.what == "The query windows is 15m behind its input."
    assert finding.evidence[0].text == "left: 120.0k rows, the oldest from 15m ago"
    assert "latestOffset 50s" in finding.evidence[1].text
    assert "listing the source" in finding.remedy


@pytest.mark.parametrize(
    ("executor", "field"),
    [
        (None, "spec.driver.cores"),
        ({"instances": 0, "cores": "2"}, "spec.driver.cores"),
        ({"instances": 2}, "spec.executor.instances"),
        ({"instances": 0, "dynamicAllocation": {"min": 1, "max": 8}}, "spec.executor.dynamicAllocation.max"),
        ({"instances": 0, "autoscale": {"min": 1, "max": 8}}, "spec.executor.autoscale.max"),
    ],
)
def test_a_query_that_is_behind_gets_cores_where_its_tasks_run(
    executor: dict[str, Any] | None, field: str
) -> None:
    obj = runs(stages=[stage(sources=[{"uid": "s", "lagSeconds": 900.0}])])
    remedy = found({**obj, "spec": {**obj["spec"], "executor": executor}})["Behind"].remedy
    assert field in remedy
    assert ("executors" in remedy) is ("spec.executor" in field)


def test_a_query_that_catches_up() -> None:
    fast = stage(
        sources=[{"uid": "s", "lagSeconds": 900.0}], inputRowsPerSecond=10.0, processedRowsPerSecond=500.0
    )
    assert "It catches up" in found(runs(stages=[fast]))["Behind"].remedy


def test_a_batch_that_hangs() -> None:
    hanging = stage(sources=[{"uid": "s", "lagSeconds": 2400.0}], lastCommitAt=at(-40))
    assert found(runs(stages=[hanging]))["NoCommit"].severity is Severity.ERROR
    idle = stage(sources=[{"uid": "s", "lagSeconds": 0.0}], lastCommitAt=at(-400))
    assert "NoCommit" not in found(runs(stages=[idle]))


def test_a_checkpoint_that_is_old() -> None:
    obj = runs(
        checkpoint={"latest": 3, "completedAt": at(-40)},
        driver={"pod": "p", "phase": "Running", "startedAt": at(-600)},
    )
    obj["spec"] = {**obj["spec"], "checkpoint": {"interval": "10m"}}
    assert "no checkpoint for 40m" in found(obj)["CheckpointOld"].what
    obj["status"]["checkpoint"]["completedAt"] = at(-20)
    assert "CheckpointOld" not in found(obj)


def test_a_grace_period_that_is_shorter_than_a_batch() -> None:
    obj = runs(stages=[stage(batchSeconds={"triggerExecution": 90.0})])
    assert "an eviction leaves 1m" in found(obj)["GracePeriodShort"].what


# --- pods and logs ------------------------------------------------------------------------------------------


def pod(name: str, role: str = "executor", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"streamjob.dev/component": role}},
        "status": {"phase": "Pending", **status},
    }


def no_volume() -> Pod:
    message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    return a_pod(waiting=None, unschedulable=Unschedulable(message, NOW - timedelta(minutes=1)))


def test_executors_that_no_node_takes() -> None:
    no_node = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes: insufficient memory"}
    obj = runs(executors={"wanted": 4, "running": 3})
    finding = found(obj, pods=pods([pod("orders-1", conditions=[no_node])]))["ExecutorsMissing"]
    assert finding.mover is Mover.KUBERNETES
    assert finding.evidence[1].text == "0/3 nodes: insufficient memory"


def test_a_stop_without_executors_says_that_no_batch_can_run() -> None:
    """It would wait for its batch until its timeout."""
    obj = runs(phase="Stopping", executors={"wanted": 2, "running": 0})
    finding = found(obj)["ExecutorsMissing"]
    assert finding.what == "2 of 2 executors are missing; no batch can run: the stop waits for its batch."
    assert finding.severity is Severity.ERROR
    some = found(runs(phase="Stopping", executors={"wanted": 2, "running": 1}))["ExecutorsMissing"]
    assert some.what == "1 of 2 executors are missing; the job runs with the others."


def test_whose_move_a_late_stop_and_a_stalled_restart_are_is_said_once() -> None:
    late = {"mode": "Stop", "step": "WaitingForBoundary", "progress": "the batch runs", "deadline": at(-10)}
    stalled = [
        condition("Stalled", "TerminationTimedOut"),
        condition("Ready", "TerminationTimedOut", "False"),
    ]
    finding = found(runs(phase="Stopping", termination=late, conditions=stalled))["TerminationTimedOut"]
    assert finding.what == "The stop takes 10m longer than its timeout; it continues."
    assert finding.mover is Mover.YOU
    pulling = [condition("Stalled", "ImagePullBackOff"), condition("Ready", "ImagePullBackOff", "False")]
    restarts = {
        "count": 2,
        "epoch": 1,
        "generation": 1,
        "error": {"reason": "DriverKilled", "message": "killed"},
    }
    findings = found(runs(phase="Pending", epoch=2, restarts=restarts, lastExit=None, conditions=pulling))
    assert findings["ImagePullBackOff"].mover is Mover.YOU
    assert findings["DriverKilled"].mover is Mover.YOU


def condition(kind: str, reason: str, status: str = "True") -> dict[str, Any]:
    found = {"type": kind, "status": status, "reason": reason, "message": "what"}
    return {**found, "lastTransitionTime": at(-1), "observedGeneration": 1}


def test_an_executor_that_was_killed() -> None:
    killed = {"name": "executor", "lastState": {"terminated": {"reason": "OOMKilled"}}}
    finding = found(runs(), pods=pods([pod("orders-1", containerStatuses=[killed])]))["ExecutorOOMKilled"]
    assert "Raise spec.executor.memory" in finding.remedy
    assert "If it is Python that needs more, set spark.executor.memoryOverhead" in finding.remedy


def test_an_event_of_a_pod_that_does_not_start() -> None:
    told = event(-1, "FailedMount", 'configmap "lookup" not found', warning=True)
    told["involvedObject"] = {"kind": "Pod", "name": "orders-driver-1"}
    obj = situations()["progressing_starting"]
    starting = pods([pod("orders-driver-1", "driver")])
    finding = found(obj, events=events([told]), pods=starting)["VolumesNotMounted"]
    assert 'configmap "lookup" not found' in finding.evidence[0].text
    assert finding.severity is Severity.ERROR
    old = {**told, "eventTime": at(-60)}
    assert "VolumesNotMounted" not in found(obj, events=events([old]), pods=starting)


@pytest.mark.parametrize(
    ("reason", "finding", "later"),
    [
        ("FailedScheduling", "Unschedulable", "Scheduled"),
        ("FailedMount", "VolumesNotMounted", "Pulling"),
        ("FailedCreatePodSandBox", "PodSandbox", "Pulled"),
        ("ErrImagePull", "ImagePullBackOff", "Pulled"),
    ],
)
def test_an_event_that_a_newer_one_of_the_pod_answers_is_over(reason: str, finding: str, later: str) -> None:
    """What another pod has got further with says nothing, and neither does what came before."""
    obj, starting = situations()["progressing_starting"], pods([pod("orders-driver-1", "driver")])

    def of_pod(minute: float, reason: str, name: str = "orders-driver-1") -> dict[str, Any]:
        told = event(minute, reason, "no")
        return {**told, "involvedObject": {"kind": "Pod", "name": name}}

    failed = of_pod(-2, reason)
    others = [of_pod(-1, later, "orders-driver-2"), of_pod(-3, later)]
    assert finding in found(obj, events=events([failed, *others]), pods=starting)
    assert finding not in found(obj, events=events([failed, of_pod(-1, later)]), pods=starting)


def test_a_pod_with_a_node_was_scheduled() -> None:
    told = event(-1, "FailedScheduling", "0/1 nodes are available: 1 Insufficient cpu.", warning=True)
    told["involvedObject"] = {"kind": "Pod", "name": "orders-driver-1"}
    on_node = pods([{**pod("orders-driver-1", "driver"), "spec": {"nodeName": "node-1"}}])
    obj = situations()["progressing_starting"]
    assert "Unschedulable" not in found(obj, events=events([told]), pods=on_node)


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            "orders-data has no volume",
        ),
        ('0/1 nodes are available: persistentvolumeclaim "nope" not found.', "nope does not exist"),
    ],
)
def test_a_claim_without_a_volume_is_named(message: str, what: str) -> None:
    told = event(-1, "FailedScheduling", message, warning=True)
    told["involvedObject"] = {"kind": "Pod", "name": "orders-driver-1"}
    obj = situations()["progressing_starting"]
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "orders-data"}}
    spec = {**obj["spec"], "storage": {**obj["spec"]["storage"], "volumes": [claim]}}
    starting = pods([pod("orders-driver-1", "driver")])
    finding = found({**obj, "spec": spec}, events=events([told]), pods=starting)["Unschedulable"]
    assert finding.what == f"The pod orders-driver-1 does not start: its claim {what}."
    assert f"kubectl describe pvc {what.split(maxsplit=1)[0]}" in finding.remedy
    assert finding.mover is Mover.YOU


@pytest.mark.parametrize(
    ("stuck", "mover", "says"),
    [
        (unschedulable(timedelta(minutes=1)), Mover.KUBERNETES, "waits for Kubernetes"),
        (no_volume(), Mover.YOU, "until a person acts"),
        (a_pod(unmounted_since=NOW - timedelta(minutes=1)), Mover.YOU, "until a person acts"),
    ],
)
def test_the_move_is_whose_the_sentence_says(stuck: Pod, mover: Mover, says: str) -> None:
    obj = resource(observed(a_job(status=ran()), pods=[stuck]))
    assert job(obj).is_true("Stalled")
    (error,) = [f for f in diagnose(facts(obj)) if f.severity is Severity.ERROR]
    assert (error.mover, says in error.what) == (mover, True), error
    assert waiting(job(obj), NOW)[1] is mover


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", "OutOfMemory"),
        ("OSError: [Errno 28] No space left on device", "StorageFull"),
        ("pyspark.errors.AnalysisException: Failed to find data source: kafka.", "ConnectorMissing"),
        ("org.apache.kafka.common.errors.UnknownTopicOrPartitionException", "SourceGone"),
        ("com.amazonaws.AmazonS3Exception: AccessDenied", "AccessDenied"),
        ("java.net.UnknownHostException: kafka.shop", "Unreachable"),
        ("ModuleNotFoundError: No module named 'orders'", "ModuleMissing"),
    ],
)
def test_a_log_that_names_a_cause(line: str, reason: str) -> None:
    obj = resource(observed(a_job(status=ran()), pods=[exited(1)]))
    finding = found(obj, last_log=Log(1, ("INFO all is well", line)))[reason]
    assert finding.evidence[-1].text == line
    assert finding.remedy
    assert reason not in found(runs(), log=(line,)), "the log of a job that is well is left alone"


def test_a_log_speaks_of_its_epoch_only() -> None:
    """The pod of epoch 5 is the only one that is left of failed ones."""
    old = Log(5, ("java.io.IOException: AccessDenied",), NOW - timedelta(minutes=20))
    assert {*found(failed_before("Running", lastExit=FAILED), last_log=old)} == {"Well"}
    obj = failed_before("Running", lastExit=STOPPED)
    obj["status"] |= {"epoch": 8, "conditions": situations()["degraded_deadQuery"]["status"]["conditions"]}
    finding = found(obj, last_log=old)["AccessDenied"]
    assert (finding.severity, finding.mover, finding.remedy) == (Severity.NOTE, None, "")
    assert finding.what.endswith("(in epoch 5, which ended 20m ago; a later one has begun).")
    assert finding.evidence[0].where == "log of epoch 5"
    now = found(obj, last_log=old, log=("AccessDenied",))["AccessDenied"]
    assert (now.severity, now.evidence[0].where) == (Severity.WARNING, "log of the driver")
    # The driver that starts has the same to fear.
    obj = failed_before("Starting", lastExit=FAILED)
    obj["status"]["conditions"] = situations()["progressing_starting"]["status"]["conditions"]
    warning = found(obj, last_log=old)["AccessDenied"]
    assert (warning.severity, warning.evidence[0].where) == (Severity.WARNING, "log of epoch 5")


def test_the_exception_of_a_script() -> None:
    obj = resource(observed(a_job(status=ran()), pods=[exited(1)]))
    log = ("Traceback (most recent call last):", '  File "a.py", line 1', "ValueError: no price", "INFO end")
    assert found(obj, last_log=Log(1, log))["Traceback"].evidence[0].text == "ValueError: no price"


def test_what_could_not_be_read_is_said() -> None:
    finding = found(runs(), unread=("events is forbidden",))["Unread"]
    assert finding.evidence[0].text == "events is forbidden"


def test_the_worst_comes_first() -> None:
    dead = resource(
        replace(
            observed(a_job(status=ran()), pods=[running()]),
            driver=driver(degraded=Problem("QueryFailed", "x")),
        )
    )
    dead["status"]["warnings"] = [{"reason": "SinkMoved", "message": "It writes elsewhere."}]
    assert [f.severity for f in diagnose(facts(dead))] == [Severity.ERROR, Severity.WARNING]


def test_a_driver_that_is_gone_although_the_status_has_it() -> None:
    obj = runs(driver={"pod": "orders-driver-1", "uid": "u", "phase": "Running"})
    assert "DriverLost" in found(obj, pods_known=True)
    assert "DriverLost" not in found(obj, pods=pods([pod("orders-driver-1", "driver")]), pods_known=True)
    assert "DriverLost" not in found(obj, unread=("pods is forbidden",))
