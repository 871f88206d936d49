"""`check`: the pod that is made for it, and what it says of fields that are no part of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from streamjob.cli import kubectl, tools
from streamjob.cli.group import main
from streamjob.cli.options import Options
from streamjob.cli.views import check_pod, tool_pod
from streamjob.cli.views.job import job
from streamjob.protocol.formats import codec
from streamjob.protocol.messages.driver_config import DriverConfig

OBJ: dict[str, Any] = {
    "apiVersion": "streamjob.dev/v1alpha1",
    "kind": "StreamJob",
    "metadata": {"name": "orders", "namespace": "shop", "uid": "0123456789ab", "generation": 3},
    "spec": {
        "image": "orders:1",
        "application": {"file": "/app/orders.py", "args": ["in"], "env": [{"name": "A", "value": "b"}]},
        "sparkConf": {"spark.sql.shuffle.partitions": "4"},
        "deps": {"pyFiles": ["s3a://code/lib.zip"]},
        "executor": {"instances": 2},
        "storage": {
            "checkpoints": "file:///data/checkpoints/",
            "savepoints": "file:///data/savepoints",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
        "restoreFrom": {"allowNonRestoredState": True},
    },
    "status": {"epoch": 4},
}


def made(image: str = "orders:2") -> dict[str, Any]:
    after = check_pod.changed(job(OBJ), {**OBJ["spec"], "image": image})
    return check_pod.pod(after, tool_pod.pod(after, "orders-check", "runtime-1", memory="2Gi"))


def test_the_pod_has_what_a_driver_has_and_may_only_read() -> None:
    pod = made()
    (container,) = pod["spec"]["containers"]
    variables = {v["name"]: v.get("value") for v in container["env"]}
    config = codec.loads(DriverConfig, str(variables["STREAMJOB_CONFIG"]))
    assert (container["image"], variables["A"]) == ("orders:2", "b")
    assert (config.application.file, config.application.args) == ("/app/orders.py", ("in",))
    assert (config.checkpoints, config.epoch) == ("file:///data/checkpoints/shop-orders-01234567", 5)
    assert config.spark_conf == {"spark.sql.shuffle.partitions": "4"}
    assert config.deps.py_files == ("s3a://code/lib.zip",)
    assert config.restore.allow_non_restored_state
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in container["volumeMounts"]}
    assert mounts == {"/tmp": False, "/data": True, "/opt/streamjob": True, check_pod.INDEX: True}
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}
    assert volumes["streamjob-index"]["configMap"] == {"name": "orders-checkpoints", "optional": True}
    assert "ports" not in container


def test_no_controller_takes_it_for_a_driver() -> None:
    pod = made()
    assert pod["metadata"]["labels"]["streamjob.dev/component"] == "tool"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == "0123456789ab"
    assert (pod["spec"]["restartPolicy"], pod["spec"]["activeDeadlineSeconds"]) == ("Never", 3600)


def test_a_change_that_is_no_part_of_it_is_named() -> None:
    after = {
        **OBJ["spec"],
        "image": "orders:2",
        "executor": {"instances": 4},
        "upgrade": {"mode": "Handover"},
    }
    assert check_pod.not_checked(OBJ["spec"], after) == ["executor", "upgrade"]


class Cluster:
    """kubectl as the command sees it, and what runs in the pod."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: dict[str, Any] | None = None) -> None:
        self.ran: list[tuple[str, ...]] = []
        self.checked: list[tuple[Any, list[str]]] = []
        self._file = file

        def run(_: object, *words: str, stdin: str | None = None) -> str:
            self.ran.append(words)
            return json.dumps(self._file if words[0] == "apply" else OBJ)

        def check(chosen: Options, after: Any, words: list[str]) -> int:
            self.checked.append((after, words))
            return 1

        monkeypatch.setattr(kubectl.Kubectl, "run", run)
        monkeypatch.setattr(tools, "check", check)


def test_the_image_is_checked_and_the_exit_code_is_that_of_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    done = CliRunner().invoke(main, ["check", "orders", "--image", "orders:2"], standalone_mode=False)
    ((after, words),) = cluster.checked
    assert (done.return_value, after.spec["image"], words) == (1, "orders:2", [])
    assert {words[0] for words in cluster.ran} == {"get"}


def test_nothing_of_a_file_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    new = {**OBJ, "spec": {**OBJ["spec"], "image": "orders:3", "executor": {"instances": 9}}}
    cluster = Cluster(monkeypatch, new)
    done = CliRunner().invoke(main, ["check", "-f", "new.yaml"], standalone_mode=False)
    ((after, _),) = cluster.checked
    assert after.spec["image"] == "orders:3"
    assert "spec.executor" in done.stderr
    (applied,) = [words for words in cluster.ran if words[0] == "apply"]
    assert "--dry-run=server" in applied


@pytest.mark.parametrize("words", [["check"], ["check", "orders"], ["check", "bills", "-f", "new.yaml"]])
def test_it_has_to_say_what_is_checked(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    cluster = Cluster(monkeypatch, OBJ)
    done = CliRunner().invoke(main, words, standalone_mode=False)
    assert getattr(done.exception, "reason", None) == "NothingToCheck"
    assert not cluster.checked
