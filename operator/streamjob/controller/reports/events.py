"""Kubernetes Events: what happened between two statuses, for `kubectl describe`."""

from __future__ import annotations

import hashlib
import socket
from datetime import datetime, timezone
from typing import Any

from ...api import (
    GROUP,
    KIND,
    VERSION,
    CheckpointStatus,
    ConditionType,
    Phase,
    Status,
    StreamJob,
    UpgradeStatus,
)
from .messages import ROLLED_BACK, KubernetesEvent, how_it_went, sentence

WARNINGS = {Phase.RESTARTING, Phase.FAILED}
ENDING = {Phase.STOPPING, Phase.DRAINING}
INSTANCE = socket.gethostname()[:128]  # in a cluster, the name of the controller's pod
NOTE_LIMIT = 1000  # bytes; Kubernetes takes 1024


def events(old: Status, new: Status) -> list[KubernetesEvent]:
    """List the Events for what changed from `old` to `new`."""
    found = []
    ready = new.condition(ConditionType.READY)
    if new.last_error is not None and new.last_error != old.last_error:
        error = new.last_error
        found.append(KubernetesEvent(True, error.reason, sentence(error.problem)))
    if new.checkpoint is not None and new.checkpoint != old.checkpoint and _tells(old, new.checkpoint, new):
        text = f"Checkpoint {new.checkpoint.latest} of epoch {new.checkpoint.epoch} is in the index"
        found.append(KubernetesEvent(False, "CheckpointCompleted", text))
    aborted = new.aborted_checkpoint
    if aborted is not None and aborted != old.aborted_checkpoint:
        text = (
            f"Checkpoint {aborted.checkpoint} of epoch {aborted.epoch} was aborted, the job continues: "
            f"{aborted.reason}"
        )
        found.append(KubernetesEvent(True, "CheckpointAborted", text))
    if new.savepoint is not None and new.savepoint != old.savepoint:
        found.append(KubernetesEvent(False, "SavepointCompleted", new.savepoint.latest))
    request, before = new.savepoint_request, old.savepoint_request
    another = request is not None and (before is None or before.request_id != request.request_id)
    if request is not None and another and request.failure is None:
        text = f"Savepoint {request.request_id} was requested"
        found.append(KubernetesEvent(False, "SavepointRequested", text))
    if (
        request is not None
        and request.failure is not None
        and (before is None or before.failure != request.failure)
    ):
        text = f"Savepoint {request.request_id} was aborted, the job continues: {request.failure}"
        found.append(KubernetesEvent(True, "SavepointAborted", text))
    found += _standby(old, new)
    found += _executors(old, new)
    found += [KubernetesEvent(True, w.reason, w.message) for w in new.warnings if w not in old.warnings]
    found += _degraded(old, new)
    found += _ui(old, new)
    if new.phase is not None and new.phase != old.phase:
        found.append(KubernetesEvent(new.phase in WARNINGS, new.phase.value, _phase(new)))
    e = new.escalation
    if e is not None and e != old.escalation:
        found.append(KubernetesEvent(True, "Escalated", ready.message if ready else ""))
    if new.upgrade is not None and _news(old.upgrade, new.upgrade):
        found.append(how_it_went(new.upgrade))
    stalled, was = new.condition(ConditionType.STALLED), old.condition(ConditionType.STALLED)
    if stalled is not None and stalled.status == "True" and new.phase is not Phase.FAILED:
        known = was is not None and (was.status, was.reason) == (stalled.status, stalled.reason)
        reported = new.last_error is not None and new.last_error != old.last_error
        if not known and not reported and stalled.reason not in (ROLLED_BACK, "Escalated"):
            found.append(KubernetesEvent(True, stalled.reason, stalled.message))
    return found


def _phase(new: Status) -> str:
    """What the condition Ready says. An end names its request, so that each begins with an Event of its own:
    the recorder counts equal ones as one.
    """
    ready, t = new.condition(ConditionType.READY), new.termination
    text = ready.message if ready else ""
    if new.phase in ENDING and t is not None and t.final_checkpoint is None:
        return f"{text} (request {t.request_id})"
    return text


def _standby(old: Status, new: Status) -> list[KubernetesEvent]:
    """Report that a prepared driver waits at its first query, or why the standby does not."""
    before, now = old.standby, new.standby
    if now is None:
        return []
    error = now.error
    if error is not None and (before is None or before.error != error):
        return [KubernetesEvent(True, error.reason, f"The standby {now.pod}: {sentence(error.problem)}")]
    known = before is not None and before.prepared and before.epoch == now.epoch
    if not now.prepared or known:
        return []
    return [
        KubernetesEvent(False, "DriverPrepared", f"{now.pod} waits at its first query, and can take over")
    ]


def _executors(old: Status, new: Status) -> list[KubernetesEvent]:
    """Report that the running driver was asked for another number of executors."""
    before, now = old.executors, new.executors
    if before is None or now is None or new.epoch != old.epoch:
        return []
    if (before.min, before.max) == (now.min, now.max):
        return []
    number = str(now.max) if now.min == now.max else f"{now.min} to {now.max}"
    text = f"Executors wanted from the driver of epoch {new.epoch}: {number}; running: {now.running}"
    if new.autoscale is not None and new.autoscale.reason:
        text += f". {new.autoscale.reason}"
    return [KubernetesEvent(False, "ExecutorsChanged", text)]


def _degraded(old: Status, new: Status) -> list[KubernetesEvent]:
    """Report that a query of the running job has failed, that another one has, or that all run again.

    When the driver ends, the phase says more.
    """
    before, now = old.condition(ConditionType.DEGRADED), new.condition(ConditionType.DEGRADED)
    if now is not None and (before is None or before.message != now.message):
        return [KubernetesEvent(True, "Degraded", f"{now.reason}: {now.message}")]
    if before is not None and now is None and new.phase is Phase.RUNNING and new.epoch == old.epoch:
        return [KubernetesEvent(False, "Recovered", "Every query of the job runs again")]
    return []


def _ui(old: Status, new: Status) -> list[KubernetesEvent]:
    """Report that something that leads to Spark's UI is missing."""
    before, now = old.condition(ConditionType.UI_AVAILABLE), new.condition(ConditionType.UI_AVAILABLE)
    if now is None or now.status == "True" or (before is not None and before.message == now.message):
        return []
    return [KubernetesEvent(True, now.reason, now.message)]


def _tells(old: Status, made: CheckpointStatus, new: Status) -> bool:
    """Whether the checkpoint gets an Event: only an epoch's first and a termination's last do.

    An Event every few seconds would cost a write each time, and hide all other Events.
    """
    first = old.checkpoint is None or old.checkpoint.epoch != made.epoch
    return first or (new.termination is not None and new.termination.final_checkpoint == made.latest)


def _news(old: UpgradeStatus | None, new: UpgradeStatus) -> bool:
    return old is None or (old.step, old.target) != (new.step, new.target)


def event_object(job: StreamJob, event: KubernetesEvent, now: datetime) -> dict[str, Any]:
    """Build the Event object for the Kubernetes API. Its name is another one at each moment."""
    meta, time = job.metadata, microseconds(now)
    identity = hashlib.sha256(f"{meta.uid} {event} {time}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{meta.name}.{identity}", "namespace": meta.namespace},
        "eventTime": time,
        "reportingController": f"{GROUP}/controller",
        "reportingInstance": INSTANCE,
        "action": "Reconcile",
        "reason": event.reason,
        "regarding": {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        },
        "type": "Warning" if event.warning else "Normal",
        "note": event.message.encode()[:NOTE_LIMIT].decode(errors="ignore"),
    }


def microseconds(moment: datetime) -> str:
    """RFC 3339 with microseconds, as an Event has its times."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
