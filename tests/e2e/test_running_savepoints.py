"""Live savepoints on a real cluster: by command and by schedule, across the death of a driver; and what the
command finds out about them afterwards.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from dev.demo.job import KIND, Job, View
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE

from ..cli.transcript import Ran, Terminal
from .jobs import delete, index, kill_driver, read_on, sums
from .shared_volume import Storage, expected

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]


def request(job: Job, nonce: int) -> None:
    job.kubectl.patch(KIND, job.name, {"spec": {"savepoint": {"nonce": nonce}}})


def asked(view: View) -> dict[str, Any]:
    return dict(view.object.get("status", {}).get("savepointRequest") or {})


class Command:
    """`kubectl streamjob` as the user of this cluster runs it."""

    def __init__(self, job: Job) -> None:
        kubectl = job.kubectl
        environment = {**kubectl.environment(), "KUBECTL": kubectl.program}
        uid = job.view().object["metadata"]["uid"]
        self._terminal = Terminal(kubectl.namespace, uid, environment, kubectl.context, steady=False)

    def run(self, *words: str, keep: str = "", code: int = 0) -> Ran:
        """Run it to its end.

        :param keep: the name of its block in docs/reference/transcript.md.
        """
        with ThreadPoolExecutor(1) as apart:  # the browser of other tests has an event loop in this thread
            ran = apart.submit(asyncio.run, self._terminal.run(keep, *words)).result()
        assert ran.code == code, ran.out
        return ran

    def read(self, *words: str) -> Any:
        out = self.run(*words, "--json").out
        return json.loads(out[out.index("[") :])  # behind the note about the pod


@pytest.mark.slow
def test_by_command_by_schedule_and_across_a_kill(cluster: Site, storage: Storage) -> None:
    """Each is one savepoint, whole and in the index; the job runs on in the meantime, and its output is as
    without them.
    """
    job = sums(cluster, "orders", savepoint={"nonce": 1, "schedule": "* * * * *"})
    job.reach("Running", PATIENCE)
    command = Command(job)
    read_on(job, storage)
    command.run("savepoint", "take", job.name, "--wait")
    view = job.view()
    assert (view.phase, view.epoch) == ("Running", 1)
    assert asked(view)["cause"] == "Manual"
    assert "checkpoint" in asked(view)
    job.follow(
        lambda v: asked(v).get("cause") == "Schedule" and "checkpoint" in asked(v), "a minute's", PATIENCE
    )
    job.kubectl.patch(KIND, job.name, {"spec": {"savepoint": {"schedule": None}}})
    read_on(job, storage)
    request(job, 3)
    kill_driver(job)
    job.follow(
        lambda v: v.epoch == 2 and asked(v).get("cause") == "Manual" and "checkpoint" in asked(v),
        "third",
        PATIENCE,
    )
    read_on(job, storage)
    job.ask("Drained")
    job.reach("Drained", PATIENCE)
    found, records = storage.look(job.name), index(job)
    assert found.output == expected(found.numbers)
    assert all(found.savepoints.values()), "half written"
    named = [r["savepoint"].removeprefix("file://") for r in records if r["savepoint"]]
    assert sorted(named) == sorted(found.savepoints)
    causes = [r["request_id"].split("-")[1] for r in records if r["savepoint"] and not r["scenario"]]
    assert causes.count("manual") == 2
    assert "schedule" in causes
    look_at(command, storage, records)
    delete(job)


def look_at(command: Command, storage: Storage, records: list[Any]) -> None:
    """The commands that read the storage, in pods of their own: the job has ended."""
    listed = command.read("savepoint", "list", "orders", "--storage")
    there = {r["savepoint"].rpartition("/")[2] for r in records if r["savepoint"]}
    assert {s["uri"].rpartition("/")[2] for s in listed} == there
    assert all(0 < s["own"] <= s["size"] for s in listed)
    command.run("savepoint", "describe", "orders", keep="describe")
    command.run("savepoint", "verify", "orders", keep="verify")
    copy = "file:///data/exported"
    command.run("savepoint", "export", "orders", "latest", copy, keep="export")
    storage.shell("rm /data/exported/stages/sums/0/state/0/_metadata/metadata")
    command.run("savepoint", "verify", "orders", copy, keep="broken", code=1)
    manual = next(r["savepoint"] for r in records if "manual" in r["request_id"]).rpartition("/")[2]
    command.run("state", "show", "orders", manual, "--limit", "3", keep="state")
    command.run("savepoint", "delete", "orders", manual, "--yes", keep="delete")
    command.run("savepoint", "describe", "orders", manual, keep="gone", code=2)
