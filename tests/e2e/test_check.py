"""A new version of a running job is checked on a real cluster, and the job misses no batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dev.demo.site import Site

from .jobs import local_job, make_scripts, read_on, sums
from .shared_volume import APPS, Storage
from .test_faults import drain_and_compare, reach_epoch
from .test_running_savepoints import Command

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200)]
SUMS = (APPS / "sums.py").read_text()
OTHER = SUMS.replace('col("value") % 3', 'col("value").cast("string")')


def test_a_new_version_is_checked_beside_the_running_job(
    cluster: Site, storage: Storage, tmp_path: Path
) -> None:
    """By its image, and by a file that is not applied. The pods of the checks are gone afterwards."""
    job = sums(cluster, "checked")
    make_scripts(cluster.kubectl, "apps", {"sums.py": SUMS, "other.py": OTHER})
    reach_epoch(job, 1)
    read_on(job, storage)
    command, image = Command(job), job.view().object["spec"]["image"]
    said = command.run("check", job.name, "--image", image).out
    assert "sums  continues after batch" in said
    assert said.splitlines()[-1] == "It goes on."
    file = tmp_path / "new.json"
    file.write_text(json.dumps(local_job(cluster, job.name, "other.py", f"/data/out/{job.name}")))
    said = command.run("check", "-f", str(file), code=1).out
    assert "QueryChanged" in said
    assert said.splitlines()[-1] == "It does not go on."
    names = {pod["metadata"]["name"] for pod in cluster.kubectl.list("pods")}
    assert [name for name in names if name.startswith(f"{job.name}-tool-")] == []
    assert (job.view().epoch, job.view().object["spec"]["application"]["file"]) == (1, "/app/sums.py")
    read_on(job, storage)
    drain_and_compare(job, storage)
