"""Parsing a driver pod: pods in every state, and reports that can be trusted."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.controller.objects import names
from streamjob.controller.rules.parse_pod import parse_pod
from streamjob.protocol.formats import codec
from streamjob.protocol.messages.driver_status import DriverPhase, Problem
from streamjob.protocol.messages.final_report import report

from ..factories import UID, driver, record


def raw(status: dict[str, Any], epoch: int = 2, **meta: Any) -> dict[str, Any]:
    labels = {names.LABEL_UID: UID, names.LABEL_EPOCH: str(epoch)}
    return {
        "metadata": {
            "name": f"orders-driver-{epoch}",
            "uid": "p",
            "resourceVersion": "9",
            "labels": labels,
            **meta,
        },
        "spec": {"nodeName": "n1"},
        "status": status,
    }


def container(**state: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "sidecar", "state": {}}, {"name": "driver", "state": state}]}


def test_a_new_pod() -> None:
    pod = parse_pod(raw({"phase": "Pending"}, annotations={names.ANNOTATION_GENERATION: "4"}))
    assert pod is not None
    assert (pod.epoch, pod.generation, pod.started, pod.terminated, pod.node) == (2, 4, False, False, "n1")


def test_a_running_pod() -> None:
    state = {"running": {"startedAt": "2026-01-02T03:00:00Z"}}
    pod = parse_pod(raw({"phase": "Running", "podIP": "10.0.0.1", **container(**state)}))
    assert pod is not None
    assert pod.started
    assert pod.ip == "10.0.0.1"


def test_a_waiting_and_an_unschedulable_pod() -> None:
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    pod = parse_pod(raw({"phase": "Pending", **container(**state)}))
    assert pod is not None
    assert pod.waiting == ("ErrImagePull", "not found")
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
        | {"lastTransitionTime": "2026-01-02T03:00:00Z"}
    ]
    pod = parse_pod(raw({"phase": "Pending", "conditions": conditions}))
    assert pod is not None
    assert pod.unschedulable is not None
    assert pod.unschedulable.message == "0/1 nodes"
    assert pod.waits


@pytest.mark.parametrize("status", ["False", "True"])
def test_a_pod_whose_volumes_are_not_mounted(status: str) -> None:
    ready = {"type": "PodReadyToStartContainers", "status": status}
    conditions = [{**ready, "lastTransitionTime": "2026-01-02T03:00:00Z"}]
    pod = parse_pod(raw({"phase": "Pending", "conditions": conditions}))
    assert pod is not None
    assert (pod.unmounted_since is not None, pod.waits) == (status == "False", status == "False")


def ended(message: str, code: int = 0) -> dict[str, Any]:
    state = {"exitCode": code, "reason": "Completed", "message": message}
    state |= {"startedAt": "2026-01-02T03:00:00Z", "finishedAt": "2026-01-02T03:01:00Z"}
    return raw({"phase": "Succeeded", **container(terminated=state)})


def test_the_final_report() -> None:
    status = driver(DriverPhase.TERMINATED, 2, completed=record(1, 2))
    pod = parse_pod(ended(report(status)))
    assert pod is not None
    assert pod.terminated
    assert pod.exit is not None
    assert pod.exit.report == status


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Traceback (most recent call last):\n  File x\nImportError: no module\n",
        codec.dumps(driver(epoch=1)),
        "{}",
    ],
)
def test_what_is_no_report_of_this_epoch_is_not_believed(message: str) -> None:
    pod = parse_pod(ended(message, 1))
    assert pod is not None
    assert pod.exit is not None
    assert pod.exit.report is None
    if "ImportError" in message:
        assert pod.exit.tail == message.strip()


def test_the_launchers_refusal() -> None:
    text = '{"reason": "PythonMissing", "message": "no Python", "remedy": "another image"}\n'
    pod = parse_pod(ended(text, 2))
    assert pod is not None
    assert pod.exit is not None
    assert pod.exit.refusal == Problem("PythonMissing", "no Python", "another image")
    assert (pod.exit.report, pod.exit.tail) == (None, "")


def test_a_pod_without_an_epoch_is_none_of_ours() -> None:
    pod = raw({})
    del pod["metadata"]["labels"][names.LABEL_EPOCH]
    assert parse_pod(pod) is None
