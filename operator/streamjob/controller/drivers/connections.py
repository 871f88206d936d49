"""Connections to drivers: one `DriverConnection` for each live driver, and what all connections share.

A connection takes about 50 KB. A driver has one or two of them, and all share what they can (ADR 18).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp

from ...protocol.formats import codec
from ...protocol.messages.commands import (
    CONTROL_PORT,
    Completed,
    ExecutorsRequest,
    RecordsRequest,
    SavepointDeletion,
    SavepointRequest,
    TerminationRequest,
)
from ...protocol.messages.driver_config import Gate
from ...protocol.messages.driver_status import DriverStatus
from ..rules.actions import completed_token
from . import connection as connection_module
from .connection import DriverConnection, DriverUnreachable, DriverView
from .credentials import DriverCredentials

# Jobs per second that are reconciled only for their figures: each costs 3 reads and a write.
FIGURES_RATE = 4.0
MANY = 200  # jobs; up to here each driver has a spare connection for commands, above it a command opens one


def open_session() -> aiohttp.ClientSession:
    """Open the session for all drivers. Each has its own address, so none takes another's connections."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0, limit_per_host=4, keepalive_timeout=2 * connection_module.POLL_SECONDS
        ),
        auto_decompress=False,
        trust_env=False,
    )


class DriverConnections:
    """All drivers, by the uid of their job.

    :param credentials: reads the Secret of a job, given its namespace and name.
    :param changed: called with a job's namespace and name when its driver has news.
    :param jobs: returns the number of jobs, with or without a driver.
    :param term: returns the term in which we lead now. Each call carries it, so a driver that has answered us
        refuses earlier controllers.
    :param session: opens the session for all requests to drivers.
    """

    def __init__(
        self,
        credentials: Callable[[str, str], Awaitable[DriverCredentials]],
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
        self._connections: dict[str, DriverConnection] = {}
        self._standbys: dict[str, DriverConnection] = {}
        self._last_statuses: dict[str, DriverStatus] = {}

    def follow(self, uid: str, namespace: str, job: str, pod: str, ip: str | None, epoch: int) -> DriverView:
        """Follow this driver from now on, and no earlier driver of the job.

        :returns: what is known of the driver; an empty view while its pod has no address.
        """
        if uid in self._standbys and self._standbys[uid].pod == pod:
            self.forget(uid)
            self._connections[uid] = self._standbys.pop(uid)  # its epoch has begun
        return self._follow(self._connections, uid, namespace, job, pod, ip, epoch)

    def follow_standby(
        self, uid: str, namespace: str, job: str, pod: str, ip: str | None, epoch: int
    ) -> DriverView:
        """As `follow`, beside it: a prepared driver whose epoch has not begun."""
        return self._follow(self._standbys, uid, namespace, job, pod, ip, epoch)

    def forget_standby(self, uid: str) -> None:
        """Close the connection to the job's prepared driver, if there is one."""
        if (connection := self._standbys.pop(uid, None)) is not None:
            connection.close()

    def _follow(
        self,
        among: dict[str, DriverConnection],
        uid: str,
        namespace: str,
        job: str,
        pod: str,
        ip: str | None,
        epoch: int,
    ) -> DriverView:
        connection = among.get(uid)
        if connection is not None and (connection.pod, connection.ip) != (pod, ip):
            (self.forget if among is self._connections else self.forget_standby)(uid)
            connection = None
        if connection is None:
            if ip is None:
                return DriverView()
            changed = lambda: self._changed(namespace, job)  # noqa: E731
            credentials = lambda: self._credentials(namespace, job)  # noqa: E731
            self._session = self._session or self._open_session()
            connection = DriverConnection(
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
            among[uid] = connection
        return connection.view()

    async def first_status(self, uid: str, *, standby: bool = False) -> DriverView:
        """Wait a moment for the first status of a driver that we have only just begun to follow.

        Otherwise a controller that takes over would report for each job that its driver has not answered yet,
        and correct that a moment later.
        """
        if (connection := (self._standbys if standby else self._connections).get(uid)) is None:
            return DriverView()
        await connection.first_status()
        return connection.view()

    def last_status(self, uid: str, epoch: int) -> DriverStatus | None:
        """Return the last status of this epoch's driver, kept since `forget`; None if there is none."""
        status = self._last_statuses.get(uid)
        return status if status is not None and status.epoch == epoch else None

    def forget(self, uid: str) -> None:
        """Close the connection to the job's driver, and keep the driver's last status."""
        if (connection := self._connections.pop(uid, None)) is not None:
            if connection.status is not None:
                self._last_statuses[uid] = connection.status
            connection.close()

    def forget_job(self, uid: str) -> None:
        """Close the connection and drop the last status: the job is gone."""
        self.forget(uid)
        self.forget_standby(uid)
        self._last_statuses.pop(uid, None)

    async def open(self, uid: str, gate: Gate) -> None:
        """Open the gate of the job's driver of this epoch.

        :raises DriverUnreachable:
        :raises DriverRefused:
        """
        await self._connection(uid, gate.epoch).put("/v1/gate", codec.dumps(gate), gate.token)

    async def terminate(self, uid: str, request: TerminationRequest) -> None:
        """Send the request.

        :raises DriverUnreachable:
        :raises DriverRefused:
        """
        await self._connection(uid).put("/v1/termination", codec.dumps(request), request.request_id)

    async def savepoint(self, uid: str, request: SavepointRequest) -> None:
        """Send the request.

        :raises DriverUnreachable:
        :raises DriverRefused:
        """
        await self._connection(uid).put("/v1/savepoint", codec.dumps(request), request.request_id)

    async def executors(self, uid: str, request: ExecutorsRequest) -> None:
        """Send the request.

        :raises DriverUnreachable:
        :raises DriverRefused:
        """
        await self._connection(uid).put("/v1/executors", codec.dumps(request), request.token)

    async def delete(self, uid: str, deletion: SavepointDeletion, token: str) -> None:
        """Send the deletion.

        :raises DriverUnreachable:
        :raises DriverRefused:
        """
        await self._connection(uid).put("/v1/deletions", codec.dumps(deletion), token)

    async def ask_for_records(self, uid: str, request: RecordsRequest) -> None:
        """Send the request.

        :raises DriverUnreachable:
        :raises DriverRefused:
        """
        await self._connection(uid).put("/v1/records", codec.dumps(request), request.token)

    async def complete(self, uid: str, checkpoint: int, epoch: int) -> None:
        """Tell the driver that the index has the checkpoint.

        :raises DriverUnreachable:
        :raises DriverRefused:
        """
        path = f"/v1/checkpoints/{checkpoint}/completed"
        await self._connection(uid).put(path, codec.dumps(Completed(epoch)), completed_token(checkpoint))

    def _rest(self) -> float:
        """Seconds between two reconciles of a job for its figures alone: the more drivers, the longer."""
        return max(connection_module.POLL_SECONDS, len(self._connections) / FIGURES_RATE)

    def _many(self) -> bool:
        """Whether there are many drivers, judged by the jobs.

        A starting controller knows the jobs before their drivers, and would take the first drivers for few.
        """
        return self._jobs() > MANY

    def _connection(self, uid: str, epoch: int | None = None) -> DriverConnection:
        """The connection to the job's driver, or to the prepared one if that is the driver of `epoch`."""
        connection, standby = self._connections.get(uid), self._standbys.get(uid)
        if standby is not None and standby.epoch == epoch:
            return standby
        if connection is None:
            raise DriverUnreachable("the driver has no address yet")
        return connection

    async def close(self) -> None:
        connections = [*self._connections.values(), *self._standbys.values()]
        for connection in connections:
            connection.close()
        closing = [connection.closed for connection in connections]
        self._connections.clear()
        self._standbys.clear()
        self._last_statuses.clear()
        await asyncio.gather(*closing, return_exceptions=True)
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
