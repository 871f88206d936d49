"""The terminal recording of the docs: a drain as its user sees it. `make pictures` takes it from here."""

from __future__ import annotations

import sys

import pytest

from dev.cluster.layout import REPOSITORY
from dev.demo.job import Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE

from ..browser import PICTURES
from ..terminal import record
from .jobs import delete, local_job, make_scripts, read_on
from .shared_volume import APPS, Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1200)]
NEEDED = ("KUBECONFIG", "HOME", "PATH")
WORDS = "drain orders --yes --wait"


def test_a_drain_in_a_terminal(cluster: Site, storage: Storage) -> None:
    make_scripts(cluster.kubectl, "two", {"two.py": (APPS / "two.py").read_text()})
    often = {"interval": "5s"}
    spec = local_job(cluster, "orders", "two.py", "/data/out/orders", scripts="two", checkpoint=often)
    cluster.kubectl.apply(spec)
    job = Job(cluster.kubectl, "orders")
    job.reach("Running", PATIENCE)
    read_on(job, storage, 400)
    kubectl = cluster.kubectl
    context = ["--context", kubectl.context] if kubectl.context else []
    environment = {
        **{key: value for key, value in kubectl.environment().items() if key in NEEDED},
        "KUBECTL": kubectl.program,
        "PYTHONPATH": str(REPOSITORY / "operator"),
    }
    command = [sys.executable, "-m", "streamjob.cli", *WORDS.split(), "-n", kubectl.namespace, *context]
    recording = record(f"kubectl streamjob {WORDS}", command, environment)
    assert recording.code == 0, recording.texts()[-1]
    shown = "\n".join(recording.texts())
    for step in ("the running batch ends", "timers fire", "orders is Drained"):
        assert step in shown, shown
    found = storage.look(job.name)
    assert found.output == expected(found.numbers)
    PICTURES.mkdir(parents=True, exist_ok=True)
    (PICTURES / "drain-terminal.svg").write_text(recording.svg())
    delete(job)
