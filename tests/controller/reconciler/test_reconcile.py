"""The controller's process, against a real API server and a real HTTPS driver; the test plays the kubelet."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from streamjob.controller.objects.certs import Material
from streamjob.protocol.messages.commands import Mode
from tests.chart.test_chart import USED

from ..real import (
    NEEDS_A_CLUSTER,
    Cluster,
    Controller,
    controller,
    end,
    eventually,
    gone,
    world,
)

__all__ = ["world"]
pytestmark = NEEDS_A_CLUSTER


async def test_stop_resume_drain(world: Cluster) -> None:
    await world.apply()
    driver, config = await world.run_driver(1)
    assert (config.epoch, config.next_checkpoint, config.restore.latest) == (1, 1, None)
    await world.phase("Running")

    await world.patch("Stopped")
    record = await end(world, driver, config, Mode.STOP)
    job = await world.phase("Stopped")
    assert job["status"]["savepoint"]["latest"] == record.savepoint
    assert await world.pods() == []

    await world.patch("Running")
    driver, config = await world.run_driver(2)
    assert (config.epoch, config.next_checkpoint) == (2, 2)
    assert (config.restore.latest, config.restore.exact) == (record, True)
    await world.phase("Running")

    await world.patch("Drained")
    await end(world, driver, config, Mode.DRAIN)
    job = await world.phase("Drained")
    assert job["status"]["savepoint"]["drained"] is True
    assert "kopf" not in str(job["metadata"]), "kopf writes nothing"

    assert world.controller is not None
    await check_metrics(world.controller)
    await world.delete()
    await eventually(lambda: gone(world), "the end of the job")


async def check_metrics(controller: Controller) -> None:
    """A job that was stopped, resumed and drained; and no call that the chart's Roles do not allow."""

    expected = {
        ("streamjob_jobs", "Drained"): 1,
        ("streamjob_job_phase", "Drained"): 1,
        ("streamjob_termination_seconds_count", "Stop"): 1,
        ("streamjob_termination_seconds_count", "Drain"): 1,
        ("streamjob_epochs_total", ""): 2,
        ("streamjob_leader_term", ""): 1,
    }

    async def reported() -> bool:
        """The API server shows a phase before the controller, which has written it, has its answer."""
        found = await controller.samples()
        by_label = {(s.name, s.labels.get("phase") or s.labels.get("mode") or ""): s.value for s in found}
        return expected.items() <= by_label.items()

    await eventually(reported, f"metrics {expected}")
    samples = await controller.samples()
    called = {
        (s.labels["verb"], s.labels["resource"]) for s in samples if s.name == "streamjob_api_requests_total"
    }
    assert called <= USED | {(verb, "leases") for verb in ("get", "create", "update")}


async def test_two_controllers_do_no_more_than_one(world: Cluster) -> None:
    """A killed one's successor may begin before it is gone."""
    await world.apply()
    driver, config = await world.run_driver(1)
    await world.phase("Running")
    with controller(world.namespace):
        await world.patch("Stopped")
        await end(world, driver, config, Mode.STOP)
        job = await world.phase("Stopped")
    assert len({c.request_id for c in driver.commands if not isinstance(c, int)}) == 1
    assert job["status"]["epoch"] == 1


@pytest.mark.slow
async def test_a_killed_controllers_successor_continues(world: Cluster) -> None:
    """Killed when it has sent the request, and its successor when the checkpoint is in the index."""
    await world.apply()
    driver, config = await world.run_driver(1)
    await world.phase("Running")
    await world.patch("Stopped")

    async def requested() -> bool:
        return bool(driver.commands)

    await eventually(requested, "the request")
    assert world.controller is not None
    world.controller.kill()
    with controller(world.namespace):
        await end(world, driver, config, Mode.STOP)
    with controller(world.namespace):
        job = await world.phase("Stopped")
    assert await world.pods() == []
    assert job["status"]["termination"]["finalCheckpoint"] == 1
    assert len({c.request_id for c in driver.commands if not isinstance(c, int)}) == 1


async def test_a_driver_that_is_killed_is_restarted_from_its_directories(world: Cluster) -> None:
    await world.apply(restart={"backoff": {"initial": "1s"}})
    await world.run_driver(1)
    await world.phase("Running")
    await world.exit_driver(1, 137)
    _, config = await world.run_driver(2)
    assert not config.restore.exact
    job = await world.phase("Running")
    assert job["status"]["lastError"]["reason"] == "DriverKilled"
    assert job["status"]["restarts"]["count"] == 1


async def test_cancel_in_the_middle_of_a_stop(world: Cluster) -> None:
    await world.apply()
    await world.run_driver(1)
    await world.phase("Running")
    await world.patch("Stopped")
    await world.phase("Stopping")
    await world.patch("Cancelled")
    await world.phase("Cancelled")
    assert await world.pods() == []


async def test_no_secret_is_anywhere_but_in_its_secret(world: Cluster, tmp_path: Path) -> None:
    """Not in the verbose log, in objects that others may read, in metrics, or in `ps`."""
    assert world.controller is not None
    world.controller.terminate()
    world.controller.wait()
    log = tmp_path / "log"
    with controller(world.namespace, log, "--verbose", "--log-format", "json") as ours:
        await world.apply()
        driver, config = await world.run_driver(1)
        await world.phase("Running")
        token, key = driver.material.token, driver.material.key
        driver.material = Material("another", driver.material.certificate, key)
        await world.patch("Stopped")
        await eventually(lambda: logged(log, "Unauthorized"), "a refusal in the log")
        driver.material = Material(token, driver.material.certificate, key)
        await end(world, driver, config, Mode.STOP)
        await world.phase("Stopped")
        core, namespace = world.core, world.namespace
        metrics = await ours.samples()
        process = Path(f"/proc/{ours.pid}")
        shown = [
            log.read_text(),
            str(await world.job()),
            str(await core.list_namespaced_event(namespace)),
            str(await core.list_namespaced_config_map(namespace)),
            str(metrics),
            (process / "cmdline").read_text() + (process / "environ").read_text(),
        ]
    lines = [
        json.loads(line) for line in shown[0].rpartition("\n")[0].splitlines()
    ]  # the last one may be half written
    ours_only = {"job": "orders", "namespace": world.namespace}
    assert [line for line in lines if ours_only.items() <= line.items()]
    secrets = [token, *[line for line in key.splitlines() if "PRIVATE" not in line]]
    for secret in secrets + [base64.b64encode(s.encode()).decode() for s in secrets]:
        assert not [text for text in shown if secret in text]


async def logged(log: Path, text: str) -> bool:
    return text in log.read_text()
