"""Talking to drivers: a line to each that lives, and what all lines share.

Each connection takes some 50 KB: a driver has one or two of them, and all share what they can (ADR 18).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

from ..protocol import codec
from ..protocol.messages import (
    CONTROL_PORT,
    Completed,
    DriverStatus,
    RecordsRequest,
    SavepointDeletion,
    SavepointRequest,
    TerminationRequest,
)
from . import line as lines
from .line import Credentials, DriverUnreachable, Line, View

# Jobs in a second that are looked at for nothing but figures: each costs 3 reads and a write.
FIGURES_RATE = 4.0
MANY = 200  # jobs; with fewer a driver has a connection for commands at hand, with more a command opens one


def open_session() -> aiohttp.ClientSession:
    """For all drivers; each has an address of its own, so that none takes another's connections."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, limit_per_host=4, keepalive_timeout=2 * lines.POLL_SECONDS),
        auto_decompress=False,
        trust_env=False,
    )


class Drivers:
    """All drivers, by the uid of their job.

    :param credentials: namespace and job → its Secret.
    :param changed: called with namespace and job when there is news of its driver.
    :param jobs: how many there are, with a driver or not.
    :param term: in which we lead now. Each call shows it, so a driver that has answered us heeds no earlier controller.
    :param session: opens what the requests to drivers go through.
    """

    def __init__(
        self,
        credentials: Callable[[str, str], Awaitable[Credentials]],
        changed: Callable[[str, str], None],
        *,
        jobs: Callable[[], int],
        term: Callable[[], int],
        port: int = CONTROL_PORT,
        session: Callable[[], aiohttp.ClientSession] = open_session,
    ) -> None:
        self._credentials = credentials
        self._changed = changed
        self._jobs = jobs
        self._term = term
        self._port = port
        self._open_session = session
        self._session: aiohttp.ClientSession | None = None
        self._lines: dict[str, Line] = {}
        self._last_words: dict[str, DriverStatus] = {}

    def follow(self, uid: str, namespace: str, job: str, pod: str, ip: str | None, epoch: int) -> View:
        """Keep in touch with this driver from now on (and with no earlier one of the job)."""
        line = self._lines.get(uid)
        if line is not None and (line.pod, line.ip) != (pod, ip):
            self.forget(uid)
            line = None
        if line is None:
            if ip is None:
                return View()
            changed = lambda: self._changed(namespace, job)  # noqa: E731
            credentials = lambda: self._credentials(namespace, job)  # noqa: E731
            self._session = self._session or self._open_session()
            line = Line(
                uid,
                pod,
                ip,
                epoch,
                self._port,
                credentials,
                changed,
                self._term,
                self._rest,
                self._many,
                self._session,
            )
            self._lines[uid] = line
        return line.view()

    async def first_word(self, uid: str) -> View:
        """Of a driver that we follow since just now: a controller that takes over would otherwise say of each job that its
        driver has not answered yet, and take it back a moment later."""
        if (line := self._lines.get(uid)) is None:
            return View()
        await line.first_word()
        return line.view()

    def last_word(self, uid: str, epoch: int) -> DriverStatus | None:
        """What the driver of this epoch said last, also after its pod is gone."""
        status = self._last_words.get(uid)
        return status if status is not None and status.epoch == epoch else None

    def forget(self, uid: str) -> None:
        """The driver lives no more."""
        if (line := self._lines.pop(uid, None)) is not None:
            if line.status is not None:
                self._last_words[uid] = line.status
            line.close()

    def forget_job(self, uid: str) -> None:
        """The job lives no more."""
        self.forget(uid)
        self._last_words.pop(uid, None)

    async def terminate(self, uid: str, request: TerminationRequest) -> None:
        """:raises DriverUnreachable: :raises DriverRefused:"""
        await self._line(uid).put("/v1/termination", codec.dumps(request), request.request_id)

    async def savepoint(self, uid: str, request: SavepointRequest) -> None:
        """:raises DriverUnreachable: :raises DriverRefused:"""
        await self._line(uid).put("/v1/savepoint", codec.dumps(request), request.request_id)

    async def delete(self, uid: str, deletion: SavepointDeletion, token: str) -> None:
        """:raises DriverUnreachable: :raises DriverRefused:"""
        await self._line(uid).put("/v1/deletions", codec.dumps(deletion), token)

    async def ask_for_records(self, uid: str, request: RecordsRequest) -> None:
        """:raises DriverUnreachable: :raises DriverRefused:"""
        await self._line(uid).put("/v1/records", codec.dumps(request), request.token)

    async def complete(self, uid: str, checkpoint: int, epoch: int) -> None:
        """Tell it that the index has the checkpoint. :raises DriverUnreachable: :raises DriverRefused:"""
        path = f"/v1/checkpoints/{checkpoint}/completed"
        await self._line(uid).put(path, codec.dumps(Completed(epoch)), completed_token(checkpoint))

    def _rest(self) -> float:
        """Seconds for which a job is not looked at for its figures alone: the more jobs, the longer."""
        return max(lines.POLL_SECONDS, len(self._lines) / FIGURES_RATE)

    def _many(self) -> bool:
        """By the jobs, which a controller that starts knows before their drivers: of these the first would be taken for few."""
        return self._jobs() > MANY

    def _line(self, uid: str) -> Line:
        line = self._lines.get(uid)
        if line is None:
            raise DriverUnreachable("the driver has no address yet")
        return line

    async def close(self) -> None:
        for uid in list(self._lines):
            self._lines[uid].close()
        closing = [line.closed for line in self._lines.values()]
        self._lines.clear()
        self._last_words.clear()
        await asyncio.gather(*closing, return_exceptions=True)
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


def completed_token(checkpoint: int) -> str:
    """How a confirmed checkpoint stands among the acknowledged commands."""
    return f"checkpoint-{checkpoint}-completed"
