"""The pods of a job: what the operator relies on is there, whatever the user's template contains."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from streamjob.controller.objects import names, owned, runtime_files
from streamjob.controller.objects.driver_pod import SpecificationTooLarge, driver_pod
from streamjob.controller.objects.executor_template import executor_template
from streamjob.controller.objects.pod_parts import Platform
from streamjob.protocol.formats import codec
from streamjob.protocol.messages.driver_config import DriverConfig
from streamjob.runtime.process.config import load

from ..factories import UID, config, index, job, large_record

VOLUMES = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "orders"}},
    {"name": "app", "configMap": {"name": "app", "items": [{"key": "orders.py", "path": "orders.py"}]}},
    {"name": "shared", "nfs": {"server": "files", "path": "/exports"}},
]
MOUNTS = [
    {"name": "data", "mountPath": "/data"},
    {"name": "app", "mountPath": "/app", "readOnly": True},
    {"name": "shared", "mountPath": "/shared", "subPath": "orders"},
]


def pod(**spec: Any) -> Any:
    made = driver_pod(job(**spec), config(**spec))
    json.dumps(made)
    return made


def container(made: Any) -> Any:
    (only,) = [c for c in made["spec"]["containers"] if c["name"] == "driver"]
    return only


def env(made: Any) -> dict[str, Any]:
    listed = container(made)["env"]
    assert len({e["name"] for e in listed}) == len(listed)
    return {e["name"]: e for e in listed}


def test_the_driver_gets_its_configuration_in_its_environment() -> None:
    loaded = codec.loads(DriverConfig, env(pod())["STREAMJOB_CONFIG"]["value"])
    assert loaded == config()
    assert loaded.checkpoints == f"file:///data/cp/shop-orders-{UID[:8]}"
    assert loaded.eviction_savepoint == f"file:///data/sp/shop-orders-{UID[:8]}/eviction-1"
    assert loaded.grace == 60


def test_names_labels_and_owner() -> None:
    meta = pod()["metadata"]
    assert meta["name"] == "orders-driver-1"
    assert meta["labels"] == {
        "app.kubernetes.io/name": "spark",
        "app.kubernetes.io/instance": "orders",
        "app.kubernetes.io/component": "driver",
        "app.kubernetes.io/managed-by": "streamjob",
        "app.kubernetes.io/part-of": "streamjob",
        "spark-role": "driver",
        "spark-app-selector": f"orders-{UID[:8]}-1",
        "spark-app-name": "orders",
        "streamjob.dev/job": "orders",
        "streamjob.dev/uid": UID,
        "streamjob.dev/epoch": "1",
        "streamjob.dev/component": "driver",
    }
    (owner,) = meta["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["kind"]) == (UID, True, "StreamJob")


def test_executors_have_the_same_application_as_their_driver() -> None:
    """Spark labels them with spark.app.id."""
    spec: dict[str, Any] = {"executor": {"instances": 1}}
    label = lambda made: made["metadata"]["labels"]["spark-app-selector"]  # noqa: E731
    assert label(pod(**spec)) == config(**spec).spark_conf["spark.app.id"]
    assert config(2, **spec).spark_conf["spark.app.id"] != config(1, **spec).spark_conf["spark.app.id"]
    assert label(pod(**spec, sparkConf={"spark.app.id": "mine"})) == "mine"
    longest = f"{'a' * 40}-{UID[:8]}-1234567890"
    assert len(longest) <= 63


def test_the_label_of_the_name_is_as_spark_makes_it() -> None:
    label = lambda name: pod(sparkConf={"spark.app.name": name})["metadata"]["labels"]["spark-app-name"]  # noqa: E731
    assert label("Orders  of_the Shop ") == "orders-of-the-shop"
    assert label("*a*") == "a"
    assert label("a" * 62 + ".b") == "a" * 62


def test_secrets_for_the_registry() -> None:
    template = {"spec": {"imagePullSecrets": [{"name": "theirs"}]}}
    spec: dict[str, Any] = {"imagePullSecrets": [{"name": "registry"}], "executor": {"instances": 1}}
    assert pod(**spec)["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert pod(**spec, driver={"template": template})["spec"]["imagePullSecrets"] == [
        {"name": "theirs"},
        {"name": "registry"},
    ]
    assert executor_template(job(**spec), 1)["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert "imagePullSecrets" not in pod()["spec"]


def test_the_recommended_labels_are_on_everything_unless_a_template_overrides_them() -> None:
    executors = executor_template(job(), 1)["metadata"]["labels"]
    assert executors["app.kubernetes.io/component"] == "executor"
    assert (
        owned.config_map(job(), index(), None)["metadata"]["labels"]["app.kubernetes.io/instance"] == "orders"
    )
    template = {"metadata": {"labels": {"app.kubernetes.io/part-of": "shop"}}}
    assert pod(driver={"template": template})["metadata"]["labels"]["app.kubernetes.io/part-of"] == "shop"


def test_it_is_locked_down() -> None:
    spec = pod()["spec"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container({"spec": spec})["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["allowPrivilegeEscalation"] is False
    assert own["capabilities"] == {"drop": ["ALL"]}
    (control,) = [v for v in spec["volumes"] if v["name"] == "streamjob-control"]
    assert control["secret"] == {"secretName": "orders-control", "defaultMode": 0o440}
    assert spec["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("executor", "token"),
    [({"instances": 0}, False), ({"instances": 2}, True), ({"dynamicAllocation": {"max": 2}}, True)],
)
def test_only_a_driver_with_executors_may_call_the_api(executor: dict[str, Any], token: bool) -> None:
    assert pod(executor=executor)["spec"]["automountServiceAccountToken"] is token


def test_no_secret_is_in_the_pods_own_description() -> None:
    """Who may read pods may not read Secrets: the token is a file, and `ps` shows at most its path."""
    made = pod(executor={"instances": 1})
    assert not [e for e in container(made)["env"] if "secretKeyRef" in str(e)]
    assert "token" not in str(container(made)["args"]) + str(container(made)["env"])
    (mount,) = [m for m in container(made)["volumeMounts"] if m["name"] == "streamjob-control"]
    assert mount["readOnly"] is True
    executors = executor_template(job(executor={"instances": 1}), 1)
    assert "control" not in str(executors), (
        "executors run the same code and need no control over their driver"
    )


def test_memory_is_the_heap_and_what_python_needs() -> None:
    resources = container(pod(driver={"memory": "2Gi", "cores": 3}))["resources"]
    assert resources["requests"] == {"cpu": "3", "memory": f"{2048 + 819}Mi"}
    assert resources["limits"] == {"memory": f"{2048 + 819}Mi"}
    assert container(pod())["resources"]["limits"] == {"memory": f"{1024 + 409}Mi"}


def test_a_template_adds_and_overrides_defaults() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "spark", "operator": "Exists"}],
            "volumes": [{"name": "extra", "emptyDir": {}}],
            "containers": [
                {
                    "name": "driver",
                    "resources": {"requests": {"cpu": "100m"}},
                    "volumeMounts": [
                        {"name": "extra", "mountPath": "/extra"},
                        {"name": "extra", "mountPath": "/more", "subPath": "more"},
                    ],
                },
                {"name": "sidecar", "image": "sidecar:1"},
            ],
        },
    }
    made = pod(driver={"template": template})
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["annotations"]["note"] == "x"
    assert made["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert container(made)["resources"]["requests"]["cpu"] == "100m"
    assert "memory" in container(made)["resources"]["requests"]
    assert {"/extra", "/more", "/tmp", "/var/run/streamjob"} <= {
        m["mountPath"] for m in container(made)["volumeMounts"]
    }
    assert {c["name"] for c in made["spec"]["containers"]} == {"driver", "sidecar"}


def test_a_template_does_not_remove_what_the_operator_relies_on() -> None:
    template = {
        "metadata": {"name": "mine", "labels": {names.LABEL_UID: "other", names.LABEL_COMPONENT: "web"}},
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "volumes": [{"name": "streamjob-control", "secret": {"secretName": "other"}}],
            "containers": [
                {
                    "name": "driver",
                    "image": "other",
                    "args": ["sh"],
                    "env": [
                        {
                            "name": "STREAMJOB_CONFIG",
                            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                        }
                    ],
                }
            ],
        },
    }
    made, plain = pod(driver={"template": template}), pod()
    assert made["metadata"]["name"] == plain["metadata"]["name"]
    assert made["metadata"]["labels"] == plain["metadata"]["labels"]
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["spec"]["terminationGracePeriodSeconds"] == 60
    assert container(made)["args"] == ["python", "-m", "streamjob.runtime"]
    assert container(made)["image"] == "orders:1"
    assert set(env(made)["STREAMJOB_CONFIG"]) == {"name", "value"}
    (control,) = [v for v in made["spec"]["volumes"] if v["name"] == "streamjob-control"]
    assert control["secret"]["secretName"] == "orders-control"


def test_the_users_environment() -> None:
    application = {
        "file": "/a.py",
        "env": [
            {"name": "HOME", "value": "/home/me"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ],
    }
    found = env(pod(application=application))
    assert found["HOME"] == {"name": "HOME", "value": "/home/me"}
    assert found["KEY"]["valueFrom"] == {"secretKeyRef": {"name": "s", "key": "k"}}


def test_variables_from_everywhere_that_kubernetes_knows() -> None:
    listed: list[dict[str, Any]] = [
        {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": False}}},
        {"name": "C", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
        {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    sources = [
        {"configMapRef": {"name": "c"}},
        {"prefix": "DB_", "secretRef": {"name": "s", "optional": True}},
    ]
    theirs = {"secretRef": {"name": "of-the-template"}}
    template = {"spec": {"containers": [{"name": "driver", "envFrom": [theirs]}]}}
    made = pod(
        application={"file": "/a.py", "env": listed, "envFrom": sources}, driver={"template": template}
    )
    assert [env(made)[e["name"]] for e in listed] == listed
    assert container(made)["envFrom"] == [theirs, *sources]
    assert "envFrom" not in container(pod())


LONG = [{"name": f"V{n}", "value": "x" * 1000} for n in range(130)]
LARGE: dict[str, dict[str, Any]] = {
    "executor": {"instances": 1, "template": {"metadata": {"annotations": {"note": '"' * 100_000}}}},
    "application": {"file": "/a.py", "args": ["x" * 1000] * 123},
    "driver": {"template": {"spec": {"containers": [{"name": "log", "image": "log", "env": LONG}]}}},
}


@pytest.mark.parametrize("field", LARGE)
def test_what_does_not_fit_into_the_pod_is_named(field: str) -> None:
    """The kubelet could only say that the argument list is too long."""
    with pytest.raises(SpecificationTooLarge, match=rf"largest fields are spec.{field} \(\d\d\d KiB\)"):
        pod(**{field: LARGE[field]})


def test_only_the_names_of_secrets_are_handed_on() -> None:
    """Whoever reads pods reads the specification in the annotation, and the configuration in the variable."""
    reference = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s3", "key": "secret"}}}
    application = {"file": "/a.py", "env": [reference], "envFrom": [{"secretRef": {"name": "db"}}]}
    made = pod(application=application, executor={"instances": 1})
    assert "secretKeyRef" not in env(made)["STREAMJOB_CONFIG"]["value"]
    kept = json.loads(made["metadata"]["annotations"][names.ANNOTATION_SPECIFICATION])["application"]
    assert kept == application


def test_volumes_are_in_driver_and_executors_at_the_same_place() -> None:
    storage = {
        "checkpoints": "/data/cp",
        "savepoints": "/data/sp",
        "volumes": VOLUMES,
        "volumeMounts": MOUNTS,
    }
    spec: dict[str, Any] = {"storage": storage, "executor": {"instances": 2}}
    loaded = codec.loads(DriverConfig, env(pod(**spec))["STREAMJOB_CONFIG"]["value"])
    template = json.loads(loaded.executor_template or "{}")
    for made in (pod(**spec), template):
        (first,) = [c for c in made["spec"]["containers"] if c["name"] in ("driver", "executor")]
        assert [m for m in first["volumeMounts"] if m in MOUNTS] == MOUNTS
        assert [v for v in made["spec"]["volumes"] if v in VOLUMES] == VOLUMES
    assert template["metadata"]["labels"][names.LABEL_COMPONENT] == "executor"
    assert template["spec"]["automountServiceAccountToken"] is False


def test_a_part_of_a_core_is_requested_and_runs_one_task() -> None:
    assert container(pod(driver={"cores": "250m"}))["resources"]["requests"]["cpu"] == "250m"
    conf = config(executor={"instances": 1, "cores": "250m"}).spark_conf
    assert conf["spark.executor.cores"] == "1"
    assert conf["spark.kubernetes.executor.request.cores"] == "250m"
    mine = {"spark.kubernetes.executor.request.cores": "100m"}
    conf = config(executor={"instances": 1, "cores": 2}, sparkConf=mine).spark_conf
    assert conf["spark.kubernetes.executor.request.cores"] == "100m"


def test_r8_a_large_record_reaches_the_driver_through_the_mounted_index(tmp_path: Path) -> None:
    """Linux takes no variable above 128 KiB, so no driver started."""
    latest = large_record()
    assert len(codec.dumps(latest)) > 300 << 10
    known = index(latest)
    loaded = config(2, 1, known)
    made = driver_pod(job(), loaded)
    variable = env(made)["STREAMJOB_CONFIG"]["value"]
    subprocess.run(["/bin/true"], env={"STREAMJOB_CONFIG": variable}, check=True)
    assert len(json.dumps(made)) < 16 << 10
    (volume,) = [v for v in made["spec"]["volumes"] if "configMap" in v]
    assert volume["configMap"] == {
        "name": "orders-checkpoints",
        "optional": True,
        "items": [{"key": "index.json", "path": "index.json"}],
    }
    (mount,) = [m for m in container(made)["volumeMounts"] if m["name"] == volume["name"]]
    assert (mount["mountPath"], mount["readOnly"]) == ("/var/run/streamjob-index", True)

    (tmp_path / "index.json").write_text(owned.config_map(job(), known, None)["data"]["index.json"])
    environment = {"STREAMJOB_CONFIG": variable, "STREAMJOB_INDEX": str(tmp_path / "index.json")}
    assert load(environment) == loaded
    assert "STREAMJOB_INDEX" not in env(made), "it is where the runtime looks by itself"


def test_the_first_driver_has_no_index_to_read() -> None:
    assert not [v for v in pod()["spec"]["volumes"] if "configMap" in v]


class TestInjected:
    """The runtime is the controller's; the image is somebody else's."""

    SPEC: ClassVar[dict[str, Any]] = {"runtime": "Injected", "executor": {"instances": 1}}

    def both(self, **spec: Any) -> Iterator[tuple[Any, Any]]:
        """The pod and its main container, of the driver and of an executor."""
        made = pod(**self.SPEC, **spec)
        yield made, container(made)
        loaded = codec.loads(DriverConfig, env(made)["STREAMJOB_CONFIG"]["value"])
        template = json.loads(loaded.executor_template or "{}")
        yield template, template["spec"]["containers"][0]

    def test_driver_and_executors_mount_the_same_runtime_read_only(self) -> None:
        for made, main in self.both():
            (volume,) = [v for v in made["spec"]["volumes"] if v["name"] == "streamjob-runtime"]
            assert volume["configMap"]["name"] == runtime_files.name()
            (mount,) = [m for m in main["volumeMounts"] if m["name"] == "streamjob-runtime"]
            assert (mount["mountPath"], mount["readOnly"]) == ("/opt/streamjob", True)

    def test_the_launcher_runs_under_the_images_own_entry_point(self) -> None:
        made = pod(**self.SPEC)
        assert container(made)["args"] == ["/bin/sh", "/opt/streamjob/driver.sh"]
        assert "command" not in container(made)
        assert made["metadata"]["labels"]["streamjob.dev/runtime"] == runtime_files.name()

    def test_a_template_may_replace_the_entry_point(self) -> None:
        template = {"spec": {"containers": [{"name": "driver", "command": ["tini", "--"]}]}}
        made = pod(runtime="Injected", driver={"template": template})
        assert container(made)["command"] == ["tini", "--"]
        assert container(made)["args"] == ["/bin/sh", "/opt/streamjob/driver.sh"]

    def test_the_image_keeps_its_user_its_home_and_its_file_system(self) -> None:
        for made, main in self.both():
            security = made["spec"]["securityContext"]
            assert not {"runAsUser", "runAsGroup", "runAsNonRoot"} & set(security)
            assert security["fsGroup"] == 185
            assert "readOnlyRootFilesystem" not in main["securityContext"]
            assert main["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert not [e for e in main["env"] if e["name"] in ("HOME", "PYTHONPATH")]

    @pytest.mark.parametrize("runtime", ["Injected", "Image"])
    def test_a_platform_that_assigns_users_is_asked_for_none(self, runtime: str) -> None:
        spec: dict[str, Any] = {"runtime": runtime, "executor": {"instances": 1}}
        made = driver_pod(job(**spec), config(**spec), Platform(assigns_users=True))
        loaded = codec.loads(DriverConfig, env(made)["STREAMJOB_CONFIG"]["value"])
        for one in (made, json.loads(loaded.executor_template or "{}")):
            assert not {"runAsUser", "runAsGroup", "fsGroup"} & set(one["spec"]["securityContext"])

    def test_an_image_with_the_package_has_no_such_volume(self) -> None:
        made = pod(runtime="Image")
        assert "streamjob-runtime" not in str(made)
        assert "streamjob.dev/runtime" not in made["metadata"]["labels"]
