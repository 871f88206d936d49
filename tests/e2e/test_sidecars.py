"""Sidecars in the driver's pod that never end by themselves: one ignores SIGTERM, the other one is a native
one.
"""

from __future__ import annotations

import pytest

from dev.demo.kubectl import Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import cheap, read_on, sums
from .shared_volume import Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
FOR_EVER = "trap '' TERM; while :; do sleep 1; done"


def with_sidecars(site: Site) -> Object:
    """The template of the driver's pod."""
    proxy = {
        "name": "proxy",
        "image": site.settings.image("driver"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", FOR_EVER],
        "resources": {"requests": {"cpu": "1m"}},
    }
    template = cheap()
    template["spec"]["containers"].append(proxy)
    template["spec"]["initContainers"] = [{**proxy, "name": "native", "restartPolicy": "Always"}]
    return template


@pytest.mark.slow
def test_r6_a_job_with_sidecars_is_stopped_resumed_restarted_and_drained(
    cluster: Site, storage: Storage
) -> None:
    driver = {"cores": 1, "memory": "512Mi", "template": with_sidecars(cluster)}
    job = sums(cluster, "sidecar", driver=driver)
    job.reach("Running", PATIENCE)
    names = {c["name"] for c in cluster.kubectl.get("pod", job.pod())["spec"]["containers"]}  # type: ignore[index]
    assert names == {"driver", "proxy"}
    read_on(job, storage)
    job.ask("Stopped")
    stopped = job.reach("Stopped", PATIENCE)
    assert stopped.final_checkpoint == stopped.checkpoint
    assert stopped.object["status"]["lastExit"]["code"] == 0

    job.ask("Running")
    job.reach("Running", PATIENCE)
    read_on(job, storage)
    killed = job.pod()
    command = "kill -9 $(pgrep java) $(pgrep -o python)"
    cluster.kubectl.run("exec", killed, "-c", "driver", "--", "sh", "-c", command, check=False)
    job.follow(lambda v: v.phase == "Running" and v.epoch == 3, "Running in epoch 3", PATIENCE)
    assert cluster.kubectl.get("pod", killed) is None
    read_on(job, storage)

    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    found = storage.look(job.name)
    assert found.offsets == found.commits
    assert found.output == expected(found.numbers)
    until(lambda: not cluster.kubectl.list("pods", "streamjob.dev/job=sidecar"), "its pods gone", PATIENCE)
