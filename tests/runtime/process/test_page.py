"""The page beside a local job: it is told of, and ends with the job."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from streamjob.runtime.process.local import page

ROOT = Path(__file__).parents[3]
# A job that is killed: its page has to notice by itself. The page's output is the pipe of this process.
JOB = """
import sys, threading
from pathlib import Path
from streamjob.runtime.process.local import job_folder, page
job_folder.JobFolder(Path(sys.argv[1])).lock()
page.start(Path(sys.argv[1]), lambda line: print(line, flush=True))
threading.Event().wait()
"""


def test_without_its_package_the_job_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(page, "PACKAGE", "no_such_package")
    monkeypatch.setattr(page, "COMMAND", ("/nothing",))
    page.start(tmp_path, told.append)
    (line,) = told
    assert "no page" in line
    assert "pip install './streamjob-VERSION-py3-none-any.whl[cli]'" in line


def test_a_page_that_cannot_be_served_is_told_and_the_job_runs_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import sys; sys.exit('error: this package has no page')"
    monkeypatch.setattr(page, "COMMAND", (sys.executable, "-c", script))
    told = queue.Queue[str]()
    page.start(tmp_path, told.put)
    assert told.get(timeout=60) == "streamjob: there is no page any more: this package has no page"


def test_it_has_an_address_while_the_job_runs_and_ends_with_it(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    with subprocess.Popen(
        [sys.executable, "-c", JOB, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    ) as job:
        assert job.stdout is not None
        said, _, address = job.stdout.readline().partition("http://")
        assert said == "streamjob: the page of this job: "
        host, port = address.partition("/")[0].split(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            job.send_signal(signal.SIGKILL)
            connection.settimeout(120)
            assert connection.recv(1) == b"", "whoever is connected sees the end"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=60)
