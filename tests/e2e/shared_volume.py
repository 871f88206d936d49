"""The volume that the tests' jobs share, and a pod to look into it with."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dev.demo import site as sites
from dev.demo.kubectl import LATER, LIMIT, Kubectl, Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until

APPS = Path(__file__).parent / "apps"
CLAIM, WORKBENCH = "jobs", "workbench"
USER = {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}


@dataclass(frozen=True)
class Found:
    """What a job left.

    `savepoints`: location → whether its manifest is there.
    `times`: when each of the last batches was committed.
    """

    rows: list[dict[str, int]]
    offsets: int
    commits: int
    numbers: int
    savepoints: dict[str, bool]
    times: dict[int, float]

    @property
    def output(self) -> list[tuple[int, int, int, int]]:
        return sorted((row["start"], row["key"], row["n"], row["sum"]) for row in self.rows)

    def longest_pause(self, since: int) -> float:
        """:returns: seconds between two commits, from that of batch `since` on."""
        times = [time for batch, time in sorted(self.times.items()) if batch >= since]
        return max(after - before for before, after in pairwise(times))


class Storage:
    """Made once for a session."""

    def __init__(self, site: Site) -> None:
        self.kubectl: Kubectl = site.kubectl
        volume = sites.volume(site, CLAIM)
        claim = sites.a_claim(CLAIM, volume)
        site.kubectl.apply(*volume, claim, _workbench(site.settings.image("driver")))
        site.kubectl.run("wait", f"pod/{WORKBENCH}", "--for=condition=Ready", LIMIT, timeout=LATER)

    def run(self, *command: str, stdin: str | None = None, check: bool = True) -> str:
        return self.kubectl.run("exec", "-i", WORKBENCH, "--", *command, stdin=stdin, check=check)

    def shell(self, script: str) -> str:
        return self.run("sh", "-ec", script)

    def look(self, job: str) -> Found:
        program = (APPS / "look.py").read_text()
        # kubectl exec loses the output now and then ("Unknown stream id 1, discarding message").
        said = until(lambda: self.run("python", "-", job, stdin=program), f"what {job} has written", PATIENCE)
        found: dict[str, Any] = json.loads(said)
        query = found["query"] or {"offsets": -1, "commits": -1, "numbers": 0, "times": {}}
        times = {int(batch): time for batch, time in query.pop("times").items()}
        return Found(rows=found["rows"], savepoints=found["savepoints"], times=times, **query)


def expected(numbers: int) -> list[tuple[int, int, int, int]]:
    """What apps/sums.py has to write once every window of so many numbers is out."""
    windows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number in range(numbers):
        windows[number // 200 * 10, number % 3].append(number)
    return sorted((start, key, len(group), sum(group)) for (start, key), group in windows.items())


def _workbench(image: str) -> Object:
    container = {
        "name": WORKBENCH,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["sleep", "infinity"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": WORKBENCH},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "securityContext": USER,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}],
        },
    }
