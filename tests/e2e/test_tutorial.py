"""docs/tutorials/cluster.md, word for word, in a checkout, on the cluster of `make cluster`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.cluster.layout import REPOSITORY, Layout
from dev.demo.site import Site
from dev.demo.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(1800)]
PAGE = (REPOSITORY / "docs" / "tutorials" / "cluster.md").read_text()
LAPTOP = (REPOSITORY / "docs" / "tutorials" / "laptop.md").read_text()
BLOCK = re.compile(r'^```(sh|yaml)(?: title="([\w.-]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
SCRIPT = re.compile(r'^```python title="orders.py"\n(.*?)^```', re.MULTILINE | re.DOTALL)
DRIVER = "streamjob.dev/driver:dev"
BY_THE_FIXTURE = (
    "make cluster images",
    "python3 -m dev.cluster load",
)  # the cluster is up, the images are in it
OTHER_WAY = ("pip install", "oci://REGISTRY")  # of those who have a release
PATIENCE = 300.0


class Reader:
    """Does what the page says. Its kubectl has a configuration of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        layout = Layout.from_environment()
        shutil.copy(layout.kubeconfig, folder / "kubeconfig")
        command = folder / "kubectl-streamjob"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m streamjob.cli "$@"\n')
        command.chmod(0o755)
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PATH": f"{folder}:{layout.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY / "operator"),
        }

    def types(self, text: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )

    def succeeds(self, text: str) -> str:
        done = self.types(text)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def reader(cluster: Site, tmp_path: Path) -> Iterator[Reader]:
    if not cluster.local:
        pytest.skip("it is about the cluster of `make cluster`")
    reader = Reader(tmp_path)
    (script,) = SCRIPT.findall(LAPTOP)
    (tmp_path / "orders.py").write_text(script)
    (tmp_path / "charts").symlink_to(REPOSITORY / "charts")
    yield reader
    reader.types(
        "kubectl delete streamjobs --all -n streams --timeout 120s; helm uninstall streamjob -n streams"
    )
    reader.types("kubectl delete namespace streams --timeout 120s")


def test_the_tutorial_works_word_for_word(reader: Reader) -> None:
    said = []
    savepoint = ""
    for kind, title, shown in BLOCK.findall(PAGE):
        text = shown.replace("REGISTRY/driver:0.1.0", DRIVER)
        text = text.replace("file:///data/savepoints/FOLDER/REQUEST", savepoint)
        if kind == "yaml":
            (reader.folder / title).write_text(text)
        elif any(words in text for words in OTHER_WAY) or "kubectl delete crd" in text:
            continue  # the definition is the other tests', too
        elif "kubectl streamjob ui" in text:
            continue  # tests/e2e/test_page.py
        elif "cat /data/out/" in text:  # "repeat it after some seconds"
            first, _, last = text.partition("END'\n")
            reader.succeeds(first + "END'\n")
            until(lambda again=last: '"count":2' in reader.types(again).stdout, "the first window", PATIENCE)
        else:
            lines = [line for line in text.splitlines() if not any(w in line for w in BY_THE_FIXTURE)]
            lines = [line for line in lines if not line.startswith("export KUBECONFIG=")]
            said.append(reader.succeeds("\n".join(lines)))
        found = reader.types("kubectl get sj orders -n streams -o jsonpath='{.status.savepoint.latest}'")
        savepoint = found.stdout or savepoint
    windows = ('{"minute":"10:00","item":"tea","count":2}', '{"minute":"10:05","item":"coffee","count":1}')
    outputs = [sorted(line for line in text.splitlines() if line.startswith('{"minute"')) for text in said]
    assert sorted(windows) in outputs, said
