"""The chart's alerts and dashboard on what the pods of the cluster serve, in a real Prometheus."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.demo.job import Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until
from dev.prometheus import Prometheus
from streamjob.protocol.messages.commands import METRICS_PORT

from .jobs import delete, local_job, make_scripts
from .shared_volume import APPS, Storage

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
CHART = Path(__file__).parents[2] / "charts" / "streamjob"
LAG = 5  # seconds
NOTHING_YET = {  # panels about what has not happened to the job, or what it does not have
    "Age of the newest checkpoint of running jobs",
    "Degraded: a query is dead, the others keep running",
    "Duration of terminations by mode, median and p95",
    "Escalations per hour",
    "Failed reconciles by reason",
    "Lag: rows",
    "Live savepoints per hour",
    "Pending terminations: seconds until their deadline",
    "Stalled or failed",
    "State: memory",
    "State: rows",
    "Terminations per hour by outcome",
    "Upgrades per hour",
    "Watermark: how far it is behind the clock",
}


def groups(site: Site) -> list[dict[str, Any]]:
    """The chart's alerts, without their patience."""
    values = ["--set", f"monitoring.rules.enabled=true,monitoring.rules.lagSeconds={LAG}"]
    of = ["--kube-version", "1.30", "--show-only", "templates/monitoring.yaml"]
    command = [site.helm, "template", str(CHART), *values, *of]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: list[dict[str, Any]] = yaml.safe_load(text)["spec"]["groups"]
    for group in found:
        for rule in group["rules"]:
            rule["for"] = "1s"
    return found


@pytest.mark.slow
def test_behind_fires_while_a_batch_hangs_and_clears_when_it_goes_on(
    cluster: Site, storage: Storage, tmp_path: Path
) -> None:
    if not cluster.local:
        pytest.skip("the pods of another cluster cannot be reached from here")
    storage.shell(
        "mkdir -p /data/in/gated && cd /data/in/gated && for i in 1 2 3 4; do echo $i > $i.txt; done"
    )
    make_scripts(cluster.kubectl, "gated", {"gated.py": (APPS / "gated.py").read_text()})
    arguments = ("/data/in/gated", "/data/gate")
    cluster.kubectl.apply(local_job(cluster, "gated", "gated.py", *arguments, scripts="gated"))
    job = Job(cluster.kubectl, "gated")
    job.reach("Running", PATIENCE)
    pod = cluster.kubectl.get("pod", job.pod())
    assert pod is not None
    targets = [f"{pod['status']['podIP']}:{METRICS_PORT}", *controllers(cluster)]
    prometheus = Prometheus(tmp_path / "prometheus", targets, groups(cluster))
    try:
        behind = until(lambda: prometheus.firing().get("StreamJobBehind"), "StreamJobBehind fires", PATIENCE)
        named = {name: behind[name] for name in ("namespace", "streamjob", "stage", "source")}
        assert named == {
            "namespace": cluster.namespace,
            "streamjob": "gated",
            "stage": "files",
            "source": "source-0",
        }
        assert prometheus.value("streamjob_source_lag_files") == 3
        until(lambda: not unanswered(prometheus, cluster.namespace), "the panels have data", PATIENCE)
        until(lambda: lag_of(job).get("lagFiles") == 3, "the lag is in the status", PATIENCE)
        storage.shell("touch /data/gate")
        until(lambda: "StreamJobBehind" not in prometheus.firing(), "the alert clears", PATIENCE)
        assert prometheus.value("streamjob_source_lag_files") == 0
        until(lambda: lag_of(job).get("lagFiles") == 0, "no lag in the status", PATIENCE)
    finally:
        prometheus.stop()
    delete(job)


def controllers(site: Site) -> list[str]:
    """Where the controllers serve their metrics."""
    pods = site.kubectl.list("pods", "app.kubernetes.io/name=streamjob")
    ports = {
        p["name"]: p["containerPort"] for pod in pods for c in pod["spec"]["containers"] for p in c["ports"]
    }
    return [f"{pod['status']['podIP']}:{ports['http']}" for pod in pods]


def unanswered(prometheus: Prometheus, namespace: str) -> set[str]:
    """The panels about a job that runs that have no data. Prometheus takes each query of the dashboard."""
    panels = json.loads((CHART / "dashboards" / "streamjob.json").read_text())["panels"]
    empty = set()
    for panel in panels:
        found = [prometheus.query(t["expr"].replace("$namespace", namespace)) for t in panel["targets"]]
        if not any(found):
            empty.add(panel["title"])
    return empty - NOTHING_YET


def lag_of(job: Job) -> dict[str, Any]:
    (stage,) = job.view().object["status"]["stages"]
    (source,) = stage.get("sources") or ({},)
    return source
