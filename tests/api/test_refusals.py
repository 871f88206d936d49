"""A real API server refuses, at apply time and with a sentence for a person, what can never work. More than
600 lines: it is the list of all that is refused.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from kubernetes.aio import client, config

from streamjob.api.crd import definition

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="KUBECONFIG names no cluster (make cluster)"),
]
Job = dict[str, Any]


def job(**spec: Any) -> Job:
    return {
        "apiVersion": "streamjob.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": f"refused-{uuid.uuid4().hex[:8]}"},
        "spec": {
            "image": "app:1",
            "application": {"file": "/app/a.py"},
            "storage": {"checkpoints": "file:///data/cp", "savepoints": "file:///data/sp"},
            **spec,
        },
    }


class Api:
    """The few calls that these tests make."""

    def __init__(self, api: client.ApiClient) -> None:
        self.objects = client.CustomObjectsApi(api)
        self.made: list[str] = []

    async def create(self, body: Job, *, dry_run: bool = True) -> Job:
        if not dry_run:
            self.made.append(body["metadata"]["name"])
        return await self.objects.create_namespaced_custom_object(
            *("streamjob.dev", "v1alpha1", "default", "streamjobs"), body, dry_run="All" if dry_run else None
        )

    async def replace(self, body: Job) -> Job:
        return await self.objects.replace_namespaced_custom_object(
            *("streamjob.dev", "v1alpha1", "default", "streamjobs", body["metadata"]["name"]),
            body,
            dry_run="All",
        )

    async def scale(self, body: Job, replicas: int) -> Job:
        """What `kubectl scale` does."""
        return await self.objects.patch_namespaced_custom_object_scale(
            *("streamjob.dev", "v1alpha1", "default", "streamjobs", body["metadata"]["name"]),
            {"spec": {"replicas": replicas}},
            _content_type="application/merge-patch+json",
        )

    async def report(self, body: Job, status: Job) -> None:
        await self.objects.patch_namespaced_custom_object_status(
            *("streamjob.dev", "v1alpha1", "default", "streamjobs", body["metadata"]["name"]),
            {"status": status},
            _content_type="application/merge-patch+json",
        )

    async def delete(self, name: str) -> None:
        await self.objects.delete_namespaced_custom_object(
            "streamjob.dev", "v1alpha1", "default", "streamjobs", name
        )


async def install() -> None:
    await config.load_kube_config(context=os.environ.get("CLUSTER") or None)
    name = definition()["metadata"]["name"]
    async with client.ApiClient() as connection:
        crds = client.ApiextensionsV1Api(connection)
        try:
            old = await crds.read_custom_resource_definition(name)
            body = definition()
            body["metadata"]["resourceVersion"] = old.metadata.resource_version
            new = await crds.replace_custom_resource_definition(name, body)
            if new.metadata.generation == old.metadata.generation:
                return  # it is served already
        except client.ApiException as e:
            if e.status != 404:
                raise
            await crds.create_custom_resource_definition(definition())
    await asyncio.sleep(2)  # until the new schema is served; nothing in the API says when


@pytest.fixture(scope="module")
def crd(defined: None) -> None:
    asyncio.run(install())


@pytest.fixture
async def api(crd: None) -> AsyncIterator[Api]:
    await config.load_kube_config(context=os.environ.get("CLUSTER") or None)
    async with client.ApiClient() as connection:
        api = Api(connection)
        yield api
        for made in api.made:
            await api.delete(made)


REFUSED = [
    (job(state="Paused"), "spec.state", "supported values"),
    (job(suspend="yes"), "spec.suspend", "boolean"),
    (job(termination={"stopTimeout": "-10s"}), "spec.termination.stopTimeout", "not negative"),
    (job(termination={"stopTimeout": ""}), "spec.termination.stopTimeout", "not negative"),
    (job(termination={"escalation": ["Cancel", "Stop"]}), "spec.termination", "[Stop, Cancel]"),
    (job(termination={"escalation": ["Stop", "Stop"]}), "spec.termination", "[Stop, Cancel]"),
    (job(termination={"escalation": ["Drain"]}), "spec.termination.escalation[0]", "supported values"),
    (job(upgrade={"mode": "Stateless"}), "spec.upgrade.mode", "supported values"),
    (job(upgrade={"probation": "-1s"}), "spec.upgrade.probation", "not negative"),
    (job(restart={"backoff": {"initial": "soon"}}), "spec.restart.backoff.initial", "such as 90s"),
    (job(storage={"savepoints": "/s"}), "spec.storage.checkpoints", "Required value"),
    (job(storage={"checkpoints": "data", "savepoints": "/s"}), "spec.storage.checkpoints", "absolute path"),
    (job(storage={"checkpoints": "/a/../b", "savepoints": "/s"}), "spec.storage.checkpoints", "'..'"),
    (job(application={"file": "/a.py", "module": "a"}), "spec.application", "exactly one of file and module"),
    (job(application={"args": ["x"]}), "spec.application", "exactly one of file and module"),
    (job(driver={"cores": 0}), "spec.driver.cores", "from 1m to 1024"),
    (job(driver={"cores": "two"}), "spec.driver.cores", "from 1m to 1024"),
    (job(executor={"instances": -1}), "spec.executor.instances", "greater than or equal to 0"),
    (job(driver={"memory": "1g"}), "spec.driver.memory", "1g is Spark's notation; the quantity is 1Gi"),
    (job(driver={"memory": "512m"}), "spec.driver.memory", "512m is Spark's notation; the quantity is 512Mi"),
    (
        job(executor={"memory": "1G"}),
        "spec.executor.memory",
        "1G is not a whole number of mebibytes, which Spark needs; 1Gi is",
    ),
    (job(driver={"memory": "10Mi"}), "spec.driver.memory", "at least 450Mi"),
    (job(executor={"memory": "449Mi"}), "spec.executor.memory", "at least 450Mi"),
    (job(executor={"memory": "1.5Mi"}), "spec.executor.memory", "whole mebibytes, such as 512Mi"),
    (job(executor={"memory": "much"}), "spec.executor.memory", "such as 512Mi"),
    (job(sparkConf={"spark.master": "local"}), "spec.sparkConf", "must not set spark.master: the operator"),
    (
        job(application={"file": "/a.py", "env": [{"name": "STREAMJOB_CONFIG", "value": "{}"}]}),
        "spec.application.env[0]",
        "set by the operator",
    ),
    *(
        (job(sparkConf={key: "x"}), "spec.sparkConf", f"a credential of a storage, as {key} is: take")
        for key in (
            "spark.hadoop.fs.s3a.secret.key",
            "spark.hadoop.fs.s3a.bucket.orders.secret.key",
            "spark.hadoop.fs.s3a.bucket.orders.access.key",
            "spark.hadoop.fs.s3a.session.token",
            "spark.hadoop.fs.s3a.server-side-encryption.key",
            "spark.hadoop.fs.azure.account.key.orders.dfs.core.windows.net",
            "spark.executorEnv.AWS_SECRET_ACCESS_KEY",
        )
    ),
    (
        job(application={"file": "/a.py", "env": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}]}),
        "spec.application.env[0]",
        "a credential must not stand in the StreamJob",
    ),
    *(
        (job(storage={"checkpoints": "/c", "savepoints": "/s", **storage}), f"spec.storage{field}", sentence)
        for storage, field, sentence in (
            ({"volumes": [{"name": "a"}]}, ".volumes[0]", "exactly one source"),
            ({"savepoints": "/c"}, "", "another place than storage.checkpoints"),
            (
                {
                    "volumes": [{"name": "a", "emptyDir": {}}],
                    "volumeMounts": [{"name": "a", "mountPath": "/s"}],
                },
                "",
                "on a volume of the pod's own",
            ),
            (
                {
                    "checkpoints": "file:///data/c",
                    "volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {}}}],
                    "volumeMounts": [{"name": "a", "mountPath": "/data"}],
                },
                "",
                "on a volume of the pod's own",
            ),
            (
                {
                    "checkpoints": "file:/data/c",
                    "volumes": [{"name": "a", "emptyDir": {}}],
                    "volumeMounts": [{"name": "a", "mountPath": "/data/"}],
                },
                "",
                "on a volume of the pod's own",
            ),
            ({"checkpoints": "file:///tmp"}, "", "must not be in /tmp"),
            ({"checkpoints": "file:/tmp/state"}, "", "must not be in /tmp"),
            ({"savepoints": "file:///tmp/state"}, "", "must not be in /tmp"),
            ({"volumes": [{"name": "a", "emptyDir": {}, "nfs": {}}]}, ".volumes[0]", "exactly one source"),
            ({"volumes": [{"name": "a", "secret": {}}]}, ".volumes[0].secret.secretName", "Required value"),
            ({"volumes": [{"name": "streamjob-a", "emptyDir": {}}]}, ".volumes[0]", "are taken"),
            ({"volumes": [{"name": "a", "emptyDir": {}}] * 2}, ".volumes[1]", "Duplicate value"),
            ({"volumeMounts": [{"name": "a", "mountPath": "/a"}]}, "", "must name one of storage.volumes"),
            (
                {
                    "volumes": [{"name": "a", "emptyDir": {}}],
                    "volumeMounts": [{"name": "a", "mountPath": "/tmp"}],
                },
                ".volumeMounts[0]",
                "mountPath must be absolute",
            ),
        )
    ),
    *(
        (job(application={"file": "/a.py", **more}), f"spec.application.{field}", sentence)
        for more, field, sentence in (
            ({"env": [{"name": "A", "valueFrom": {}}]}, "env[0].valueFrom", "exactly one of secretKeyRef"),
            ({"env": [{"name": "A", "value": "a"}] * 2}, "env[1]", "Duplicate value"),
            ({"envFrom": [{"prefix": "A_"}]}, "envFrom[0]", "exactly one of configMapRef and secretRef"),
        )
    ),
    ({**job(), "metadata": {"name": "a" * 41}}, "", "at most 40"),
]

REFUSED += [
    (job(savepoint={"schedule": text}), "spec.savepoint.schedule", "five fields of cron")
    for text in ("@every 1h", "60 * * * *", "* * * * * *", "0 0 * mon *", "*/0 * * * *")
]
REFUSED += [
    (job(savepoint={"timeZone": name}), "spec.savepoint.timeZone", "must be the IANA name of a time zone")
    for name in ("Europe/Atlantis", "+02:00", "", "Local", "../etc/passwd")
]
REFUSED += [
    (job(restoreFrom=source), "spec.restoreFrom", sentence)
    for source, sentence in (
        ({"savepoint": "/a", "checkpoints": {"a": "/a"}}, "exclude each other"),
        ({"allowDrained": True}, "savepoint or checkpoints must be set"),
        ({"allowNonRestoredState": False}, "savepoint or checkpoints must be set"),
    )
]
REFUSED += [
    (job(savepoint={"timeout": "0s"}), "spec.savepoint", "savepoint.timeout must not be 0"),
    (job(savepoint={"nonce": -1}), "spec.savepoint.nonce", "greater than or equal to 0"),
    (
        job(savepoint={"retained": {"count": 0}}),
        "spec.savepoint.retained.count",
        "greater than or equal to 1",
    ),
    (job(savepoint={"retained": {"age": "1d"}}), "spec.savepoint.retained.age", "must be a duration"),
]
REFUSED += [
    (job(deps={field: [value]}), f"spec.deps.{field}[0]", sentence)
    for field, value, sentence in (
        ("jars", "lib/x.jar", "as a URI"),
        ("jars", "s3a://b/x.jar,s3a://b/y.jar", "must name one file"),
        ("jars", "/app/*.jar", "must name one file"),
        ("jars", "/app/", "must name one file"),
        ("jars", "https://me:secret@host/x.jar", "must not hold a user's password"),
        ("files", "https://host/x?token=1", "must name one file"),
        ("pyFiles", "s3a://b/x.tar.gz", "must end with .py, .zip, .egg or -none-any.whl"),
        ("pyFiles", "s3a://b/x-1.0-cp311-cp311-linux_x86_64.whl", "a wheel of pure Python"),
        ("packages", "org.postgresql:postgresql", "group:artifact:version"),
        ("packages", "org.postgresql:postgresql:[42,43)", "group:artifact:version"),
        ("excludePackages", "a:b:1", "without a version"),
        ("repositories", "repository.example/maven2", "must be the URL"),
        ("repositories", "https://me:secret@host/maven2", "must not hold a user's password"),
    )
]
REFUSED += [
    (job(application={"file": "s3a://a:b@c/x.py"}), "spec.application.file", "password"),
    (job(application={"file": "s3a://b/*.py"}), "spec.application.file", "must name one file"),
]
REFUSED += [
    (job(sparkConf={key: "x"}), "spec.sparkConf", "in spec.deps")
    for key in ("spark.jars", "spark.jars.packages", "spark.submit.pyFiles", "spark.files")
]


REFUSED += [
    (job(executor=executor), f"spec.executor{field}", sentence)
    for executor, field, sentence in (
        ({"dynamicAllocation": {"min": 3, "max": 2}}, ".dynamicAllocation", "min must not be above max"),
        ({"dynamicAllocation": {"min": 1}}, ".dynamicAllocation.max", "Required value"),
        ({"dynamicAllocation": {"max": 0}}, ".dynamicAllocation.max", "greater than or equal to 1"),
        ({"dynamicAllocation": {"max": 1, "idleTimeout": "0s"}}, ".dynamicAllocation", "must not be 0"),
        ({"dynamicAllocation": {"max": 1}, "instances": 1}, "", "exclude each other"),
        ({"autoscale": {"max": 1}, "instances": 1}, "", "instances and autoscale exclude each other"),
        (
            {"autoscale": {"max": 1}, "dynamicAllocation": {"max": 1}},
            "",
            "dynamicAllocation exclude each other",
        ),
        ({"autoscale": {"min": 3, "max": 2}}, ".autoscale", "min must not be above max"),
        ({"autoscale": {"min": 0, "max": 2}}, ".autoscale.min", "greater than or equal to 1"),
        ({"autoscale": {"min": 1}}, ".autoscale.max", "Required value"),
        ({"autoscale": {"max": 2, "lagTarget": "0s"}}, ".autoscale", "lagTarget must not be 0"),
        (
            {"autoscale": {"max": 2, "targetUtilization": 1}},
            ".autoscale",
            "targetUtilization must be between 0.3 and 0.8",
        ),
    )
]
REFUSED += [
    (job(sparkConf={key: "1"}), "spec.sparkConf", f"sparkConf must not set {key}: ")
    for key in (
        "spark.executor.instances",
        "spark.dynamicAllocation.enabled",
        "spark.dynamicAllocation.maxExecutors",
        "spark.kubernetes.executor.podTemplateContainerName",
    )
]


def of_main(pod: str, **fields: Any) -> Job:
    return {"spec": {"containers": [{"name": pod, **fields}]}}


REFUSED += [
    (job(**{pod: {"template": template}}), f"spec.{pod}.template{field}", sentence)
    for pod in ("driver", "executor")
    for template, field, sentence in (
        ({"metadata": {"name": "a"}}, ".metadata", "name must not be set"),
        ({"metadata": {"ownerReferences": []}}, ".metadata", "ownerReferences must not be set"),
        (
            {"metadata": {"labels": {"streamjob.dev/uid": "a"}}},
            ".metadata.labels",
            "must not set streamjob.dev/*",
        ),
        ({"metadata": {"labels": {"spark-role": "a"}}}, ".metadata.labels", "what Spark sets: spark-role"),
        ({"metadata": {"annotations": {"streamjob.dev/a": "a"}}}, ".metadata.annotations", "must not set"),
        ({"spec": {"restartPolicy": "Always"}}, ".spec", "restartPolicy must not be set"),
        ({"spec": {"volumes": [{"name": "streamjob-a"}]}}, ".spec.volumes[0]", "begin with streamjob-"),
        ({"spec": {"containers": [{"name": "a"}]}}, ".spec.containers[0]", f"Spark's own is named '{pod}'"),
        ({"spec": {"containers": [{"image": "a"}]}}, ".spec.containers[0].name", "Required value"),
        (of_main(pod, image="a"), ".spec.containers[0]", "image must not be set, it is spec.image"),
        (of_main(pod, args=["a"]), ".spec.containers[0]", "args must not be set"),
        (of_main(pod, env=[{"name": "STREAMJOB_A"}]), ".spec.containers[0]", "set by the operator"),
        (of_main(pod, volumeMounts=[{"mountPath": "/tmp"}]), ".spec.containers[0]", "must not take /tmp"),
    )
]
REFUSED += [
    (job(**{pod: {"template": template}}), f"spec.{pod}.template.spec{field}", sentence)
    for pod, template, field, sentence in (
        ("executor", of_main("executor", command=["a"]), ".containers[0]", "command must not be set"),
        ("driver", {"spec": {"serviceAccountName": "a"}}, "", "it is spec.driver.serviceAccountName"),
        ("driver", {"spec": {"terminationGracePeriodSeconds": 1}}, "", "it is spec.termination.gracePeriod"),
        (
            "driver",
            {"spec": {"automountServiceAccountToken": True}},
            "",
            "automountServiceAccountToken must not",
        ),
        (
            "driver",
            of_main("driver", terminationMessagePath="/a"),
            ".containers[0]",
            "terminationMessagePath must",
        ),
        ("executor", of_main("executor", lifecycle={}), ".containers[0]", "lifecycle must not be set"),
        (
            "executor",
            of_main("executor", resources={"requests": {"cpu": 1}}),
            ".containers[0]",
            "resources.requests: cpu and memory follow from spec.executor",
        ),
        (
            "executor",
            of_main("executor", resources={"limits": {"memory": "1Gi"}}),
            ".containers[0]",
            "resources.limits: memory follows from spec.executor.memory",
        ),
    )
]
ROUTE = {"parentRefs": [{"name": "web"}], "hostnames": ["spark.example.com"]}
REFUSED += [
    (job(ui=ui, sparkConf=conf), field, sentence)
    for ui, conf, field, sentence in (
        ({}, {"spark.ui.enabled": "false"}, "spec", "spec.ui needs Spark's UI"),
        ({}, {"spark.ui.port": "0"}, "spec", "spark.ui.port to 0"),
        ({"service": {"type": "ExternalName"}}, {}, "spec.ui.service.type", "Unsupported value"),
        ({"service": {"port": 70000}}, {}, "spec.ui.service.port", "less than or equal to 65535"),
        ({"ingress": {}}, {}, "spec.ui.ingress", "neither host nor path"),
        ({"ingress": {"host": "Spark.example.com"}}, {}, "spec.ui.ingress.host", "must be a DNS name"),
        ({"ingress": {"path": "orders"}}, {}, "spec.ui.ingress.path", "must be /, or a path"),
        ({"ingress": {"path": "/orders(.*)"}}, {}, "spec.ui.ingress.path", "must be /, or a path"),
        ({"ingress": {"path": "/a/../b"}}, {}, "spec.ui.ingress.path", "must be /, or a path"),
        ({"ingress": {"path": "/proxy/a"}}, {}, "spec.ui.ingress.path", "segment `proxy` or `history`"),
        ({"httpRoute": {}}, {}, "spec.ui.httpRoute.parentRefs", "Required value"),
        ({"httpRoute": {**ROUTE, "parentRefs": []}}, {}, "spec.ui.httpRoute.parentRefs", "at least 1 items"),
        ({"httpRoute": {**ROUTE, "hostnames": []}}, {}, "spec.ui.httpRoute", "neither hostnames nor path"),
        ({"httpRoute": {**ROUTE, "path": "/a(/|$)(.*)"}}, {}, "spec.ui.httpRoute.path", "must be /, or"),
        ({"ingress": {"path": "/a"}, "httpRoute": {**ROUTE, "path": "/b"}}, {}, "spec.ui", "the same prefix"),
    )
]
TEMPLATE = {
    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}},
    "spec": {
        "priorityClassName": "batch",
        "nodeName": "a",
        "tolerations": [{"key": "spark", "operator": "Exists"}],
        "securityContext": {"runAsUser": 185},
        "volumes": [{"name": "spark-local-dir-1", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
        "containers": [
            {
                "name": "executor",
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
                "resources": {"limits": {"cpu": 2, "nvidia.com/gpu": "1"}},
                "volumeMounts": [{"name": "spark-local-dir-1", "mountPath": "/local", "readOnly": False}],
            },
            {"name": "proxy", "image": "proxy:1", "args": ["-v"], "lifecycle": {}},
        ],
    },
}


async def test_a_template_may_have_all_that_a_pod_has(api: Api) -> None:
    """Nothing of it is pruned."""
    executor = {"dynamicAllocation": {"max": 4}, "template": TEMPLATE}
    made = await api.create(job(executor=executor, imagePullSecrets=[{"name": "registry"}]))
    assert made["spec"]["executor"]["template"] == TEMPLATE
    assert made["spec"]["executor"]["dynamicAllocation"] == {"min": 0, "max": 4, "idleTimeout": "60s"}
    assert made["spec"]["imagePullSecrets"] == [{"name": "registry"}]


@pytest.mark.parametrize(
    "ui",
    [
        {},
        {"service": {"type": "NodePort", "port": 80}},
        {"ingress": {"host": "*.example.com"}, "httpRoute": {**ROUTE, "path": "/b"}},
        {
            "ingress": {"path": "/b(/|$)(.*)", "tls": [{"secretName": "x"}]},
            "httpRoute": {**ROUTE, "path": "/b"},
        },
    ],
)
async def test_access_to_the_ui(api: Api, ui: Job) -> None:
    made = await api.create(job(ui=ui, sparkConf={"spark.ui.port": "4050", "spark.ui.enabled": "true"}))
    assert {"type": "ClusterIP", "port": 4040, **ui.get("service", {})} == made["spec"]["ui"]["service"]


@pytest.mark.parametrize(("body", "field", "sentence"), REFUSED, ids=[f"{f}:{s}" for _, f, s in REFUSED])
async def test_refused(api: Api, body: Job, field: str, sentence: str) -> None:
    with pytest.raises(client.ApiException) as refusal:
        await api.create(body)
    assert refusal.value.status == 422
    message = json.loads(refusal.value.body)["message"]
    assert field in message
    assert sentence in message


def _change(path: str, value: Any) -> Callable[[Job], None]:
    def change(body: Job) -> None:
        *parents, last = path.split(".")
        node = body
        for parent in parents:
            node = node[parent]
        if value is None:
            del node[last]
        else:
            node[last] = value

    return change


START = {"savepoint": "/sp/x", "allowDrained": False}
LENIENT = {"allowNonRestoredState": True}
TWO = {"instances": 2}
CHANGES = [
    ({}, _change("spec.storage.checkpoints", "/elsewhere"), "storage.checkpoints cannot change"),
    ({"state": "Drained"}, _change("spec.state", "Running"), "a drain is an end"),
    ({"state": "Drained"}, _change("spec.state", "Stopped"), "a drain is an end"),
    (
        {"restoreFrom": START},
        _change("spec.restoreFrom.savepoint", "/sp/y"),
        "restoreFrom.savepoint and restoreFrom.checkpoints cannot change",
    ),
    ({"restoreFrom": START}, _change("spec.restoreFrom", None), "cannot change"),
    (
        {},
        _change("spec.restoreFrom", START),
        "restoreFrom.savepoint and restoreFrom.checkpoints cannot change",
    ),
    ({"restoreFrom": START}, _change("spec.restoreFrom", {"checkpoints": {"a": "/a"}}), "cannot change"),
    (
        {"restoreFrom": {"checkpoints": {"a": "/a"}}},
        _change("spec.restoreFrom.checkpoints.a", "/b"),
        "cannot change",
    ),
    ({"restoreFrom": START}, _change("spec.restoreFrom", LENIENT), "cannot change"),
    ({}, _change("spec.restoreFrom", LENIENT), None),
    ({"restoreFrom": LENIENT}, _change("spec.restoreFrom", None), None),
    ({"restoreFrom": LENIENT}, _change("spec.restoreFrom", START), "cannot change"),
    ({"restoreFrom": START}, _change("spec.restoreFrom.allowNonRestoredState", True), None),
    ({"restoreFrom": {"checkpoints": {"a": "/a"}}}, _change("spec.restoreFrom.allowDrained", True), None),
    ({"state": "Drained"}, _change("spec.state", "Cancelled"), None),
    ({"state": "Cancelled"}, _change("spec.state", "Running"), None),
    ({"restoreFrom": START}, _change("spec.restoreFrom.allowDrained", True), None),
    ({}, _change("spec.storage.savepoints", "/elsewhere"), None),
    ({"executor": TWO}, _change("spec.executor.instances", 0), "cannot be scaled to 0 executors"),
    ({"executor": TWO}, _change("spec.executor", None), "cannot be scaled to 0 executors"),
    ({"executor": TWO}, _change("spec.executor", {"dynamicAllocation": {"max": 4}}), None),
    ({"executor": TWO}, _change("spec.executor", {"autoscale": {"max": 4}}), None),
    ({"executor": TWO, "suspend": True}, _change("spec.executor", None), None),
    ({"executor": TWO, "state": "Stopped"}, _change("spec.executor", None), None),
    ({}, _change("spec.executor.instances", 2), None),
]


@pytest.mark.parametrize(("spec", "change", "sentence"), CHANGES)
async def test_changes(api: Api, spec: Job, change: Callable[[Job], None], sentence: str | None) -> None:
    made = await api.create(job(**spec), dry_run=False)
    changed = copy.deepcopy(made)
    change(changed)
    if sentence is None:
        await api.replace(changed)
        return
    with pytest.raises(client.ApiException) as refusal:
        await api.replace(changed)
    assert refusal.value.status == 422
    assert sentence in json.loads(refusal.value.body)["message"]


async def test_the_scale_subresource_is_the_number_of_executors(api: Api) -> None:
    made = await api.create(job(executor=TWO), dry_run=False)
    scale = await api.scale(made, 3)
    assert scale["spec"] == {"replicas": 3}
    status = {"executors": {"wanted": 3, "running": 1, "min": 3, "max": 3}, "selector": "a=b"}
    await api.report(made, status)
    assert (await api.scale(made, 4))["status"] == {"replicas": 1, "selector": "a=b"}


@pytest.mark.parametrize(
    ("executor", "replicas", "sentence"),
    [
        (TWO, 0, "cannot be scaled to 0 executors"),
        (TWO, 1001, "should be less than or equal to 1000"),
        ({"dynamicAllocation": {"max": 4}}, 2, "instances and dynamicAllocation exclude each other"),
        ({"autoscale": {"max": 4}}, 2, "instances and autoscale exclude each other"),
    ],
)
async def test_a_scale_that_is_refused(api: Api, executor: Job, replicas: int, sentence: str) -> None:
    made = await api.create(job(executor=executor), dry_run=False)
    with pytest.raises(client.ApiException) as refusal:
        await api.scale(made, replicas)
    assert refusal.value.status == 422
    assert sentence in json.loads(refusal.value.body)["message"]


async def test_credentials_from_a_secret_are_taken(api: Api) -> None:
    reference = {"secretKeyRef": {"name": "s3", "key": "secret"}}
    env = [{"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": reference}]
    conf = {
        "spark.hadoop.fs.s3a.endpoint": "http://s3:9000",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials."
        "WebIdentityTokenFileCredentialsProvider",
        "spark.kubernetes.executor.secretKeyRef.AWS_ACCESS_KEY_ID": "s3:id",
    }
    await api.create(job(application={"file": "/app/a.py", "env": env}, sparkConf=conf))


@pytest.mark.parametrize("mount", ["/tmp/orders", "/tmp/orders/"])
@pytest.mark.parametrize("uri", ["file:/tmp/orders/c", "file:///tmp/orders/c", "/tmp/orders/c"])
async def test_a_volume_below_tmp_may_hold_the_state(api: Api, uri: str, mount: str) -> None:
    storage = {
        "checkpoints": uri,
        "savepoints": "s3a://b/s",
        "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}],
        "volumeMounts": [{"name": "a", "mountPath": mount}],
    }
    await api.create(job(storage=storage))


async def test_volumes_and_variables_are_those_of_a_pod(api: Api) -> None:
    """Nothing of them is pruned."""
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [
        {"name": "a", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}]}},
        {"name": "b", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}},
        {"name": "c", "configMap": {"name": "c", "optional": True, "items": [{"key": "k", "path": "p"}]}},
        {"name": "d", "ephemeral": {"volumeClaimTemplate": claim}},
    ]
    storage = {
        "checkpoints": "/c",
        "savepoints": "/s",
        "volumes": volumes,
        "volumeMounts": [{"name": "a", "mountPath": "/a", "subPath": "x", "mountPropagation": "None"}],
    }
    application = {
        "file": "/a.py",
        "env": [
            {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}},
            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": 1}}},
        ],
        "envFrom": [{"prefix": "DB_", "secretRef": {"name": "s", "optional": True}}],
    }
    made = await api.create(job(storage=storage, application=application))
    assert made["spec"]["storage"] == storage
    assert made["spec"]["application"] == application


async def test_dependencies_of_all_kinds_are_taken(api: Api) -> None:
    deps = {
        "jars": ["local:///opt/x.jar", "/opt/y.jar", "https://host:8443/a/z-1.0.jar"],
        "packages": ["org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"],
        "excludePackages": ["org.slf4j:*"],
        "repositories": ["https://repository.example/maven2", "file:///m2"],
        "pyFiles": [
            "s3a://b/lib.zip",
            "abfss://box@account.dfs.core.windows.net/m.py",
            "/w-1-py3-none-any.whl",
        ],
        "files": ["hdfs://namenode:8020/tables/t.csv"],
    }
    for file in ("s3a://b/a.py", "local:///app/a.py", "app/a b.py"):
        made = await api.create(job(deps=deps, application={"file": file}))
        assert made["spec"]["deps"] == deps


async def test_defaults_are_filled_in(api: Api) -> None:
    made = await api.create(job())
    assert made["spec"]["state"] == "Running"
    assert made["spec"]["termination"]["onDelete"] == "Stop"
    assert made["spec"]["savepoint"] == {"timeout": "30m", "retained": {}}
    accepted = {
        "nonce": 7,
        "schedule": "*/15 8-18 1,15 JAN-Jun 1-5",
        "timeZone": "Europe/Berlin",
        "retained": {"count": 3, "age": "72h"},
    }
    made = await api.create(job(savepoint=accepted))
    assert made["spec"]["savepoint"] == {**accepted, "timeout": "30m"}
    assert made["spec"]["restart"]["backoff"] == {"initial": "10s", "max": "5m"}
