"""The control endpoint: serves the calls of `protocol.messages` over TLS, with a bearer token."""

from __future__ import annotations

import hmac
import os
import re
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from ....protocol.engine.coordinator import TerminationConflict
from ....protocol.errors import FormatError, StreamJobError
from ....protocol.formats import codec
from ....protocol.messages.commands import (
    FIGURES_HEADER,
    RECORD_LIMIT,
    REQUEST_LIMIT,
    TERM_HEADER,
    Completed,
    ExecutorsRequest,
    RecordsRequest,
    SavepointDeletion,
    SavepointRequest,
    TerminationRequest,
)
from ....protocol.messages.driver_config import Gate
from ....protocol.messages.driver_status import DriverStatus, Problem
from ...driver import threads
from ...driver.start.gate_keeper import GateConflict
from ...driver.status_board import StatusBoard
from ..config import Credentials
from .unauthenticated import UnauthenticatedConnections

LONG_POLL_MAX = 60.0  # seconds
IO_TIMEOUT = 75.0  # seconds without a byte before a connection is dropped; longer than the longest poll
NO_HEADERS: Mapping[str, str] = {}


class StaleEpoch(StreamJobError):
    """The command comes from a controller that knows another attempt of this job (V12)."""

    reason = "StaleEpoch"


class StaleTerm(StreamJobError):
    """The command comes from a controller that a later one has replaced (V12).

    :param term: the latest term that the driver knows.
    """

    reason = "StaleTerm"

    def __init__(self, message: str, term: int) -> None:
        super().__init__(message)
        self.term = term


class Commands(Protocol):
    """The driver's commands. All are idempotent and return at once."""

    def open(self, gate: Gate) -> None: ...

    def terminate(self, request: TerminationRequest) -> None: ...

    def savepoint(self, request: SavepointRequest) -> None: ...

    def change_executors(self, least: int, most: int) -> None: ...

    def delete(self, savepoints: tuple[str, ...]) -> None: ...

    def tell_records(self, reached: int) -> None: ...

    def complete(self, checkpoint: int) -> None: ...


class ControlServer(ThreadingHTTPServer):
    """Serves until the process ends, with one thread per connection."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(
        self,
        address: tuple[str, int],
        credentials: Credentials,
        epoch: int,
        board: StatusBoard,
        commands: Commands,
    ) -> None:
        super().__init__(address, _Handler)
        self.token = credentials.token
        self.epoch = epoch
        self.board = board
        self.commands = commands
        self.term = 0  # the latest term that a controller has sent
        # Commands are admitted and carried out under this lock: no command of an earlier term follows one of
        # a later.
        self.fence = threading.Lock()
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._tls.load_cert_chain(credentials.certificate, credentials.key)
        self._strangers = UnauthenticatedConnections()
        self._served = threading.local()  # `.connection`: the one that this thread serves

    def start(self) -> None:
        threads.start(self.serve_forever, "streamjob-control")

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # The handshake runs here, in the connection's own thread, so that a stalled client blocks nobody
        # else. TLS wraps the connection in another socket object. This duplicate stays open to end the
        # connection from outside.
        self._served.connection = handle = socket.socket(fileno=os.dup(request.fileno()))
        self._strangers.enter(handle)
        try:
            request.settimeout(IO_TIMEOUT)
            try:
                tls = self._tls.wrap_socket(request, server_side=True)
            except (OSError, ValueError):
                self.shutdown_request(request)
                return
            super().process_request_thread(tls, client_address)
        finally:
            self._strangers.leave(handle)
            handle.close()

    def knows(self) -> None:
        """The connection of this thread has shown the token: its time is no longer limited to GREETING."""
        self._strangers.leave(self._served.connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a lost client is not worth a traceback, and our own errors are sent as answers."""


class _Handler(BaseHTTPRequestHandler):
    server: ControlServer
    protocol_version = "HTTP/1.1"
    server_version = "streamjob"
    sys_version = ""
    disable_nagle_algorithm = True
    wbufsize = -1  # buffered, so that an answer is one segment

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        if url.path != "/v1/status":
            return self._refuse(HTTPStatus.NOT_FOUND, "NotFound", "no such path")
        return self._guarded(lambda: self._status(url.query))

    def do_PUT(self) -> None:
        path = urllib.parse.urlsplit(self.path).path
        parts = path.strip("/").split("/")
        if path == "/v1/gate":
            return self._guarded(self._open)
        if path == "/v1/termination":
            return self._guarded(self._terminate)
        if path == "/v1/savepoint":
            return self._guarded(self._savepoint)
        if path == "/v1/executors":
            return self._guarded(self._executors)
        if path == "/v1/deletions":
            return self._guarded(self._delete)
        if path == "/v1/records":
            return self._guarded(self._records)
        if (
            len(parts) == 4
            and parts[:2] == ["v1", "checkpoints"]
            and parts[3] == "completed"
            and parts[2].isdigit()
        ):
            return self._guarded(lambda: self._complete(int(parts[2])))
        return self._refuse(HTTPStatus.NOT_FOUND, "NotFound", "no such path")

    def _status(self, query: str) -> None:
        fields = dict(urllib.parse.parse_qsl(query))
        try:
            after, timeout = int(fields.get("after", "-1")), float(fields.get("timeout", "0"))
        except ValueError:
            raise FormatError("after and timeout are numbers") from None
        if TERM_HEADER in self.headers:
            with self.server.fence:
                self.server.term = max(self.server.term, self._term())
        status = self.server.board.wait(after, min(max(timeout, 0.0), LONG_POLL_MAX))
        self._answer_status(HTTPStatus.OK, status)

    def _open(self) -> None:
        gate = codec.loads(Gate, self._body(RECORD_LIMIT), limit=RECORD_LIMIT)
        self._command(gate.epoch, lambda: self.server.commands.open(gate))
        self._answer_status(HTTPStatus.ACCEPTED, self.server.board.status)

    def _terminate(self) -> None:
        request = codec.loads(TerminationRequest, self._body(), limit=REQUEST_LIMIT)
        self._command(request.epoch, lambda: self.server.commands.terminate(request))
        self._answer_status(HTTPStatus.ACCEPTED, self.server.board.status)

    def _savepoint(self) -> None:
        request = codec.loads(SavepointRequest, self._body(), limit=REQUEST_LIMIT)
        self._command(request.epoch, lambda: self.server.commands.savepoint(request))
        self._answer_status(HTTPStatus.ACCEPTED, self.server.board.status)

    def _executors(self) -> None:
        body = codec.loads(ExecutorsRequest, self._body(), limit=REQUEST_LIMIT)
        self._command(body.epoch, lambda: self.server.commands.change_executors(body.least, body.most))
        self._answer_status(HTTPStatus.ACCEPTED, self.server.board.status)

    def _delete(self) -> None:
        body = codec.loads(SavepointDeletion, self._body(), limit=REQUEST_LIMIT)
        self._command(body.epoch, lambda: self.server.commands.delete(body.savepoints))
        self._answer_status(HTTPStatus.ACCEPTED, self.server.board.status)

    def _records(self) -> None:
        body = codec.loads(RecordsRequest, self._body(), limit=REQUEST_LIMIT)
        self._command(body.epoch, lambda: self.server.commands.tell_records(body.reached))
        self._answer_status(HTTPStatus.ACCEPTED, self.server.board.status)

    def _complete(self, number: int) -> None:
        body = codec.loads(Completed, self._body(), limit=REQUEST_LIMIT)
        self._command(body.epoch, lambda: self.server.commands.complete(number))
        self._answer_status(HTTPStatus.ACCEPTED, self.server.board.status)

    def _command(self, epoch: int, carry_out: Callable[[], None]) -> None:
        server, term = self.server, self._term()
        with server.fence:
            if term < server.term:
                raise StaleTerm(
                    f"the command is of term {term}, a controller leads in {server.term}", server.term
                )
            server.term = term
            if epoch != server.epoch:
                raise StaleEpoch(f"the command is for epoch {epoch}, this driver is epoch {server.epoch}")
            carry_out()

    def _term(self) -> int:
        text = self.headers.get(TERM_HEADER, "")
        if not re.fullmatch("[1-9][0-9]{0,17}", text):
            raise FormatError(f"the header {TERM_HEADER} is the number of the controller's term")
        return int(text)

    def _guarded(self, call: Callable[[], None]) -> None:
        """Check the token, then answer. Each error becomes a status code and a Problem."""
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            return self._refuse(HTTPStatus.UNAUTHORIZED, "Unauthorized", "the bearer token is not this job's")
        self.server.knows()
        try:
            return call()
        except StaleTerm as e:
            return self._refuse(HTTPStatus.PRECONDITION_FAILED, e.reason, str(e), {TERM_HEADER: str(e.term)})
        except StaleEpoch as e:
            return self._refuse(HTTPStatus.PRECONDITION_FAILED, e.reason, str(e))
        except (TerminationConflict, GateConflict) as e:
            return self._refuse(HTTPStatus.CONFLICT, e.reason, str(e))
        except FormatError as e:
            return self._refuse(HTTPStatus.BAD_REQUEST, e.reason, str(e))

    def _body(self, limit: int = REQUEST_LIMIT) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > limit:
            raise FormatError(f"a body of at most {limit} bytes with its Content-Length is expected")
        return self.rfile.read(int(length))

    def _answer_status(self, code: HTTPStatus, status: DriverStatus) -> None:
        wanted = FIGURES_HEADER in self.headers
        self._answer(code, codec.dumps(status if wanted else status.without_figures()))

    def _refuse(
        self, code: HTTPStatus, reason: str, message: str, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        # The body may be unread, and the next request on this connection could not be told apart from it.
        self.close_connection = True
        self._answer(code, codec.dumps(Problem(reason, message)), headers)

    def _answer(self, code: HTTPStatus, text: str, headers: Mapping[str, str] = NO_HEADERS) -> None:
        data = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: their headers contain the token, and a long poll is not worth a line."""
