"""A driver as the controller sees it: a real HTTPS server that speaks `protocol.messages`, without Spark."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from streamjob.controller.objects.certs import Material
from streamjob.protocol.formats import codec
from streamjob.protocol.messages.commands import (
    TERM_HEADER,
    Completed,
    ExecutorsRequest,
    RecordsRequest,
    SavepointDeletion,
    SavepointRequest,
    TerminationRequest,
)
from streamjob.protocol.messages.driver_config import Gate
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    DriverStatus,
    ExecutorsStatus,
    KnownRecords,
    Problem,
    SavepointStatus,
)

HOST = "127.0.0.1"
Handler = Callable[[web.Request], Awaitable[web.Response]]


class FakeDriver:
    """:ivar delay: seconds by which each answer is late.
    :ivar commands: all commands that it accepted, in order.
    :ivar term: the latest term of a controller that it knows.
    :ivar holds: the path of the command to hold back. `requested` is set when the command comes; the driver
        continues when `may_answer` is set.
    :ivar refused: paths of the commands of an earlier term.
    """

    def __init__(self, material: Material, uid: str, epoch: int, *, host: str = HOST, port: int = 0) -> None:
        self.material, self.epoch = material, epoch
        self.host, self.port = host, port
        self.status = DriverStatus(1, uid, epoch, DriverPhase.RUNNING)
        self.delay = 0.0
        self.term = 0
        self.holds = "/v1/termination"
        self.refused: list[str] = []
        self.requested, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()
        self.commands: list[Any] = []
        self.connections: set[Any] = set()
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def start(self) -> FakeDriver:
        app = web.Application()
        app.router.add_get("/v1/status", self._status)
        for path, kind, changes in (
            ("gate", Gate, lambda c, _: {"phase": DriverPhase.STARTING}),
            ("termination", TerminationRequest, lambda c, _: {"phase": DriverPhase.TERMINATING}),
            ("savepoint", SavepointRequest, lambda c, _: {"savepoint": SavepointStatus(c.request_id)}),
            (
                "executors",
                ExecutorsRequest,
                lambda c, _: {"executors": ExecutorsStatus(c.least, c.most, wanted=c.least)},
            ),
            ("deletions", SavepointDeletion, lambda c, _: {"deleted": c.savepoints}),
            ("records", RecordsRequest, lambda c, _: {"known": KnownRecords(c.reached, self.status.durable)}),
            ("checkpoints/{n}/completed", Completed, self._completed),
        ):
            app.router.add_put(f"/v1/{path}", self._obey(kind, changes))
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
        if request.path == self.holds:
            self.requested.set()
            await self.may_answer.wait()
        await asyncio.sleep(self.delay)
        if request.headers.get("Authorization") != f"Bearer {self.material.token}":
            return _answer(401, Problem("Unauthorized", "not this job's token"))
        term = int(request.headers[TERM_HEADER])
        if request.method != "GET" and term < self.term:
            self.refused.append(request.path)
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

    def _obey(self, kind: type[Any], changes: Callable[[Any, web.Request], dict[str, Any]]) -> Handler:
        """Take a command of this kind: if it is for this epoch, it is recorded, and the status changes."""

        async def handler(request: web.Request) -> web.Response:
            if refusal := await self._admit(request):
                return refusal
            command = codec.loads(kind, await request.read())
            if command.epoch != self.epoch:
                return _answer(412, Problem("StaleEpoch", "another epoch"))
            changed = changes(command, request)
            self.commands.append(_number(request) if kind is Completed else command)
            await self.change(**changed)
            return _answer(202, self.status)

        return handler

    def _completed(self, _: Completed, request: web.Request) -> dict[str, Any]:
        """After the checkpoint of its termination it ends; after an on-demand savepoint it continues."""
        completed = self.status.savepoint.completed if self.status.savepoint else None
        runs_on = completed is not None and completed.checkpoint == _number(request)
        return {} if runs_on else {"phase": DriverPhase.TERMINATED}


def _number(request: web.Request) -> int:
    return int(request.match_info["n"])


def _answer(code: int, body: Any) -> web.Response:
    return web.Response(status=code, text=codec.dumps(body), content_type="application/json")
