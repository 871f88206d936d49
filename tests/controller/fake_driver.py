"""A driver as the controller meets it: a real HTTPS server that speaks `protocol.messages`, without Spark."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from streamjob.controller.certs import Material
from streamjob.protocol import codec
from streamjob.protocol.messages import (
    TERM_HEADER,
    Completed,
    DriverPhase,
    DriverStatus,
    Problem,
    SavepointRequest,
    SavepointStatus,
    TerminationRequest,
)

HOST = "127.0.0.1"


class FakeDriver:
    """`delay`: seconds by which each answer is late. `commands`: what it was told, in order, each time. `term`: the latest of a
    controller that it heard of. `asked`: a request to end is on its way; it arrives when it `may_answer`."""

    def __init__(self, material: Material, uid: str, epoch: int, *, host: str = HOST, port: int = 0) -> None:
        self.material, self.epoch = material, epoch
        self.host, self.port = host, port
        self.status = DriverStatus(1, uid, epoch, DriverPhase.RUNNING)
        self.delay = 0.0
        self.term = 0
        self.asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.commands: list[Any] = []
        self.connections: set[Any] = set()
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def start(self) -> FakeDriver:
        app = web.Application()
        app.router.add_get("/v1/status", self._status)
        app.router.add_put("/v1/termination", self._terminate)
        app.router.add_put("/v1/savepoint", self._savepoint)
        app.router.add_put("/v1/checkpoints/{n}/completed", self._complete)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "crt").write_text(self.material.certificate)
            (Path(folder) / "key").write_text(self.material.key)
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(Path(folder) / "crt", Path(folder) / "key")
        site = web.TCPSite(self._runner, self.host, self.port, ssl_context=tls)
        await site.start()
        server = site._server
        assert isinstance(server, asyncio.Server)
        self.port = server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def change(self, **fields: Any) -> None:
        async with self._changed:
            self.status = replace(self.status, version=self.status.version + 1, **fields)
            self._changed.notify_all()

    async def _admit(self, request: web.Request) -> web.Response | None:
        self.connections.add(request.transport)
        await asyncio.sleep(self.delay)
        if request.headers.get("Authorization") != f"Bearer {self.material.token}":
            return _answer(401, Problem("Unauthorized", "not this job's token"))
        term = int(request.headers[TERM_HEADER])
        if request.method != "GET" and term < self.term:
            refusal = _answer(412, Problem("StaleTerm", "an earlier term"))
            refusal.headers[TERM_HEADER] = str(self.term)
            return refusal
        self.term = max(self.term, term)
        return None

    async def _status(self, request: web.Request) -> web.Response:
        if refusal := await self._admit(request):
            return refusal
        after, timeout = int(request.query["after"]), float(request.query["timeout"])
        async with self._changed:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait_for(lambda: self.status.version > after), timeout)
        return _answer(200, self.status)

    async def _terminate(self, request: web.Request) -> web.Response:
        self.asked.set()
        await self.may_answer.wait()
        if refusal := await self._admit(request):
            return refusal
        command = codec.loads(TerminationRequest, await request.read())
        if command.epoch != self.epoch:
            return _answer(412, Problem("StaleEpoch", "another epoch"))
        self.commands.append(command)
        await self.change(phase=DriverPhase.TERMINATING)
        return _answer(202, self.status)

    async def _savepoint(self, request: web.Request) -> web.Response:
        if refusal := await self._admit(request):
            return refusal
        command = codec.loads(SavepointRequest, await request.read())
        if command.epoch != self.epoch:
            return _answer(412, Problem("StaleEpoch", "another epoch"))
        self.commands.append(command)
        await self.change(savepoint=SavepointStatus(command.request_id))
        return _answer(202, self.status)

    async def _complete(self, request: web.Request) -> web.Response:
        if refusal := await self._admit(request):
            return refusal
        body = codec.loads(Completed, await request.read())
        if body.epoch != self.epoch:
            return _answer(412, Problem("StaleEpoch", "another epoch"))
        self.commands.append(int(request.match_info["n"]))
        await self.change(phase=DriverPhase.TERMINATED)
        return _answer(202, self.status)


def _answer(code: int, body: Any) -> web.Response:
    return web.Response(status=code, text=codec.dumps(body), content_type="application/json")
