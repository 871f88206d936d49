"""What a user waits for on the real cluster: `kubectl patch` to the driver and to Stopped, a resume with an
executor, an upgrade in mode Handover, a SIGKILL with a standby.

The path of a patch is: API server, watch, controller (three reads, and the write of the intent), TLS to the
driver. One clock measures all of it, because cluster and driver run on this machine.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

from kubernetes import client, config

from dev.bench.endings import APP
from dev.bench.figures import Figures
from dev.demo import site
from dev.demo.console import Console
from dev.demo.job import KIND, Job, View
from dev.demo.kubectl import Object
from dev.demo.site import Settings, Site
from dev.demo.waiting import PATIENCE, until

NAMESPACE = "streamjob-bench"
NAME = "bench"
STEADY = 10  # batches before a measured pause, and behind it
COMMITS = "find /data/checkpoints -not -name '.*' -path '*/commits/[0-9]*' -printf '%f %T@\\n'"
# Of two cores: what the pods ask for must not keep a second driver from being scheduled.
CHEAP = {"containers": [{"name": "driver", "resources": {"requests": {"cpu": "100m"}}}]}


def measure(samples: int) -> Figures:
    """Measure `samples` jobs that are stopped. A third as many are resumed, handed over and killed."""
    console = Console()
    place = site.reach_cluster(Settings.from_environment(), NAMESPACE, console)
    figures = Figures()
    try:
        site.bring_images(place, console)
        site.remove(place, console)
        site.make_namespace(place)
        site.install_chart(place, console)
        volume = site.volume(place, NAME)
        place.kubectl.apply(
            *volume,
            site.a_claim(NAME, volume),
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "app"},
                "data": {"app.py": APP.read_text()},
            },
        )
        for sample in range(samples):
            print(f"  stop: {sample + 1} of {samples}", flush=True)
            _stop(place, figures)
        lives = -(-samples // 3)
        for life in range(lives):
            print(f"  resume, hand-over, SIGKILL: {life + 1} of {lives}", flush=True)
            _resume(place, figures)
            _replace_drivers(place, figures)
    finally:
        site.remove(place, console)
        site.remove_volume(place, NAME)
        if place.booted:
            site.end_cluster(console)
    return figures


def _stop(place: Site, figures: Figures) -> None:
    job = _started(place)
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


def _resume(place: Site, figures: Figures) -> None:
    created = time.time()
    executor = {"instances": 1, "cores": 1, "memory": "512Mi"}
    job = _started(place, executor=executor, driver=_driver(template={"spec": CHEAP}))
    job.ask("Stopped")
    job.reach("Stopped", PATIENCE)
    began = time.time()
    job.ask("Running")
    job.reach("Running", PATIENCE)
    found = _Commits(job, created).wait_for(lambda found: max(found.values()) > began)
    first = min(at for at in found.values() if at > began)
    figures.add("resume with an executor: patch sent to first commit", first - began)
    place.kubectl.run("delete", KIND, NAME, timeout=120)


def _replace_drivers(place: Site, figures: Figures) -> None:
    """By an upgrade in mode Handover, and by killing the driver beside its standby."""
    created = time.time()
    job = _started(place, upgrade={"mode": "Handover"}, driver=_driver(template={"spec": CHEAP}))
    commits = _Commits(job, created)
    before = commits.go_on()
    conf = {"spark.sql.streaming.minBatchesToRetain": "200"}
    place.kubectl.patch(KIND, NAME, {"spec": {"sparkConf": conf}})
    job.follow(lambda v: v.phase == "Running" and v.epoch == 2, "the next driver", PATIENCE)
    figures.add("hand-over: longest time between two commits", commits.longest_pause(before))

    place.kubectl.patch(KIND, NAME, {"spec": {"driver": {"standby": True}}})
    job.follow(_has_standby, "a standby", PATIENCE)
    before = commits.go_on()
    kill = "kill -9 $(pgrep java) $(pgrep -o python)"
    place.kubectl.run("exec", job.pod(), "--", "sh", "-c", kill, check=False)
    job.follow(lambda v: v.phase == "Running" and v.epoch == 3, "the standby", PATIENCE)
    pause = commits.longest_pause(before)
    figures.add("SIGKILL with a standby: longest time between two commits", pause)
    place.kubectl.run("delete", KIND, NAME, timeout=120)


def _started(place: Site, **spec: Any) -> Job:
    place.kubectl.apply(_manifest(place, **spec))
    job = Job(place.kubectl, NAME)
    job.follow(lambda v: v.phase == "Running" and v.batch >= 0, "running", 240)
    return job


def _has_standby(view: View) -> bool:
    standby: Object = view.object["status"].get("standby") or {}
    return view.phase == "Running" and bool(standby.get("prepared"))


class _Commits:
    """When each batch of a job was committed, by the clock of the volume: it keeps those of earlier jobs.

    :param since: when the job was created.
    """

    def __init__(self, job: Job, since: float) -> None:
        self._job, self._since = job, since

    def wait_for(self, enough: Callable[[dict[int, float]], bool]) -> dict[int, float]:
        def found() -> dict[int, float] | None:
            times = self._times()
            return times if times and enough(times) else None

        return until(found, "commits", PATIENCE, every=1)

    def go_on(self) -> int:
        """:returns: the last batch, after some more."""
        last = max(self._times())
        return max(self.wait_for(lambda found: max(found) >= last + STEADY))

    def longest_pause(self, before: int) -> float:
        """The longest time between two commits, from that of batch `before` to now and some batches more."""
        self.go_on()
        times = [at for batch, at in sorted(self._times().items()) if batch >= before]
        return max(after - before for before, after in pairwise(times))

    def _times(self) -> dict[int, float]:
        words = ("exec", self._job.pod(), "-c", "driver", "--", "sh", "-c", COMMITS)
        found = [line.split() for line in self._job.kubectl.run(*words).splitlines()]
        return {int(batch): float(at) for batch, at in found if float(at) > self._since}


def _driver(**more: Any) -> Object:
    return {"cores": 1, "memory": "512Mi", **more}


def _requested(log: str) -> float:
    found = re.search(r"^(\S+ \S+),(\d+) INFO streamjob: stop requested", log, re.MULTILINE)
    assert found, log[-2000:]
    at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
    return at.timestamp() + int(found[2]) / 1000


def _manifest(place: Site, **spec: Any) -> Object:
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
            "driver": _driver(),
            "storage": {
                "checkpoints": "file:///data/checkpoints",
                "savepoints": "file:///data/savepoints",
                "volumes": volumes,
                "volumeMounts": mounts,
            },
            **spec,
        },
    }
