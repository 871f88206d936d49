"""Diagnosis of a driver: pure functions from what was observed to the problem that a person should read."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ...api import StreamJob
from ...protocol.messages.driver_status import DriverStatus, Problem
from ..reports.log_redaction import without_secrets
from .observed import BEFORE_GATE, DriverExit, Observed, Pod, Unschedulable

# Reasons for which the kubelet retries forever: only a person (or another epoch) fixes them.
PULL = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError")
SCHEDULING_PATIENCE = timedelta(seconds=30)
MOUNT_PATIENCE = timedelta(seconds=20)
CLAIM = "persistentvolumeclaim"  # in the scheduler's message if a claim is missing or not bound
STABLE = timedelta(minutes=10)  # of running; it resets the count of failures
SEE_ITS_LOG = "See the driver's log"
# Kinds of volumes that name an object: its kind, and where its name is.
NAMING = (
    ("ConfigMap", "configMap", "name"),
    ("Secret", "secret", "secretName"),
    ("claim", "persistentVolumeClaim", "claimName"),
)
CANNOT_START = ("StartError", "ContainerCannotRun")  # what containerd and Docker say of a missing program
OUT_OF_MEMORY, KILLED = "OOMKilled", 137
MORE_MEMORY = (
    "Raise spec.driver.memory: the pod has that for the JVM's heap, and 40 % more, at least 384Mi, for "
    "Python and all else outside of the heap. If it is Python that needs more, set only the pod's memory: "
    "resources of the container driver in spec.driver.template"
)


def stuck(pod: Pod, job: StreamJob, now: datetime) -> Problem | None:
    """Say why this driver does not start; None if nothing is wrong.

    The wording stays the same while the kubelet retries.
    """
    if pod.started:
        return None
    if pod.waiting is not None:
        reason, message = pod.waiting
        if reason in PULL:
            return Problem(
                "ImagePullBackOff",
                f"the image {job.spec.image!r} cannot be pulled",
                "Correct spec.image, push the image, or give the driver's service account the registry's "
                "credentials",
            )
        if reason == "InvalidImageName":
            return Problem(reason, f"{job.spec.image!r} is no image name", "Correct spec.image")
        if reason in ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"):
            remedy = (
                "Correct spec.application.env, spec.storage.volumes or spec.driver.template, or make what is "
                "missing"
            )
            return Problem(reason, f"the driver's container cannot be created: {message}", remedy)
    if pod.unschedulable is not None and now - pod.unschedulable.since >= SCHEDULING_PATIENCE:
        return unscheduled(pod.unschedulable, job)
    if pod.unmounted_since is not None and now - pod.unmounted_since >= MOUNT_PATIENCE:
        if pod.missing:
            return Problem(
                "VolumesNotMounted",
                f"the node cannot mount the driver's volumes: there is no {', no '.join(pod.missing)}",
                "Make it, or correct the name in spec.storage.volumes or spec.driver.template",
            )
        named = ", ".join(f"{v.kind} {v.name}" for v in volumes_named(job))
        return Problem(
            "VolumesNotMounted",
            f"the node has not mounted the driver's volumes yet{f', among them {named}' if named else ''}",
            f"See the Events of its pod: `kubectl describe pod {pod.name}`",
        )
    return None


def unscheduled(found: Unschedulable, job: StreamJob) -> Problem:
    """Why no node takes the driver: the nodes have no room, or one of its claims has no volume."""
    message = found.message.partition(" preemption:")[0].rstrip(" .,;:")
    if CLAIM not in message.lower():
        remedy = "Lower spec.driver.cores or memory, add nodes, or correct spec.driver.template"
        return Problem("Unschedulable", f"no node takes the driver: {message}", remedy)
    claims = [
        v.persistent_volume_claim.claim_name
        for v in job.spec.storage.volumes
        if v.persistent_volume_claim is not None
    ]
    named = f" ({', '.join(claims)})" if claims else ""
    command = " ".join(["kubectl describe pvc", *claims])
    return Problem(
        "Unschedulable",
        f"no node takes the driver before its claims have volumes{named}: {message}",
        f"See `{command}`: a claim has to exist, and needs a volume or a StorageClass. Without a default "
        "one, name it in the claim (storageClassName)",
    )


class Named(NamedTuple):
    """An object in the job's namespace that a volume of the driver names."""

    kind: str
    name: str


def volumes_named(job: StreamJob) -> list[Named]:
    """What the volumes of the driver name and cannot do without."""
    template = ((job.spec.driver.template or {}).get("spec") or {}).get("volumes") or ()
    found = []
    for volume in (*(v.plain() for v in job.spec.storage.volumes), *template):
        for kind, field, key in NAMING:
            source = volume.get(field) or {}
            if source.get(key) and not source.get("optional"):
                found.append(Named(kind, source[key]))
    return found


def death(observed: Observed) -> Problem:
    """Say why the newest epoch's driver is gone without a final checkpoint in the index."""
    pod = observed.pod
    # The pods of a lost node are marked as failed for a moment, then deleted; nobody has seen how they ended.
    lost = pod is not None and pod.exit is None and pod.started_at is not None and not pod.reason
    lost = lost or (pod is not None and pod.exit is not None and pod.exit.unseen)
    if pod is None or not pod.terminated or lost:
        return Problem(
            "DriverLost",
            f"the pod {observed.job.status.driver.pod if observed.job.status.driver else ''} is gone before "
            "it could report",
            "Nothing has to be done; see what deleted it (kubectl, an eviction, a lost node)",
            retryable=True,
        )
    return death_of(pod)


def death_of(pod: Pod) -> Problem:
    """Say why this driver has ended. Its node has seen that it has."""
    if pod.exit is None:
        reason = pod.reason or "PodFailed"
        return Problem(reason, pod.message or "the driver's pod has failed before it ran", "", retryable=True)
    report = pod.exit.report
    if report is not None and report.problem is not None:
        return report.problem
    if report is not None and report.evicted and report.phase in BEFORE_GATE:
        message = "the driver was evicted before its script had started a query"
        return Problem("Evicted", message, "Nothing has to be done: nothing is lost", retryable=True)
    if report is not None and report.evicted:
        message = "the driver was evicted and its savepoint was not done within the grace period"
        remedy = "nothing is lost, the job continues from its checkpoint directories"
        if (frozen := not_responding(report)) is not None:
            message, remedy = f"{message}: {frozen.message}", f"{frozen.remedy}; {remedy}"
        else:
            remedy = f"Raise spec.termination.gracePeriod; {remedy}"
        return Problem("Evicted", message, remedy, retryable=True)
    return _exited(pod.exit)


def death_of_prepared(pod: Pod) -> Problem:
    """As `death_of`, of a driver that ended before its gate: its pod is deleted, and its log with it."""
    problem = death_of(pod)
    if SEE_ITS_LOG.casefold() not in problem.remedy.casefold():
        return problem
    remedy = (
        f"Its pod {pod.name} is deleted, with its log: follow that of the next attempt (`kubectl logs -f`). "
        "With spec.upgrade.mode: Savepoint the pod of a driver that fails stays"
    )
    return replace(problem, remedy=remedy)


def not_prepared(pod: Pod | None, job: StreamJob) -> Problem:
    """Say that a prepared driver has not come to its gate in time."""
    limit = job.spec.upgrade.start_timeout
    if pod is None or not pod.started:
        return Problem(
            "DriverNotStarted",
            f"no driver could be prepared within {limit}",
            "See the Events of the job and of its pods; fix what they name",
        )
    return Problem(
        "DriverNotPrepared",
        f"the script in {pod.name} has not come to its first query within {limit}",
        "Look for what it waits for before its first query, or raise spec.upgrade.startTimeout",
    )


def unreachable(pod: Pod, last: DriverStatus | None) -> Problem:
    """Describe a driver whose container runs but which has not answered for a while.

    :param last: its last status; None if it has never answered.
    """
    if pod.deleting:
        return Problem(
            "DriverNotGone",
            f"the pod {pod.name} is being deleted, but its node {pod.node} does not say that it has ended",
            "Wait for the node; if it is off for good, delete the Node object",
        )
    return Problem(
        "DriverUnreachable",
        f"the driver in pod {pod.name} has not answered {'yet' if last is None else 'for a while'}",
        "See the driver's log, whether its container is paused or its node overloaded, and whether a "
        "NetworkPolicy keeps the controller from its control port"
        + (
            "; if the log is not a driver's, the image's entry point does not run the command that it is "
            "given: set `command` of the container driver in spec.driver.template"
            if last is None
            else "; if the pod is deleted, another driver continues from the latest checkpoint"
        ),
    )


def not_responding(driver: DriverStatus | None) -> Problem | None:
    """`DriverStatus.frozen` of a driver, None if nothing is known of it."""
    return driver.frozen if driver is not None else None


def was_stable(pod: Pod | None, now: datetime) -> bool:
    """Whether the driver ran for so long before it ended that its failure is a new one."""
    if pod is None or pod.started_at is None:
        return False
    until = pod.exit.at if pod.exit and pod.exit.at else now
    return until - pod.started_at >= STABLE


def _exited(end: DriverExit) -> Problem:
    if end.refusal is not None:
        return end.refusal
    if end.reason in CANNOT_START:
        text = f"the driver's container cannot start: {end.tail}"
        remedy = "Correct spec.image: it needs a shell (/bin/sh), Python, Java and Spark"
        return Problem("ContainerCannotStart", text, remedy)
    report, tail = end.report, f". Its log ends:\n{end.tail}\n" if end.tail else ""
    if end.reason == OUT_OF_MEMORY:
        return Problem(
            OUT_OF_MEMORY,
            "the driver needed more memory than its pod has and was killed",
            MORE_MEMORY,
            retryable=True,
        )
    if end.code == KILLED:
        # Without a report the kubelet supplies the end of the log, which says nothing about the kill.
        return Problem(
            "DriverKilled",
            "the driver was killed (SIGKILL)",
            "Nothing has to be done for once. If it happens again, see the Events of the pod and its node, "
            "and the node's memory",
            retryable=True,
        )
    if report is None:
        text = f"the driver left with exit code {end.code} and without a report{tail}"
        remedy = "See the driver's log; with runtime: Image, the image needs the package streamjob"
        return Problem("DriverExited", text, remedy, retryable=True)
    why = f": {without_secrets(report.exit_reason)}" if report.exit_reason else ""
    if end.script_code:
        text = f"the script ended with exit code {end.script_code}{why}"
        return Problem("ScriptFailed", text, SEE_ITS_LOG, retryable=True)
    if end.failed:
        text = f"a query was dead when the script ended{why}"
        return report.degraded or Problem("QueryFailed", text, SEE_ITS_LOG, retryable=True)
    text = f"the driver exited with code 0, and its final checkpoint is not in the index{why}"
    return Problem("DriverExited", text, SEE_ITS_LOG, retryable=True)
