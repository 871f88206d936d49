"""The plugin of kubectl: one file that needs only Python."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import click
import pytest
import rich
import yaml

from dev.cluster.layout import REPOSITORY
from dev.release import plugin
from dev.release.source import Source
from streamjob.cli import table

PACKAGES = {
    "streamjob": REPOSITORY / "operator" / "streamjob",
    "click": Path(click.__file__).parent,
    "rich": Path(rich.__file__).parent,
}
TIME = 1_790_000_000


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What krew makes of the archive: a folder with its files."""
    folder = tmp_path_factory.mktemp("plugin")
    source = Source(REPOSITORY, "0.1.0", "c0ffee", TIME, "registry.example", "https://example.com/streamjob")
    plugin.write(source, folder, plugin.archive(PACKAGES))
    with tarfile.open(folder / f"{plugin.NAME}-0.1.0.tar.gz") as packed:
        packed.extractall(folder / "unpacked", filter="data")
    return folder


def run(program: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """By a Python that sees no installed package."""
    return subprocess.run(
        [sys.executable, "-I", "-S", program, *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_it_runs_by_itself(unpacked: Path) -> None:
    program = unpacked / "unpacked" / plugin.NAME
    assert os.access(program, os.X_OK)
    assert run(program, "--help").stdout == table.usage("kubectl streamjob")
    for command in set(table.COMMANDS) - {"convert", "ui"}:
        assert "Usage: kubectl streamjob " in run(program, command, "--help").stdout, command


def test_it_reads_its_own_data_and_calls_kubectl(unpacked: Path) -> None:
    condition = {"type": "Stalled", "status": "True", "reason": "AlreadyDrained"}
    job = {"metadata": {"name": "orders"}, "status": {"conditions": [condition]}, "items": []}
    answer = unpacked / "answer.json"
    answer.write_text(json.dumps(job))
    done = run(unpacked / "unpacked" / plugin.NAME, "diagnose", "orders", KUBECTL=f"sh -c 'cat {answer}'")
    assert "A new StreamJob with `allowDrained: true`" in done.stdout
    assert done.returncode == 1, done.stderr


def test_what_is_not_in_it_says_how_to_get_it(unpacked: Path) -> None:
    done = run(unpacked / "unpacked" / plugin.NAME, "convert", "x.yaml")
    assert done.returncode == 2
    assert "the extra `convert`: pipx install './streamjob-VERSION-py3-none-any.whl[convert]'" in done.stderr


def test_kubectl_asks_it_what_comes_next(unpacked: Path) -> None:
    """The second file calls the first. Both are on the PATH when krew has installed them."""
    done = subprocess.run(
        [unpacked / "unpacked" / plugin.COMPLETE, "sav"],
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == [f"savepoint\t{table.COMMANDS['savepoint'].text}", ":4"]


def test_the_manifest_names_the_archive(unpacked: Path) -> None:
    manifest = yaml.safe_load((unpacked / f"{plugin.NAME}.krew.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    packed = unpacked / f"{plugin.NAME}-0.1.0.tar.gz"
    assert platform["sha256"] == hashlib.sha256(packed.read_bytes()).hexdigest()
    assert platform["uri"].endswith(f"/v0.1.0/{packed.name}")
    assert platform["bin"] == plugin.NAME
    assert manifest["spec"]["version"] == "v0.1.0"


def test_equal_packages_give_equal_bytes() -> None:
    assert plugin.archive(PACKAGES) == plugin.archive(PACKAGES)
