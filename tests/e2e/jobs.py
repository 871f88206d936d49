"""StreamJobs for the tests: small ones, whose driver does everything itself."""

from __future__ import annotations

import json
from typing import Any

from dev.demo.job import KIND, Job
from dev.demo.kubectl import Kubectl, Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .shared_volume import APPS, CLAIM, Found, Storage

FAST = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # starts sooner
}


def make_scripts(kubectl: Kubectl, name: str, scripts: dict[str, str]) -> None:
    metadata = {"name": name}
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": scripts})


def local_job(
    site: Site,
    name: str,
    script: str,
    *args: str,
    scripts: str = "apps",
    savepoints: str = CLAIM,
    **spec: Any,
) -> Object:
    """A StreamJob in local mode with its script from a ConfigMap and its state on the shared volume.

    `savepoints`: the claim of another volume for them, then at /savepoints.
    """
    volumes = [
        {"name": "app", "configMap": {"name": scripts}},
        {"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}},
    ]
    mounts: list[Object] = [
        {"name": "app", "mountPath": "/app", "readOnly": True},
        {"name": "data", "mountPath": "/data"},
    ]
    storage: Object = {
        "checkpoints": "file:///data/checkpoints",
        "savepoints": "file:///data/savepoints",
        "volumes": volumes,
        "volumeMounts": mounts,
    }
    if savepoints != CLAIM:
        storage["savepoints"] = "file:///savepoints/of"
        volumes.append({"name": "savepoints", "persistentVolumeClaim": {"claimName": savepoints}})
        mounts.append({"name": "savepoints", "mountPath": "/savepoints"})
    return {
        "apiVersion": "streamjob.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": name},
        "spec": {
            "image": site.settings.image("driver"),
            "application": {"file": f"/app/{script}", "args": list(args)},
            "sparkConf": FAST,
            "driver": {"cores": 1, "memory": "512Mi", "template": cheap()},
            "storage": storage,
            "restart": {"backoff": {"initial": "1s", "max": "5s"}},
            **spec,
        },
    }


def cheap() -> Object:
    """Several drivers share two cores: what they ask for must not keep them from being scheduled."""
    return {"spec": {"containers": [{"name": "driver", "resources": {"requests": {"cpu": "100m"}}}]}}


def sums(site: Site, name: str, *args: str, **spec: Any) -> Job:
    """A running job of apps/sums.py, with its further arguments."""
    make_scripts(site.kubectl, "apps", {"sums.py": (APPS / "sums.py").read_text()})
    site.kubectl.apply(local_job(site, name, "sums.py", f"/data/out/{name}", *args, **spec))
    return Job(site.kubectl, name)


def read_on(job: Job, storage: Storage, numbers: int = 200) -> Found:
    """Wait until the job has read so many more."""
    before = storage.look(job.name).numbers

    def further() -> Found | None:
        found = storage.look(job.name)
        return found if found.numbers >= before + numbers else None

    return until(further, f"{job.name} reads on", PATIENCE, every=1)


def kill_driver(job: Job) -> None:
    """SIGKILL to its JVM and its Python."""
    command = "kill -9 $(pgrep java) $(pgrep -o python)"
    job.kubectl.run("exec", job.pod(), "--", "sh", "-c", command, check=False)


def index(job: Job) -> list[Object]:
    """The checkpoints in the job's index."""
    found = job.kubectl.get("configmap", f"{job.name}-checkpoints")
    records: list[Object] = json.loads(found["data"]["index.json"])["checkpoints"] if found else []
    return records


def delete(job: Job, timeout: float = PATIENCE) -> None:
    job.kubectl.run("delete", KIND, job.name, "--ignore-not-found", "--wait=false")
    until(lambda: job.kubectl.get(KIND, job.name) is None, f"StreamJob {job.name} gone", timeout)
