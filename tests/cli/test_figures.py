"""What the command costs: its help, and the status of a hundred jobs beside kubectl's own time.

No limits here, because no test depends on the clock: the figures are printed at the end of the run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from ..ui import recorded
from ..ui.api_server import ApiServer
from .test_transcript import server

__all__ = ["server"]
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "streamjob.cli")
TIMES = 15


def run(*words: str) -> tuple[float, str]:
    """Seconds and output."""
    began = time.perf_counter()
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "operator")},
    )
    return time.perf_counter() - began, done.stdout


@pytest.fixture(autouse=True)
def compiled(tmp_path: Path) -> Iterator[None]:
    """The modules are compiled, as those of an installed command are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
        run(*COMMAND, "status", "--help")
        yield


def middle(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} s median, {max(times):.2f} s at most, of {len(times)}"


def test_help(record_property: Any) -> None:
    bare, took = [], []
    for _ in range(TIMES):
        bare.append(run(sys.executable, "-c", "pass")[0])
        seconds, text = run(*COMMAND, "--help")
        took.append(seconds)
        assert "drain" in text
    record_property("figure", f"--help: {middle(took)}; Python alone {statistics.median(bare):.2f} s")


def test_the_status_of_a_hundred_jobs(server: ApiServer, record_property: Any) -> None:
    """In turn with kubectl, which reads the same list."""
    server.put("streamjobs", *recorded.many(datetime.now(timezone.utc), 100))
    kubectl = os.environ["KUBECTL"]
    theirs, beyond = [], []
    for _ in range(TIMES):
        alone, listed = run(kubectl, "get", "streamjobs", "-A", "-o", "json")
        seconds, text = run(*COMMAND, "status", "-A")
        theirs.append(alone)
        beyond.append(seconds - alone)
    assert len(json.loads(listed)["items"]) == text.count("job-0") == 100
    record_property(
        "figure",
        f"status of 100 jobs beyond kubectl: {middle(beyond)}; kubectl {statistics.median(theirs):.2f} s",
    )
