"""The ConfigMap of the runtime: what is in it, what it is called, and that it fits."""

from __future__ import annotations

import base64
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from streamjob.controller.objects import runtime_files

ROOM = 0.75  # of the limit: the rest is for the releases to come


def test_it_is_far_from_the_limit_of_a_config_map() -> None:
    size = len(runtime_files.archive()) + len(runtime_files.launcher())
    assert size < ROOM * runtime_files.LIMIT


def test_it_has_what_drivers_and_executors_import_and_no_more() -> None:
    found = zipfile.ZipFile(BytesIO(runtime_files.archive())).namelist()
    assert {"streamjob/__init__.py", "streamjob/runtime/__main__.py", "streamjob/job.py"} <= set(found)
    assert {"streamjob/storage/executor_task.py", "streamjob/sinks/files.py"} <= set(found)
    assert not [
        name
        for name in found
        if name.startswith(("streamjob/controller", "streamjob/api", "streamjob/convert"))
    ]


def test_the_same_modules_have_the_same_name_and_others_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    name, archive = runtime_files.name(), runtime_files.archive()
    runtime_files.archive.cache_clear()
    assert runtime_files.archive() == archive
    runtime_files.name.cache_clear()
    assert runtime_files.name() == name
    monkeypatch.setattr(runtime_files, "launcher", lambda: "#!/bin/sh\n")
    runtime_files.name.cache_clear()
    assert runtime_files.name() != name
    runtime_files.name.cache_clear()


def test_python_runs_it(tmp_path: Path) -> None:
    content = runtime_files.config_map("shop")
    assert content["immutable"] is True
    archive = tmp_path / runtime_files.ARCHIVE
    archive.write_bytes(base64.b64decode(content["binaryData"][runtime_files.ARCHIVE]))
    code = "import streamjob.protocol.engine.coordinator as c; print(c.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(archive))
