"""The template of the executors' pods: our defaults, the user's template, what the operator needs."""

from __future__ import annotations

from typing import Any

from streamjob.controller.objects import names
from streamjob.controller.objects.executor_template import executor_template

from ..factories import UID, job


def made(template: dict[str, Any] | None = None, **spec: Any) -> Any:
    return executor_template(job(executor={"instances": 1, "template": template}, **spec), 1)


def container(pod: Any, name: str = "executor") -> Any:
    (found,) = [c for c in pod["spec"]["containers"] if c["name"] == name]
    return found


def mounted(pod: Any) -> dict[str, str]:
    return {m["mountPath"]: m["name"] for m in container(pod)["volumeMounts"]}


def of_main(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "executor", **fields}]}}


def test_the_defaults() -> None:
    pod = made()
    assert pod["metadata"]["labels"]["streamjob.dev/component"] == "executor"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["runAsUser"] == 10001
    assert container(pod)["securityContext"]["readOnlyRootFilesystem"] is True
    assert mounted(pod) == {"/tmp": "spark-local-dir-1"}
    assert pod["spec"]["volumes"] == [{"name": "spark-local-dir-1", "emptyDir": {}}]


def test_everything_that_a_pod_may_have() -> None:
    spec = {
        "tolerations": [{"key": "spark", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "batch",
        "schedulerName": "volcano",
        "terminationGracePeriodSeconds": 90,
        "securityContext": {"runAsUser": 185, "fsGroup": 185},
        "volumes": [{"name": "work", "emptyDir": {}}],
        "initContainers": [{"name": "fetch", "image": "fetch:1"}],
        "containers": [
            {
                "name": "executor",
                "env": [{"name": "LEVEL", "value": "INFO"}, {"name": "HOME", "value": "/work"}],
                "securityContext": {"readOnlyRootFilesystem": False},
                "volumeMounts": [{"name": "work", "mountPath": "/opt/spark/work-dir"}],
                "resources": {"limits": {"nvidia.com/gpu": 1}},
            },
            {"name": "proxy", "image": "proxy:1"},
        ],
    }
    pod = made({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}}, "spec": spec})
    kept = ("tolerations", "affinity", "priorityClassName", "schedulerName", "initContainers")
    assert {k: pod["spec"][k] for k in kept} == {k: spec[k] for k in kept}
    assert pod["spec"]["terminationGracePeriodSeconds"] == 90
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["labels"][names.LABEL_UID] == UID
    assert pod["metadata"]["annotations"] == {"note": "x"}
    # What it does not name stays.
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["runAsUser"] == 185
    security = container(pod)["securityContext"]
    assert (security["readOnlyRootFilesystem"], security["capabilities"]) == (False, {"drop": ["ALL"]})
    assert {e["name"]: e["value"] for e in container(pod)["env"]} == {"LEVEL": "INFO", "HOME": "/work"}
    assert mounted(pod) == {"/opt/spark/work-dir": "work", "/tmp": "spark-local-dir-1"}
    assert container(pod)["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert container(pod, "proxy") == {"name": "proxy", "image": "proxy:1"}


def test_what_the_operator_relies_on_stays() -> None:
    """Most of it is refused at `apply`; an object that was stored before is not."""
    template = {"metadata": {"labels": {names.LABEL_UID: "other", names.LABEL_EPOCH: "9"}}}
    storage = {
        "checkpoints": "/data/cp",
        "savepoints": "/data/sp",
        "volumes": [{"name": "data", "emptyDir": {}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    mine = of_main(
        volumeMounts=[{"name": "mine", "mountPath": "/data"}, {"name": "mine", "mountPath": "/mine"}]
    )
    pod = made(template | mine, storage=storage)
    assert pod["metadata"]["labels"][names.LABEL_UID] == UID
    assert pod["metadata"]["labels"][names.LABEL_EPOCH] == "1"
    assert mounted(pod) == {"/mine": "mine", "/tmp": "spark-local-dir-1", "/data": "data"}


def test_the_users_volumes_for_local_files_take_the_place_of_ours() -> None:
    claim = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
    template = of_main(volumeMounts=[{"name": "spark-local-dir-1", "mountPath": "/local"}])
    template["spec"]["volumes"] = [{"name": "spark-local-dir-1", "ephemeral": claim}]
    pod = made(template)
    assert mounted(pod) == {"/local": "spark-local-dir-1", "/tmp": "streamjob-tmp"}
    assert {v["name"]: v for v in pod["spec"]["volumes"]} == {
        "spark-local-dir-1": {"name": "spark-local-dir-1", "ephemeral": claim},
        "streamjob-tmp": {"name": "streamjob-tmp", "emptyDir": {}},
    }


def test_so_do_those_that_spark_makes_itself() -> None:
    prefix = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1"
    conf = {f"{prefix}.options.claimName": "OnDemand", f"{prefix}.mount.path": "/local"}
    assert mounted(made(sparkConf=conf)) == {"/tmp": "streamjob-tmp"}
