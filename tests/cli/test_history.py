"""Whose log it is that `logs` prints and `diagnose` goes by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamjob.cli.__main__ import main
from streamjob.cli.access.facts import read_facts
from streamjob.cli.errors import ExitCode
from streamjob.cli.options import Options
from streamjob.cli.printing.times import moment
from streamjob.cli.views.job import job

from .recorded import situations
from .test_diagnosis import deployed
from .test_timeline import at, driver

Output = pytest.CaptureFixture[str]
STOPPED = {"epoch": 6, "code": 0, "reason": "stopped by request stop-6-3 with checkpoint 9"}


def cluster(
    folder: Path, monkeypatch: pytest.MonkeyPatch, obj: dict[str, Any], *pods: dict[str, Any]
) -> None:
    """A kubectl that knows this job and these pods; each log has one line."""
    (folder / "job.json").write_text(json.dumps(obj))
    (folder / "pods.json").write_text(json.dumps({"items": pods}))
    (folder / "deployments.json").write_text(json.dumps({"items": [deployed("--all-namespaces")]}))
    script = folder / "kubectl"
    script.write_text(
        f"""#!/bin/sh
case "$*" in
*streamjobs*) cat {folder}/job.json ;;
*"get pods"*) cat {folder}/pods.json ;;
*"get events"*) echo '{{"items": []}}' ;;
*"get configmap"*) ;;
*"get lease"*) exit 1 ;;
*"get deployments"*) cat {folder}/deployments.json ;;
*) echo "$*" ;;
esac
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("KUBECTL", str(script))


def epoch_6(phase: str, **status: Any) -> dict[str, Any]:
    obj = situations()["healthy_running"]
    return {**obj, "status": {**obj["status"], "phase": phase, "epoch": 6, "driver": None, **status}}


def test_the_log_of_an_earlier_epoch_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    cluster(tmp_path, monkeypatch, epoch_6("Stopped", lastExit=STOPPED), driver(5, -20, -10, 1))
    assert main(["logs", "orders"]) == ExitCode.DONE
    out, err = capsys.readouterr()
    assert "orders-driver-5" in out
    assert err.splitlines() == [
        "The pod of epoch 6, the last one, is gone. "
        "It ended with exit code 0: stopped by request stop-6-3 with checkpoint 9.",
        f"This is the log of epoch 5, which ended with exit code 1 at {at(-10)}:",
    ]


def test_the_log_of_an_epoch_that_was_asked_for_needs_no_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    cluster(tmp_path, monkeypatch, epoch_6("Stopped", lastExit=STOPPED), driver(5, -20, -10, 1))
    assert main(["logs", "orders", "--epoch", "5"]) == ExitCode.DONE
    assert capsys.readouterr().err == ""


def test_a_pod_that_is_about_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    last = {"epoch": 5, "code": 1, "reason": "no price"}
    cluster(tmp_path, monkeypatch, epoch_6("Starting", lastExit=last), driver(5, -20, -10, 1))
    assert main(["logs", "orders"]) == ExitCode.DONE
    assert "The pod of epoch 6, the last one, is not there yet.\n" in capsys.readouterr().err


NO_NODE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient cpu.",
}
PULL = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "nope"'}}


def waiting(epoch: int, **status: Any) -> dict[str, Any]:
    return {**driver(epoch, 0), "status": {"phase": "Pending", **status}}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({"conditions": [NO_NODE]}, "0/1 nodes are available: 1 Insufficient cpu"),
        (
            {"containerStatuses": [{"name": "driver", "state": PULL}]},
            'ImagePullBackOff: Back-off pulling image "nope"',
        ),
        ({}, "the pod orders-driver-6 is Pending"),
    ],
)
def test_a_driver_that_has_not_started_has_no_log(
    status: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Which log there is meanwhile is said, and none is printed."""
    failed = {"epoch": 5, "code": 1, "reason": "no price"}
    told = f"the driver of epoch 6 has not started: {why}."
    for pods, last, remedy in (
        ([driver(5, -20, -10, 1)], failed, "`kubectl streamjob logs orders --epoch 5` shows the one before"),
        ([], failed, "`kubectl streamjob logs orders --last-words` says how the one before ended"),
        ([], None, "`kubectl streamjob diagnose orders` says what to do"),
    ):
        cluster(tmp_path, monkeypatch, epoch_6("Starting", lastExit=last), *pods, waiting(6, **status))
        assert main(["logs", "orders"]) == ExitCode.PROBLEM
        out, err = capsys.readouterr()
        assert out == ""
        assert told in err
        assert remedy in err


def test_a_diagnosis_knows_whose_log_it_has_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of epoch 5; the driver of epoch 4 was stopped, and the sixth one's pod is gone."""
    obj = epoch_6("Stopped", lastExit=STOPPED)
    cluster(tmp_path, monkeypatch, obj, driver(4, -30, -20), driver(5, -20, -10, 1))
    log = read_facts(Options(), job(obj)).last_log
    assert log is not None
    assert (log.epoch, log.ended) == (5, moment(at(-10)))
    assert "orders-driver-5" in log.lines[0]


def test_a_diagnosis_asks_when_the_spec_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """kubectl leaves that out unless it is asked."""
    obj = situations()["progressing_newGeneration"]
    changed = {"time": at(-5), "fieldsV1": {"f:spec": {"f:state": {}}}}
    managed = {**obj, "metadata": {**obj["metadata"], "managedFields": [changed]}}
    cluster(tmp_path, monkeypatch, obj)
    (tmp_path / "managed.json").write_text(json.dumps(managed))
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(
        kubectl.read_text().replace(
            "in\n", f"in\n*--show-managed-fields*) cat {tmp_path}/managed.json ;;\n", 1
        )
    )
    main(["diagnose", "orders"])
    assert "The operator has not looked at the newest spec, which is" in capsys.readouterr().out
