"""A Prometheus for tests: one process on a free port of this machine, with its data in its own folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from dev import ports
from dev.demo.waiting import PATIENCE


class Prometheus:
    """A server that the constructor starts. It scrapes and evaluates once a second.

    :param targets: `host:port` of what serves /metrics.
    :param groups: of alerts, as in a file of rules.
    :raises FileNotFoundError: there is no Prometheus.
    """

    def __init__(self, folder: Path, targets: Sequence[str], groups: list[dict[str, Any]]) -> None:
        if shutil.which("prometheus") is None:
            raise FileNotFoundError("no Prometheus: run dev/bootstrap.sh servers")
        folder.mkdir(parents=True)
        (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [
                {"job_name": "pods", "honor_labels": True, "static_configs": [{"targets": list(targets)}]}
            ],
        }
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{ports.free(kept=True)}"
        self._url = f"http://{address}"
        with (folder / "log").open("w") as log:
            self._process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={address}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._get("/-/ready")
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"no Prometheus: {(folder / 'log').read_text()[-2000:]}") from None
            time.sleep(0.1)

    def firing(self) -> dict[str, dict[str, str]]:
        """The labels of each alert that fires now, by its name."""
        alerts = json.loads(self._get("/api/v1/alerts"))["data"]["alerts"]
        return {a["labels"]["alertname"]: a["labels"] for a in alerts if a["state"] == "firing"}

    def value(self, query: str) -> float | None:
        """The value of an expression that has at most one."""
        found = self.query(query)
        return float(found[0]["value"][1]) if found else None

    def query(self, query: str) -> list[dict[str, Any]]:
        """The samples of an expression, each with `metric` and `value`.

        :raises urllib.error.HTTPError: Prometheus refuses it.
        """
        answer = json.loads(self._get(f"/api/v1/query?query={urllib.parse.quote(query)}"))
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(self._url + path, timeout=10) as answer:
            return str(answer.read().decode())
