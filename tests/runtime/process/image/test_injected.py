"""The runtime as an archive: the executors' Python finds it, beside what the image and the job have."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.runtime.process.image import injected


def lent(environment: dict[str, str]) -> dict[str, str]:
    context: Any = SimpleNamespace(environment=environment)
    injected.lend_to_workers(context)
    return environment


def test_an_installed_runtime_changes_nothing() -> None:
    assert injected.archive() is None
    assert lent({"PYTHONPATH": "/jobs"}) == {"PYTHONPATH": "/jobs"}


def test_an_archive_comes_before_what_the_job_sets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = tmp_path / "streamjob.zip"
    archive.touch()
    inside = archive / "streamjob" / "runtime" / "process" / "image" / "injected.py"
    monkeypatch.setattr(injected, "__file__", str(inside))
    assert lent({}) == {"PYTHONPATH": str(archive)}
    assert lent({"PYTHONPATH": "/jobs"}) == {"PYTHONPATH": f"{archive}:/jobs"}
