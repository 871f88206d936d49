"""The Role of the drivers, right by right: a real driver with executors asks for each of them, and for
nothing else.

Its executors run in name only, so this takes no cluster. What it asks for is Spark's own
(`org.apache.spark.scheduler.cluster.k8s` in resource-managers/kubernetes): docs/security.md says which class
needs which verb.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamjob.controller.objects import names
from streamjob.controller.objects.driver_pod import driver_pod
from streamjob.controller.rules.driver_config import driver_config
from streamjob.runtime.process.config import write_spark_properties
from tests.chart.test_chart import HELM, render
from tests.controller.factories import job
from tests.world.apiserver import Obj
from tests.world.permissions import Right, rights_of

from .pods import Noted, Pods

pytestmark = pytest.mark.skipif(HELM is None, reason="no helm (make test builds one)")
SCRIPT = """
import sys
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
sys.stdin.readline()
session.stop()
"""
FAILED = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:00Z"}}


CLAIM = "spark.kubernetes.executor.volumes.persistentVolumeClaim.spark-local-dir-1"
ON_DEMAND = {
    f"{CLAIM}.options.claimName": "OnDemand",
    # Without these two Spark takes the claim for one that is there.
    f"{CLAIM}.options.storageClass": "fast",
    f"{CLAIM}.options.sizeLimit": "1Gi",
    f"{CLAIM}.mount.path": "/local",
}


def role(*values: str) -> frozenset[Right]:
    """What the chart gives to drivers."""
    return rights_of("streamjob-driver", "shop", render(*values, namespace="shop")).all


def properties(url: str, folder: Path, users: dict[str, str]) -> Path:
    """What the controller tells a driver with executors; beside the API server only ports and times are
    others.
    """
    config = driver_config(job(executor={"instances": 1}, sparkConf=users), None, 1, 0, None)
    conf = {
        **config.spark_conf,
        "spark.master": f"k8s://{url}",
        "spark.driver.port": "0",
        "spark.driver.blockManager.port": "0",
        "spark.ui.enabled": "false",
        "spark.scheduler.minRegisteredResourcesRatio": "0",
        "spark.kubernetes.executor.apiPollingInterval": "1s",
    }
    return write_spark_properties(conf, config.executor_template, {"POD_IP": "127.0.0.1"})


def own_pod() -> Obj:
    config = driver_config(job(executor={"instances": 1}), None, 1, 0, None)
    return driver_pod(job(executor={"instances": 1}), config)


def test_a_driver_asks_for_what_its_role_has_and_for_nothing_else(tmp_path: Path) -> None:
    asks_for_exactly(role(), {}, tmp_path)


@pytest.mark.slow
def test_claims_on_demand_need_one_permission_more(tmp_path: Path) -> None:
    """Each belongs to its executor."""
    pods = asks_for_exactly(role("driver.claimsOnDemand=true"), ON_DEMAND, tmp_path)
    claims = pods.server.of_kind("persistentvolumeclaims")
    owners = [o["kind"] for c in claims for o in c["metadata"]["ownerReferences"]]
    assert owners == ["Pod"] * len(claims)
    assert len(claims) >= 2, "the first executor's, and that of the one in its place"


def asks_for_exactly(given: frozenset[Right], users: dict[str, str], tmp_path: Path) -> Pods:
    """A driver reads its own pod, makes an executor, sees by watch and list that it fails, deletes it, makes
    another, and at its end deletes that one with all the rest.
    """
    pods = Pods(Noted("system:serviceaccount:shop:streamjob-driver", given))
    me = pods.server.create("controller", "pods", "shop", own_pod())
    pods.say(me, "Running", conditions=[{"type": "Ready", "status": "True"}])
    with pods.listening() as url:
        submit = f"--properties-file {properties(url, tmp_path, users)} pyspark-shell"
        env = {**os.environ, "PYSPARK_SUBMIT_ARGS": submit, "KUBECONFIG": str(tmp_path / "none")}
        log = (tmp_path / "driver.log").open("w")
        driver = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], env=env, stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        try:
            pods.until(lambda: bool(pods.executors()), "executor")
            (first,) = pods.executors()
            pods.say(first, "Failed", containerStatuses=[{"name": "x", "state": FAILED}])
            pods.until(
                lambda: (
                    {p["metadata"]["uid"] for p in pods.executors()}.isdisjoint({first["metadata"]["uid"]})
                    and bool(pods.executors())
                ),
                "other executor in the place of the one that failed",
            )
            driver.communicate(b"\n", timeout=300)
        finally:
            driver.kill()
            log.close()
    said = (tmp_path / "driver.log").read_text()
    assert driver.returncode == 0, said
    assert pods.server.forbidden == []
    assert not pods.executors(), "they are left when their driver has ended"
    asked = {Right(r.group, r.resource, r.verb, namespace="shop") for r in pods.rights.asked}
    assert given - asked == set(), "nobody needs it"
    assert names.driver_pod("orders", 1) in {r.name for r in pods.rights.asked}
    return pods
