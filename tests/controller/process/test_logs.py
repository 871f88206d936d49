"""Log records: their form, the job that they are about, and that no secret is in any of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from streamjob.controller.drivers.connections import DriverConnections
from streamjob.controller.drivers.credentials import DriverCredentials
from streamjob.controller.objects import certs
from streamjob.controller.objects.certs import Material
from streamjob.controller.process import logs
from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.messages.commands import Mode, TerminationRequest

from ..fake_driver import HOST, FakeDriver

log = logging.getLogger("streamjob.controller.test")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, ours = root.handlers[:], root.level, logging.getLogger("streamjob").level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("streamjob").setLevel(ours)


def test_json_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", verbose=False)
    log.info("first line\nsecond %s", "line", extra={"reason": "Stopped"})
    log.debug("not shown")
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("it failed")
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert datetime.fromisoformat(first.pop("time").replace("Z", "+00:00")).tzinfo == timezone.utc
    assert first == {
        "level": "INFO",
        "logger": log.name,
        "message": "first line\nsecond line",
        "reason": "Stopped",
    }
    assert "ValueError: why" in second["exception"]


@pytest.mark.parametrize("form", logs.FORMATS)
async def test_each_record_names_its_job(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(form, verbose=False)

    async def child() -> None:
        log.info("polled")

    async def task(name: str) -> None:
        logs.JOB.set(("shop", name))
        await asyncio.sleep(0)
        log.info("looked at")
        await asyncio.create_task(child())

    await asyncio.gather(task("a"), task("b"))
    log.info("of no job")
    lines = capsys.readouterr().err.splitlines()
    if form == "json":
        jobs = [(o.get("namespace"), o.get("job")) for o in map(json.loads, lines)]
        assert sorted(jobs[:-1]) == [("shop", "a")] * 2 + [("shop", "b")] * 2
        assert jobs[-1] == (None, None)
    else:
        assert sorted(line.split(": ")[1] for line in lines[:-1]) == ["shop/a"] * 2 + ["shop/b"] * 2
        assert lines[-1].endswith("test: of no job")


def test_verbose_is_for_our_own_records(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("text", verbose=True)
    log.debug("ours")
    logging.getLogger("kubernetes.aio.client.rest").debug("a library's")
    output = capsys.readouterr().err
    assert "ours" in output
    assert "a library's" not in output


async def test_no_record_of_anybody_holds_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    """All logging is on, also in libraries: calls that are answered, refused, or meet another certificate."""
    caplog.set_level(1)
    right, wrong = certs.new(datetime.now(timezone.utc)), certs.new(datetime.now(timezone.utc))
    driver = await FakeDriver(right, "uid", 1).start()
    shown = [
        right,
        Material(wrong.token, right.certificate, wrong.key),
        Material(right.token, wrong.certificate, right.key),
    ]
    for material in shown:
        await exchange(driver, material)
    await driver.stop()
    await exchange(driver, right)
    records = [f"{vars(r)} {r.getMessage()} {r.exc_text}" for r in caplog.records]
    assert records
    for secret in (right.token, wrong.token, *keys(right), *keys(wrong)):
        assert not [r for r in records if secret in r]


async def exchange(driver: FakeDriver, material: Material) -> None:
    """Some polls and a command; whatever goes wrong is logged with its trace."""

    async def credentials(*_: Any) -> DriverCredentials:
        return DriverCredentials(material.token, material.certificate)

    drivers = DriverConnections(
        credentials, lambda *_: None, jobs=lambda: 1, term=lambda: 1, port=driver.port
    )
    drivers.follow("uid", "shop", "orders", "orders-driver-1", HOST, 1)
    try:
        await drivers.terminate("uid", TerminationRequest("stop-1-1", 1, Mode.STOP))
    except StreamJobError:
        log.exception("with %r, %s", material, drivers)
    with contextlib.suppress(StreamJobError):
        await drivers.complete("uid", 1, 1)
    await drivers.close()


def keys(material: Material) -> list[str]:
    """The lines of the private key."""
    return [line for line in material.key.splitlines() if "PRIVATE" not in line]
