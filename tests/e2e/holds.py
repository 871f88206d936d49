"""Jobs that stand still where a test wants them to, so that what is to happen meanwhile need not be quick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dev.cluster.layout import Layout
from dev.demo.job import Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

from .jobs import local_job, make_scripts
from .shared_volume import APPS, CLAIM, Storage

FOLDER = "/data/holds"


def held(site: Site, name: str, **spec: Any) -> Job:
    """A job of apps/held.py."""
    scripts = {file: (APPS / file).read_text() for file in ("held.py", "sums.py")}
    make_scripts(site.kubectl, "held", scripts)
    args = (f"/data/out/{name}", f"{FOLDER}/{name}")
    site.kubectl.apply(local_job(site, name, "held.py", *args, scripts="held", **spec))
    return Job(site.kubectl, name)


class Hold:
    """`place`: "rows", in the middle of a batch, or "finish", in the middle of a drain."""

    def __init__(self, storage: Storage, job: str, place: str) -> None:
        self._storage, self._file = storage, f"{FOLDER}/{job}.{place}"

    def close(self) -> None:
        self._storage.shell(f"mkdir -p {FOLDER}; rm -f {self._file}.reached; touch {self._file}")

    def wait(self) -> None:
        """Until the job stands still."""
        look = f"test ! -e {self._file}.reached || echo held"
        until(lambda: self._storage.shell(look).strip(), f"{self._file} is reached", PATIENCE)

    def open(self) -> None:
        self._storage.shell(f"rm -f {self._file}")

    def open_behind_the_api(self, site: Site) -> None:
        """On the local cluster's own disk: without a pod, so without the API server."""
        (on_disk(site) / self._file.removeprefix("/data/")).unlink()


def on_disk(site: Site) -> Path:
    """The jobs' volume as this machine sees it, on the local cluster."""
    return Layout.from_environment().volumes / f"{site.namespace}-{CLAIM}"
