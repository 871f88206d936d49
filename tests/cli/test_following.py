"""A command that waits, and a cluster that does not say what it waits for."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from streamjob.cli import following
from streamjob.cli.errors import ExitCode
from streamjob.cli.options import Options
from streamjob.cli.views.job import Job
from streamjob.cli.views.progress import Outcome, Progress

KUBECTL = """
case "$*" in
    *--watch*) exec sleep 60 ;;
    *) cat "$STATE" ;;
esac
"""


def test_a_change_that_the_watch_never_reports_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, state = tmp_path / "kubectl", tmp_path / "state"
    program.write_text(KUBECTL)
    monkeypatch.setenv("KUBECTL", f"sh {program}")
    monkeypatch.setenv("STATE", str(state))
    monkeypatch.setattr(following, "TICK", 0.02)
    monkeypatch.setattr(following, "SILENCE", 0.1)

    def reports(phase: str) -> None:
        state.write_text(json.dumps({"metadata": {"name": "orders"}, "status": {"phase": phase}}))

    def look(found: Job | None, now: datetime) -> Progress:
        assert found is not None
        if found.phase == "Running":
            reports("Stopped")
            return Progress("stop of orders", Outcome.GOING, "its queries")
        return Progress("stop of orders", Outcome.REACHED, "")

    reports("Running")
    assert following.follow(Options(), "orders", look, timeout=20.0, stays="") is ExitCode.DONE
