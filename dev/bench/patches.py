"""The time from `kubectl patch` until the driver has the request, end to end on the real cluster.

The path is: API server, watch, controller (three reads, and the write of the intent), TLS to the driver. One
clock measures all of it, because cluster and driver run on this machine.
"""

from __future__ import annotations

import re
import subprocess
import time
from datetime import datetime, timezone

from kubernetes import client, config

from dev.bench.endings import APP
from dev.bench.figures import Figures
from dev.demo import site
from dev.demo.console import Console
from dev.demo.job import KIND, Job
from dev.demo.kubectl import Object
from dev.demo.site import Settings, Site
from dev.demo.waiting import PATIENCE

NAMESPACE = "streamjob-bench"
NAME = "bench"


def measure(samples: int) -> Figures:
    """Measure `samples` jobs. Each is started, and patched to Stopped once it runs."""
    console = Console()
    place = site.reach_cluster(Settings.from_environment(), NAMESPACE, console)
    figures = Figures()
    try:
        site.bring_images(place, console)
        site.remove(place, console)
        site.make_namespace(place)
        site.install_chart(place, console)
        place.kubectl.apply(
            *site.volume(place, NAME),
            site.a_claim(NAME),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "app"},
                "data": {"app.py": APP.read_text()},
            },
        )
        for sample in range(samples):
            print(f"  patch: {sample + 1} of {samples}", flush=True)
            _sample(place, figures)
    finally:
        site.remove(place, console)
        site.remove_volume(place, NAME)
        if place.booted:
            site.end_cluster(console)
    return figures


def _sample(place: Site, figures: Figures) -> None:
    place.kubectl.apply(_manifest(place))
    job = Job(place.kubectl, NAME)
    job.follow(lambda v: v.phase == "Running" and v.batch >= 0, "running", 240)
    pod = job.pod()
    api = client.CustomObjectsApi(
        config.new_client_from_config(place.kubectl.kubeconfig, place.kubectl.context)
    )
    kubectl = place.kubectl
    words, environment = kubectl.command("logs", "--follow", pod), kubectl.environment()
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as log:
        began = time.time()
        api.patch_namespaced_custom_object(
            "streamjob.dev", "v1alpha1", place.namespace, "streamjobs", NAME, {"spec": {"state": "Stopped"}}
        )
        patched = time.time()
        # Neither is polled: that would take processor time from the job.
        seen = kubectl.watch(KIND, NAME, PATIENCE)
        stopped = next(time.time() for job in seen if job.get("status", {}).get("phase") == "Stopped")
        lines, _ = log.communicate(timeout=PATIENCE)
    figures.add("patch sent to driver has the request", _requested(lines) - began)
    figures.add("of which: the patch call itself", patched - began)
    figures.add("patch sent to phase Stopped", stopped - began)
    kubectl.run("delete", KIND, NAME, timeout=120)


def _requested(log: str) -> float:
    found = re.search(r"^(\S+ \S+),(\d+) INFO streamjob: stop requested", log, re.MULTILINE)
    assert found, log[-2000:]
    at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    return at.timestamp() + int(found[2]) / 1000


def _manifest(place: Site) -> Object:
    volumes = [
        {"name": "app", "configMap": {"name": "app"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": NAME}},
    ]
    mounts = [
        {"name": "app", "mountPath": "/app", "readOnly": True},
        {"name": "data", "mountPath": "/data"},
    ]
    return {
        "apiVersion": "streamjob.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": NAME},
        "spec": {
            "image": place.settings.image("driver"),
            "application": {"file": "/app/app.py", "args": ["rate", "1000", "10"]},
            "sparkConf": {"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"},
            "driver": {"cores": 1, "memory": "512Mi"},
            "storage": {
                "checkpoints": "file:///data/checkpoints",
                "savepoints": "file:///data/savepoints",
                "volumes": volumes,
                "volumeMounts": mounts,
            },
        },
    }
