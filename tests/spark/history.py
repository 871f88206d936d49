"""Spark's History Server, as a process on loopback that reads a folder of event logs."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import yaml

from dev import ports
from streamjob.storage.local_disk import uri_of

from .feeds import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "history" / "history-server.yaml"
SPARK_HOME, LOGS = "/opt/spark", "file:/data/events"  # there


class History:
    """What the server at `url` answers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def api(self, path: str) -> Any:
        return json.loads(self.page(f"/api/v1/{path}"))

    def answers(self) -> bool:
        try:
            self.api("version")
        except (urllib.error.URLError, ConnectionError, json.JSONDecodeError):
            return False  # it has pages before it has its API
        return True

    def completed(self) -> dict[str, bool]:
        """Of each application, by its id, whether it has ended; in the order of their starts."""
        found = sorted(self.api("applications"), key=lambda app: app["attempts"][0]["startTimeEpoch"])
        return {app["id"]: app["attempts"][0]["completed"] for app in found}


@contextmanager
def reading(logs: Path) -> Iterator[History]:
    """The History Server of the example, of the installed Spark, which reads these logs."""
    deployment = next(yaml.safe_load_all(EXAMPLE.read_text()))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (variable,) = container["env"]
    assert SPARK_HOME in container["command"][0]
    assert LOGS in variable["value"]
    port, home = ports.free(), str(Path(pyspark.__file__).parent)
    command = [word.replace(SPARK_HOME, home) for word in container["command"]]
    settings = {"fs.update.interval": "1s", "ui.port": str(port)}
    options = variable["value"].replace(LOGS, uri_of(logs))
    options += "".join(f" -Dspark.history.{key}={value}" for key, value in settings.items())
    with (logs.parent / "history.log").open("w") as log:
        process = subprocess.Popen(
            command,
            env={**os.environ, variable["name"]: options, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        history = History(f"http://127.0.0.1:{port}")

        def up() -> bool:
            assert process.poll() is None, (logs.parent / "history.log").read_text()
            return history.answers()

        eventually(up, "an answer of the History Server")
        yield history
    finally:
        process.terminate()
        process.wait()
