"""Talking to drivers: one session and one long poll for each that lives.

TLS with exactly the certificate of the job's Secret, and its token. The long poll keeps the last status at hand, so
that a reconcile costs no call to the driver, and wakes the job when the status' version grows. It is also the first
contact: it tries until the driver answers. Answers of another job or epoch are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from ..protocol import codec
from ..protocol.errors import FormatError, StreamJobError
from ..protocol.messages import (
    CONTROL_PORT,
    TERM_HEADER,
    TLS_NAME,
    Completed,
    DriverStatus,
    Problem,
    RecordsRequest,
    SavepointDeletion,
    SavepointRequest,
    TerminationRequest,
)

log = logging.getLogger(__name__)

POLL_SECONDS = 25.0  # an unchanged status is asked for again after this
COMMAND_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=5)
POLL_TIMEOUT = aiohttp.ClientTimeout(total=POLL_SECONDS + 10, connect=5)
RETRY_FIRST, RETRY_MAX = 0.1, 2.0
SILENT_AFTER = 30.0  # seconds without an answer until the job is told
ANSWER_LIMIT = 1 << 20


class DriverUnreachable(StreamJobError):
    """It does not answer, or not in a way that can be trusted. It may have taken the command all the same."""

    reason = "DriverUnreachable"
    retryable = True


class DriverRefused(StreamJobError):
    """It answered and said no. `term`: of a later controller, if that is why, else 0."""

    reason = "DriverRefused"
    retryable = True

    def __init__(self, code: int, problem: Problem, term: int = 0) -> None:
        super().__init__(
            f"the driver answered {code} {problem.reason}: {problem.message}", remedy=problem.remedy
        )
        self.code = code
        self.term = term


@dataclass(frozen=True)
class Credentials:
    """The job's Secret: what we show (token) and what we accept (certificate, PEM)."""

    token: str = field(repr=False)
    certificate: str


@dataclass(frozen=True)
class View:
    """What is known of a driver now."""

    status: DriverStatus | None = None
    silent: float = 0.0
    acknowledged: frozenset[str] = frozenset()


def open_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=4, keepalive_timeout=60),
        auto_decompress=False,
        trust_env=False,
    )


class Drivers:
    """All drivers, by the uid of their job.

    :param credentials: namespace and job → its Secret.
    :param changed: called with namespace and job when there is news of its driver.
    :param term: in which we lead now. Each call shows it, so a driver that has answered us heeds no earlier controller.
    :param session: opens what the requests to one driver go through.
    """

    def __init__(
        self,
        credentials: Callable[[str, str], Awaitable[Credentials]],
        changed: Callable[[str, str], None],
        *,
        term: Callable[[], int],
        port: int = CONTROL_PORT,
        session: Callable[[], aiohttp.ClientSession] = open_session,
    ) -> None:
        self._credentials = credentials
        self._changed = changed
        self._term = term
        self._port = port
        self._session = session
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
            line = Line(uid, pod, ip, epoch, self._port, credentials, changed, self._term, self._session())
            self._lines[uid] = line
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


def completed_token(checkpoint: int) -> str:
    """How a confirmed checkpoint stands among the acknowledged commands."""
    return f"checkpoint-{checkpoint}-completed"


class Line:
    """The connection to one driver."""

    def __init__(
        self,
        uid: str,
        pod: str,
        ip: str,
        epoch: int,
        port: int,
        credentials: Callable[[], Awaitable[Credentials]],
        changed: Callable[[], None],
        term: Callable[[], int],
        session: aiohttp.ClientSession,
    ) -> None:
        self.uid, self.pod, self.ip, self.epoch = uid, pod, ip, epoch
        host = f"[{ip}]" if ":" in ip else ip
        self._base = f"https://{host}:{port}"
        self._credentials = credentials
        self._changed = changed
        self._term = term
        self.status: DriverStatus | None = None
        self._acknowledged: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._trust: tuple[str, ssl.SSLContext] | None = None
        # One session for as long as the driver lives, so that its connections stay open from call to call.
        self._session = session
        self.closed: asyncio.Task[None] = asyncio.create_task(self._poll(), name=f"poll-{pod}")

    def view(self) -> View:
        silent = self._loop.time() - self._heard
        return View(self.status, silent if silent >= SILENT_AFTER else 0.0, frozenset(self._acknowledged))

    def close(self) -> None:
        self.closed.cancel()

    async def put(self, path: str, body: str, token: str) -> None:
        self._take(await self._call("PUT", path, body, COMMAND_TIMEOUT))
        self._acknowledged.add(token)

    async def _poll(self) -> None:
        """Ask for ever, at once after each answer, with a growing pause after each failure."""
        pause, told = RETRY_FIRST, False
        try:
            while True:
                after = self.status.version if self.status else -1
                path = f"/v1/status?after={after}&timeout={POLL_SECONDS}"
                try:
                    if self.status is None:
                        await self._second_connection()
                    news = self._take(await self._call("GET", path, None, POLL_TIMEOUT))
                except StreamJobError as e:
                    log.debug("%s: %s", self.pod, e)
                    if not told and self.view().silent:
                        told = True
                        self._changed()
                    await asyncio.sleep(pause)
                    pause = min(pause * 1.5, RETRY_MAX)
                    continue
                pause = RETRY_FIRST
                if news or told:
                    self._changed()
                told = False
        finally:
            with contextlib.suppress(Exception):
                await self._session.close()

    async def _second_connection(self) -> None:
        """A command finds the first one taken by the long poll, and would wait for a handshake with a driver that is busy.
        The pool uses both in turn, so neither idles until it is closed."""
        path = "/v1/status?after=-1&timeout=0"
        await asyncio.gather(*(self._call("GET", path, None, COMMAND_TIMEOUT) for _ in range(2)))

    def _take(self, text: bytes) -> bool:
        """Keep the answer if it is this driver's and newest. True if the job should look at it."""
        try:
            status = codec.loads(DriverStatus, text, limit=ANSWER_LIMIT)
        except FormatError as e:
            raise DriverUnreachable(f"the driver's answer cannot be read: {e.message}") from None
        if (status.job_uid, status.epoch) != (self.uid, self.epoch):
            raise DriverUnreachable(
                f"at {self.ip} answers epoch {status.epoch} of job {status.job_uid[:64]!r}"
            )
        self._heard = self._loop.time()
        if self.status is not None and status.version < self.status.version:
            return False
        # Figures drift without a new version; a poll that ran its time brings them.
        news = status != self.status
        self.status = status
        return news

    async def _call(self, method: str, path: str, body: str | None, timeout: aiohttp.ClientTimeout) -> bytes:
        try:
            shown, accepted = await self._credentials_in_use()
            async with self._session.request(
                method,
                self._base + path,
                data=body,
                headers={
                    "Authorization": f"Bearer {shown}",
                    "Content-Type": "application/json",
                    TERM_HEADER: str(self._term()),
                },
                ssl=accepted,
                server_hostname=TLS_NAME,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                text = await _read(answer, ANSWER_LIMIT)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as e:
            if isinstance(e, aiohttp.ClientSSLError):
                self._trust = None
            raise DriverUnreachable(
                f"the driver at {self.ip} does not answer: {type(e).__name__} {e}".rstrip()
            ) from None
        if answer.status in (200, 202):
            return text
        if answer.status == 401:
            self._trust = None  # the Secret may have been made anew: the next attempt reads it again
        try:
            problem = codec.loads(Problem, text)
        except FormatError:
            problem = Problem("Unknown", "")
        term = answer.headers.get(TERM_HEADER, "")
        raise DriverRefused(answer.status, problem, int(term) if term.isdigit() else 0)

    async def _credentials_in_use(self) -> tuple[str, ssl.SSLContext]:
        """The token to show and the only certificate to accept; kept, so that TLS sessions are resumed."""
        if self._trust is None:
            found = await self._credentials()
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            tls.minimum_version = ssl.TLSVersion.TLSv1_2
            # The one certificate is its own authority: nobody else's signature is worth anything here.
            tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            tls.load_verify_locations(cadata=found.certificate)
            self._trust = (found.token, tls)
        return self._trust


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, as far as we are willing to read it. :raises ValueError: it is longer."""
    chunks, size = [], 0
    async for chunk in answer.content.iter_chunked(1 << 16):
        size += len(chunk)
        if size > limit:
            raise ValueError(f"an answer above {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
