"""The page in a headless Chromium, in front of an API server with recorded resources."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from streamjob.cli.options import Options
from streamjob.cli.ui.command import sources
from streamjob.cli.ui.jobs import Jobs
from streamjob.cli.ui.server import PageServer

from ..browser import ROOT, browser, page
from .api_server import ApiServer, api_server

__all__ = ["browser", "page"]


@dataclass
class Site:
    """A running `kubectl streamjob ui`, in this process."""

    server: PageServer
    jobs: Jobs

    @property
    def address(self) -> str:
        return self.server.address(f"token={self.server.tokens.token}")


@pytest.fixture(scope="session")
def kubectl() -> str:
    """The kubectl of the local cluster's programs, or the machine's."""
    built = ROOT / ".cluster/bin/kubectl"
    found = os.environ.get("KUBECTL") or (str(built) if built.exists() else shutil.which("kubectl"))
    assert found, "no kubectl: `make cluster` builds one"
    return found


@pytest.fixture
def api(tmp_path: Path, kubectl: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    with api_server(tmp_path) as (server, kubeconfig):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        monkeypatch.setenv("KUBECTL", kubectl)
        monkeypatch.setenv("HOME", str(tmp_path))  # kubectl caches there what it has discovered
        yield server


@pytest.fixture
def site(api: ApiServer) -> Iterator[Site]:
    with serving() as found:
        yield found


@contextmanager
def serving(local: Path | None = None, clock: Callable[[], float] = time.time) -> Iterator[Site]:
    """Of the cluster that KUBECONFIG names, or of a folder."""
    of_jobs, of_details = sources(Options(local=local), all_namespaces=True)
    jobs = Jobs(of_jobs, clock)
    server = PageServer(0, jobs, of_details)
    for run in (jobs.run, lambda: server.serve_forever(0.02)):
        threading.Thread(target=run, daemon=True).start()
    try:
        yield Site(server, jobs)
    finally:
        jobs.close()
        server.shutdown()
        server.server_close()
