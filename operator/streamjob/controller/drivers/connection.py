"""The connection to one driver: a long poll, and the commands sent alongside it.

It uses TLS, accepts exactly the certificate in the job's Secret, and shows the Secret's token. The long poll
keeps the last status at hand, so that a reconcile costs no call to the driver, and enqueues the job when the
status version grows. It is also the first contact: it retries until the driver answers. Answers of another
job or epoch are dropped.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import aiohttp

from ...protocol.errors import FormatError, StreamJobError
from ...protocol.formats import codec
from ...protocol.messages.commands import FIGURES_HEADER, TERM_HEADER, TLS_NAME
from ...protocol.messages.driver_status import DriverStatus, Problem
from ..api_server.errors import KubeError
from .credentials import DriverCredentials

log = logging.getLogger(__name__)

POLL_SECONDS = 25.0  # the driver answers a poll after this, even if its status is unchanged
POLL_SECONDS_OF_MANY = 50.0  # with many jobs; a driver allows 60 at most
COMMAND_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=5)
RETRY_FIRST, RETRY_MAX = 0.1, 2.0
SILENT_AFTER = 30.0  # seconds without an answer until the job is enqueued; plus what a longer poll adds
FIRST_ANSWER = 22.0  # the same for a driver that has never answered: users learn of it within half a minute
FIRST_STATUS = 1.0  # seconds that a reconcile waits for the first status of a new driver
ANSWER_LIMIT = 1 << 20


class DriverUnreachable(StreamJobError):
    """The driver does not answer, or its answer cannot be trusted. It may still have accepted the command."""

    reason = "DriverUnreachable"
    retryable = True


class DriverRefused(StreamJobError):
    """The driver refused the request. `term`: that of a later controller if that is the reason, else 0."""

    reason = "DriverRefused"
    retryable = True

    def __init__(self, code: int, problem: Problem, term: int = 0) -> None:
        super().__init__(
            f"the driver answered {code} {problem.reason}: {problem.message}", remedy=problem.remedy
        )
        self.code = code
        self.term = term


@dataclass(frozen=True)
class DriverView:
    """What is known about a driver now.

    :param status: its last status; None before the first answer.
    :param silent: seconds without an answer; 0 until the driver counts as silent.
    :param acknowledged: tokens of the commands that it has accepted.
    """

    status: DriverStatus | None = None
    silent: float = 0.0
    acknowledged: frozenset[str] = frozenset()


class DriverConnection:
    """The connection to one driver. It polls from its creation until `close`.

    :param credentials: reads the job's Secret.
    :param changed: called when the job should be reconciled.
    :param term: the term in which we lead; sent with each request.
    :param rest: seconds for which a status with an unchanged version does not enqueue the job.
    :param many: whether there are many jobs. The driver then has one connection only, that of the long poll,
        and each command opens its own.
    """

    def __init__(
        self,
        uid: str,
        pod: str,
        ip: str,
        epoch: int,
        port: int,
        credentials: Callable[[], Awaitable[DriverCredentials]],
        changed: Callable[[], None],
        term: Callable[[], int],
        rest: Callable[[], float],
        many: Callable[[], bool],
        session: aiohttp.ClientSession,
    ) -> None:
        self.uid, self.pod, self.ip, self.epoch = uid, pod, ip, epoch
        host = f"[{ip}]" if ":" in ip else ip
        self._base = f"https://{host}:{port}"
        self._credentials = credentials
        self._changed = changed
        self._term = term
        self._rest = rest
        self._many = many
        self._wait = POLL_SECONDS  # of the current long poll
        self._looked = -math.inf
        self.status: DriverStatus | None = None
        self._acknowledged: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._heard = self._opened = self._loop.time()
        self._waiter: asyncio.Future[None] | None = None
        self._trust: tuple[str, aiohttp.Fingerprint] | None = None
        self._session = session
        self.closed: asyncio.Task[None] = asyncio.create_task(self._poll(), name=f"poll-{pod}")

    def view(self) -> DriverView:
        silent = self._loop.time() - self._heard
        patience = FIRST_ANSWER if self.status is None else SILENT_AFTER + self._wait - POLL_SECONDS
        silent *= silent >= patience
        return DriverView(self.status, silent, frozenset(self._acknowledged))

    def close(self) -> None:
        self.closed.cancel()

    async def first_status(self) -> None:
        """Wait for the first status if the connection is new. The waiting reconcile sees it, so the job is
        not enqueued for it.
        """
        left = self._opened + FIRST_STATUS - self._loop.time()
        if self.status is None and left > 0:
            self._waiter = self._loop.create_future()
            try:
                await asyncio.wait([self._waiter], timeout=left)
            finally:
                self._waiter = None

    async def put(self, path: str, body: str, token: str) -> None:
        self._take(await self._call("PUT", path, body, COMMAND_TIMEOUT))
        self._acknowledged.add(token)

    async def _poll(self) -> None:
        """Poll until cancelled: again at once after each answer, after a growing pause on each failure."""
        pause, reported_silence = RETRY_FIRST, False
        while True:
            after = self.status.version if self.status else -1
            self._wait = POLL_SECONDS_OF_MANY if self._many() else POLL_SECONDS
            patience = aiohttp.ClientTimeout(total=self._wait + 10, connect=5)
            path = f"/v1/status?after={after}&timeout={self._wait}"
            try:
                if self.status is None and not self._many():
                    await self._second_connection()
                news = self._take(await self._call("GET", path, None, patience))
            except StreamJobError as e:
                log.debug("%s: %s", self.pod, e)
                if not reported_silence and self.view().silent:
                    reported_silence = True
                    self._changed()
                # Reading the Secret may fail because the API server throttles us: wait as long as it asks.
                rest = e.retry_after or 0.0 if isinstance(e, KubeError) else 0.0
                await asyncio.sleep(max(pause, rest))
                pause = min(pause * 1.5, RETRY_MAX)
                continue
            pause = RETRY_FIRST
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
            elif news or reported_silence:
                self._changed()
            reported_silence = False

    async def _second_connection(self) -> None:
        """Open a second connection, for commands. The long poll occupies the first one, so that a command
        would wait for a TLS handshake with a busy driver. The pool alternates between the two, so neither
        idles until it is closed.
        """
        path = "/v1/status?after=-1&timeout=0"
        await asyncio.gather(*(self._call("GET", path, None, COMMAND_TIMEOUT) for _ in range(2)))

    def _take(self, text: bytes) -> bool:
        """Keep the answer if it comes from this driver and is not older than the last one.

        :returns: whether the job should be reconciled.
        :raises DriverUnreachable: the answer is unreadable, or comes from another job or epoch.
        """
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
        # Progress figures change without a new version; a poll that runs out of time delivers them.
        grown = self.status is None or status.version > self.status.version
        drifted = status != self.status and self._heard - self._looked >= self._rest()
        self.status = status
        if grown or drifted:
            self._looked = self._heard
        return grown or drifted

    async def _call(self, method: str, path: str, body: str | None, timeout: aiohttp.ClientTimeout) -> bytes:
        try:
            shown, accepted = await self._credentials_in_use()
            headers = {
                "Authorization": f"Bearer {shown}",
                "Content-Type": "application/json",
                TERM_HEADER: str(self._term()),
                FIGURES_HEADER: "1",
            }
            if method == "PUT" and self._many():
                headers["Connection"] = "close"
            async with self._session.request(
                method,
                self._base + path,
                data=body,
                headers=headers,
                ssl=accepted,
                server_hostname=TLS_NAME,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                text = await _read(answer, ANSWER_LIMIT)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as e:
            foreign = isinstance(e, aiohttp.ServerFingerprintMismatch)
            if foreign or isinstance(e, aiohttp.ClientSSLError):
                self._trust = None
            why = "its certificate is not the job's" if foreign else f"{type(e).__name__} {e}"
            raise DriverUnreachable(f"the driver at {self.ip} does not answer: {why}".rstrip()) from None
        if answer.status in (200, 202):
            return text
        if answer.status == 401:
            self._trust = None  # the Secret may have been recreated: the next attempt reads it again
        try:
            problem = codec.loads(Problem, text)
        except FormatError:
            problem = Problem("Unknown", "")
        term = answer.headers.get(TERM_HEADER, "")
        raise DriverRefused(answer.status, problem, int(term) if term.isdigit() else 0)

    async def _credentials_in_use(self) -> tuple[str, aiohttp.Fingerprint]:
        """The token to show, and the only certificate to accept. The certificate is compared byte for byte
        before anything is sent. No signature counts, so no certificate authority is needed: one would need an
        SSL context for each job.
        """
        if self._trust is None:
            found = await self._credentials()
            pinned = hashlib.sha256(ssl.PEM_cert_to_DER_cert(found.certificate.strip())).digest()
            self._trust = (found.token, aiohttp.Fingerprint(pinned))
        return self._trust


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body, up to `limit` bytes.

    :raises ValueError: the body is longer.
    """
    chunks, size = [], 0
    async for chunk in answer.content.iter_chunked(1 << 16):
        size += len(chunk)
        if size > limit:
            raise ValueError(f"an answer above {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
