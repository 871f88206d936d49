"""Savepoints: how far one is, which are there, and the pod in which their commands run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamjob.cli.commands.state import NoState, checkpoint
from streamjob.cli.tools import ROOM, free_memory
from streamjob.cli.views import tool_pod
from streamjob.cli.views.checkpoints import parsed
from streamjob.cli.views.events import events
from streamjob.cli.views.job import Job, job
from streamjob.cli.views.progress import Mover, Outcome
from streamjob.cli.views.savepoint import folder, location, look, table
from streamjob.controller.objects import names, runtime_files
from streamjob.controller.objects.driver_pod import driver_pod
from streamjob.controller.objects.pod_parts import RUNTIME_FOLDER
from streamjob.controller.rules.driver_config import driver_config

from ..controller.factories import NOW
from ..controller.factories import job as a_job
from .recorded import situations
from .test_timeline import LIFE, at, index


def running(**status: Any) -> Job:
    obj = situations()["healthy_running"]
    return job({**obj, "status": {**obj["status"], **status}})


def request(**more: Any) -> dict[str, Any]:
    return {"requestId": "savepoint-manual-4", "requestedAt": at(-1), "deadline": at(29), **more}


# --- how far it is ------------------------------------------------------------------------------------------


def test_a_savepoint_that_is_being_taken() -> None:
    found = look(4, running(savepointRequest=request(progress="copied 3 of 9 files")), NOW)
    assert (found.outcome, found.waits_for, found.mover) == (Outcome.GOING, "copied 3 of 9 files", Mover.JOB)
    assert found.left == 29 * 60
    assert found.step == "the driver copies the files"


def test_a_savepoint_that_is_there() -> None:
    found = look(4, running(savepointRequest=request(checkpoint=8, savepoint="s3a://b/x")), NOW)
    assert (found.outcome, found.waits_for) == (Outcome.REACHED, "checkpoint 8 is the savepoint s3a://b/x")


def test_a_savepoint_that_was_aborted() -> None:
    found = look(4, running(savepointRequest=request(failure="the disk is full")), NOW)
    assert (found.outcome, found.waits_for) == (Outcome.FAILED, "there is none: the disk is full")


def test_an_earlier_request_is_not_ours() -> None:
    """Its outcome says nothing about the one that was asked for later."""
    found = look(5, running(savepointRequest=request(checkpoint=8)), NOW)
    assert found.outcome is Outcome.GOING
    pending = look(5, running(savepointRequest=request()), NOW)
    assert "is taken first" in pending.waits_for
    schedule = look(4, running(savepointRequest=request(requestId="savepoint-schedule-x", checkpoint=3)), NOW)
    assert schedule.outcome is Outcome.GOING


def test_no_savepoint_is_taken_of_a_job_that_has_ended() -> None:
    assert look(4, job(situations()["healthy_drained"]), NOW).outcome is Outcome.FAILED
    assert look(4, None, NOW).outcome is Outcome.SUPERSEDED


# --- which are there ----------------------------------------------------------------------------------------


def test_the_newest_comes_first() -> None:
    lines = list(table(LIFE, NOW).lines())
    assert [line.split()[0] for line in lines] == ["NAME", "savepoint-manual-3", "stop-1-2"]
    assert "Manual" in lines[1]


def test_the_one_that_the_job_resumes_from_is_marked() -> None:
    stopped = index(
        {
            "checkpoint": 1,
            "epoch": 1,
            "completed_at": at(-1),
            "scenario": "Stop",
            "request_id": "stop-1-1",
            "savepoint": "s3a://b/stop-1-1",
        }
    )
    assert "the job resumes from it" in list(table(stopped, NOW).lines())[1]


def test_deleted_ones_are_shown_on_request() -> None:
    deleted = [
        {"savepoint": "s3a://b/one", "checkpoint": 1, "at": at(-5)},
        {"savepoint": "s3a://b/two", "checkpoint": 2, "at": None},
    ]
    found = parsed(json.dumps({"checkpoints": [], "deleted": deleted}))
    assert len(list(table(found, NOW).lines())) == 1
    shown = list(table(found, NOW, deleted=True).lines())
    assert "to be deleted" in shown[1]
    assert "one" in shown[2]


def test_a_savepoint_is_found_by_name_by_location_and_as_the_newest() -> None:
    ours = a_job()
    view = job(
        {
            "metadata": {
                "name": ours.metadata.name,
                "namespace": ours.metadata.namespace,
                "uid": ours.metadata.uid,
            },
            "spec": {"storage": {"savepoints": ours.spec.storage.savepoints}},
        }
    )
    assert location(view, LIFE, "latest") == "s3a://b/sp/j/savepoint-manual-3"
    assert location(view, LIFE, "stop-1-2") == "s3a://b/sp/j/stop-1-2"
    assert location(view, LIFE, "s3a://elsewhere/x") == "s3a://elsewhere/x"
    # One that the index has dropped is where the controller puts all of them.
    assert location(view, LIFE, "stop-9-9") == names.savepoint(ours, "stop-9-9")
    assert names.savepoint(ours, "x").startswith(f"{folder(view)}/")
    assert location(job({}), parsed('{"checkpoints": []}'), "latest") is None


# --- state --------------------------------------------------------------------------------------------------


def stage(uid: str, kind: str, batch: int | None = 5) -> dict[str, Any]:
    task = {"index": 0, "location": f"file:///cp/{uid}/0", "batch": batch}
    return {"uid": uid, "tasks": [task], "operators": [{"uid": "o", "kind": kind}]}


def test_the_state_of_the_newest_checkpoint() -> None:
    one = {"checkpoint": 1, "epoch": 1, "completed_at": at(-1)}
    found = index(one | {"stages": [stage("plain", "Source"), stage("windows", "State")]})
    view = job({"metadata": {"name": "orders"}})
    assert checkpoint(view, found, None, 0) == ("file:///cp/windows/0", 5)
    assert checkpoint(view, found, "plain", 0) == ("file:///cp/plain/0", 5)
    with pytest.raises(NoState, match="no task 1"):
        checkpoint(view, found, "windows", 1)
    two = index(one | {"stages": [stage("a", "State"), stage("b", "State")]})
    with pytest.raises(NoState) as e:
        checkpoint(view, two, None, 0)
    assert e.value.remedy == "Choose a stage: a, b"


# --- the pod ------------------------------------------------------------------------------------------------

TEMPLATE = {
    "spec": {
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "spark", "operator": "Exists"}],
        "containers": [
            {"name": "driver", "env": [{"name": "LEVEL", "value": "INFO"}]},
            {"name": "proxy", "image": "proxy:1"},
        ],
        "volumes": [{"name": "secrets", "secret": {"secretName": "s"}}],
    }
}
STORAGE = {
    "checkpoints": "file:///data/cp",
    "savepoints": "file:///data/sp",
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "streams"}}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
}


def made(runtime: str = "Injected") -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod for the commands, and the driver's pod of the same job, as the controller makes it."""
    env = [{"name": "AWS_ACCESS_KEY_ID", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "id"}}}]
    ours = a_job(
        runtime=runtime,
        storage=STORAGE,
        application={"file": "/app/orders.py", "env": env},
        driver={"template": TEMPLATE, "serviceAccountName": "streams"},
        imagePullSecrets=[{"name": "registry"}],
        sparkConf={"spark.hadoop.fs.s3a.endpoint": "https://s3", "spark.sql.shuffle.partitions": "8"},
    )
    obj = {"metadata": ours.metadata.plain(), "spec": ours.spec.plain()}
    found = tool_pod.pod(job(obj), "orders-tool-1", "streamjob-runtime-x", memory="768Mi")
    return found, driver_pod(ours, driver_config(ours, None, 1, 0, None))


def by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {e["name"]: e for e in entries}


@pytest.mark.parametrize("runtime", ["Injected", "Image"])
def test_the_pod_reads_what_the_driver_reads(runtime: str) -> None:
    tool, driver = made(runtime)
    ours, theirs = tool["spec"], driver["spec"]
    for field in ("nodeSelector", "tolerations", "securityContext", "serviceAccountName", "imagePullSecrets"):
        assert ours.get(field) == theirs.get(field), field
    (container,) = ours["containers"]
    of_driver = by_name(theirs["containers"])["driver"]
    assert container["image"] == of_driver["image"]
    assert container["securityContext"] == of_driver["securityContext"]
    mounts, volumes = by_name(container["volumeMounts"]), by_name(ours["volumes"])
    assert {"data", "streamjob-tmp"} <= mounts.keys()
    assert all(mounts[name] == m for name, m in by_name(of_driver["volumeMounts"]).items() if name in mounts)
    assert volumes["data"] == by_name(theirs["volumes"])["data"]
    assert "secrets" in volumes
    env = by_name(container["env"])
    assert {"LEVEL", "AWS_ACCESS_KEY_ID"} <= env.keys()
    assert "STREAMJOB_CONFIG" not in env, "it is no driver"


def test_the_pod_is_nobodys_driver_and_ends_by_itself() -> None:
    tool, driver = made()
    labels = tool["metadata"]["labels"]
    assert names.LABEL_UID not in labels
    assert labels[names.LABEL_COMPONENT] not in (names.DRIVER, names.EXECUTOR, names.RUNTIME)
    assert tool["metadata"]["ownerReferences"][0]["uid"] == driver["metadata"]["ownerReferences"][0]["uid"]
    assert "controller" not in tool["metadata"]["ownerReferences"][0]
    assert tool["spec"]["activeDeadlineSeconds"] <= 3600
    assert tool["spec"]["automountServiceAccountToken"] is False


def test_the_command_runs_with_the_images_own_python_and_the_jobs_file_systems() -> None:
    obj = situations()["healthy_running"]
    conf = {"spark.hadoop.fs.s3a.endpoint": "https://s3", "spark.sql.shuffle.partitions": "8"}
    view = job({**obj, "spec": {**obj["spec"], "sparkConf": conf}})
    assert tool_pod.command(view, ["savepoint", "list", "x"]) == [
        "/bin/sh",
        f"{RUNTIME_FOLDER}/{runtime_files.LAUNCHER}",
        "savepoint",
        "list",
        "x",
        "--conf",
        "spark.hadoop.fs.s3a.endpoint=https://s3",
    ]
    packaged = job({**obj, "spec": {**obj["spec"], "runtime": "Image"}})
    assert tool_pod.command(packaged, ["savepoint"])[:3] == ["python", "-m", "streamjob.runtime"]
    assert '"$@"' in runtime_files.launcher(), "the launcher passes them on"


def test_the_newest_runtime_is_taken() -> None:
    found = [
        {"metadata": {"name": "streamjob-runtime-a", "creationTimestamp": at(-10)}},
        {"metadata": {"name": "streamjob-runtime-b", "creationTimestamp": at(-1)}},
    ]
    assert tool_pod.newest(found) == "streamjob-runtime-b"
    assert tool_pod.newest([]) is None
    label, _, value = tool_pod.RUNTIMES.partition("=")
    assert runtime_files.config_map("x")["metadata"]["labels"][label] == value


def test_memory_that_a_container_may_still_take() -> None:
    stat = "anon 1\ninactive_file 300\n"
    assert free_memory(f"1000\n600\n{stat}") == 700
    assert free_memory(f"max\n600\n{stat}") == ROOM


SCHEDULED = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 fit"}


def told(reason: str, message: str, kind: str = "Normal") -> dict[str, Any]:
    return {"reason": reason, "message": message, "type": kind, "lastTimestamp": at(-1)}


@pytest.mark.parametrize(
    ("status", "events_", "text"),
    [
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "no such"}}}]},
            [],
            "its image (ErrImagePull: no such)",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "CreateContainerConfigError"}}}]},
            [],
            "its container (CreateContainerConfigError)",
        ),
        ({}, [], "a node"),
        ({"conditions": [NO_NODE]}, [], "a node (Unschedulable: 0/3 fit)"),
        (SCHEDULED, [], "its container to start"),
        (
            SCHEDULED,
            [told("Scheduled", "Assigned to a"), told("Pulling", 'Pulling image "x:1"')],
            'its image (Pulling image "x:1")',
        ),
        (SCHEDULED, [told("Pulling", "Pulling"), told("Pulled", "Pulled")], "its container to start"),
        (
            SCHEDULED,
            [told("FailedMount", "no claim\nstreams", "Warning")],
            "its container (FailedMount: no claim streams)",
        ),
        (
            SCHEDULED | {"initContainerStatuses": [{"name": "fetch", "state": {"running": {}}}]},
            [],
            "its init container fetch",
        ),
    ],
)
def test_what_a_pod_waits_for(status: dict[str, Any], events_: list[dict[str, Any]], text: str) -> None:
    assert tool_pod.waits_for({"status": status}, events(events_)) == text
