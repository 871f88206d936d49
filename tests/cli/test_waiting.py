"""What a person reads while the pod of a command does not run yet."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from streamjob.cli.errors import ExitCode
from streamjob.cli.printing.waiting import LATER, SOON, Waiting
from streamjob.protocol.times import timestamp

from ..ui import recorded
from ..ui.api_server import ApiServer
from .test_transcript import server

__all__ = ["server"]
Output = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]
IMAGE = 'Pulling image "registry.example/orders:1"'


def after(seconds: float, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> Waiting:
    """A wait that has taken so long; the terminal cannot redraw a line."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "dumb")
    clock = iter([0.0])
    return Waiting(lambda: next(clock, seconds))


@pytest.mark.parametrize(
    ("seconds", "terminal", "speaks"),
    [(SOON - 1, True, False), (SOON, True, True), (LATER - 1, False, False), (LATER, False, True)],
)
def test_a_short_wait_says_nothing(
    seconds: float, terminal: bool, speaks: bool, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    with after(seconds, monkeypatch, terminal=terminal) as waiting:
        assert waiting.speaks is speaks
        waiting.on("The pod x waits for a node")
    found = capsys.readouterr()
    assert found.err == ("The pod x waits for a node\n" if speaks else "")
    assert found.out == ""


def test_where_the_output_is_kept_there_is_a_line_for_each_change(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    with after(LATER, monkeypatch, terminal=False) as waiting:
        for text in ("a node", "a node", "its image"):
            waiting.on(text)
    assert capsys.readouterr().err == "a node\nits image\n"


def test_the_pod_of_a_command(server: ApiServer) -> None:
    """In a terminal: the image that is pulled, as the pod's Events have it, and why the pod ends."""
    now = datetime.now(timezone.utc)
    server.put("streamjobs", recorded.drained(now))
    labels = {"streamjob.dev/component": "runtime"}
    server.put(
        "configmaps", {"metadata": {"name": "runtime", "namespace": recorded.NAMESPACE, "labels": labels}}
    )
    words = ("savepoint", "describe", "orders", "file:///sp/x", "-n", recorded.NAMESPACE)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "streamjob.cli", *words],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT / "operator"), "TERM": "xterm", "COLUMNS": "200"},
    )
    os.close(theirs)
    said = Said(ours)
    said.until("is made from the driver's template")
    (pod,) = (o for (kind, _, _), o in server.objects.items() if kind == "pods")
    scheduled = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    server.put("pods", {**pod, "status": scheduled})
    said.until(f"The pod {pod['metadata']['name']} waits for its container to start")
    server.put("events", event(pod, now, "Pulling", IMAGE))
    said.until(f"waits for its image ({IMAGE})")
    server.put("pods", {**pod, "status": {"phase": "Failed", "reason": "Evicted", "message": "no disk"}})
    said.until("has ended before it could be used: Evicted: no disk")
    assert process.wait() == ExitCode.PROBLEM
    assert not [key for key in server.objects if key[0] == "pods"]


class Said:
    """What the command writes to a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal, self._text = terminal, ""

    def until(self, text: str) -> None:
        """Read until it has been written."""
        while text not in self._text:
            try:
                read = os.read(self._terminal, 4096).decode()
            except OSError:  # the command has ended
                pytest.fail(f"it has not said {text!r}, but {self._text}")
            self._text += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read)


def event(pod: dict[str, Any], now: datetime, reason: str, message: str) -> dict[str, Any]:
    """As the kubelet makes it."""
    return {
        "metadata": {"name": f"pod.{reason}", "namespace": pod["metadata"]["namespace"]},
        "involvedObject": {"kind": "Pod", "name": pod["metadata"]["name"]},
        "type": "Normal",
        "reason": reason,
        "message": message,
        "lastTimestamp": timestamp(now),
    }
