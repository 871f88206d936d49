"""The HTTP server of the page: on the loopback, for whoever has the token (`security`)."""

from __future__ import annotations

import json
import mimetypes
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ...protocol.errors import StreamJobError
from ..kubectl import Conflict, Forbidden, NotFound, Refused
from . import security
from .jobs import Change, Jobs
from .requests import named
from .sources import DetailSource

PAGE = resources.files(__package__) / "page"  # may be in a ZIP archive: the plugin of kubectl
COALESCE_SECONDS = 0.05  # changes that come together are sent together
HEARTBEAT_SECONDS = 10.0
CHUNK = 100  # jobs in one message
BODY_LIMIT = 4 << 10
CODES = (
    (Forbidden, HTTPStatus.FORBIDDEN),
    (NotFound, HTTPStatus.NOT_FOUND),
    (Conflict, HTTPStatus.CONFLICT),
    (Refused, HTTPStatus.UNPROCESSABLE_ENTITY),
)


class PageServer(ThreadingHTTPServer):
    """Serves the page and its data. Bound to 127.0.0.1 only."""

    daemon_threads = True
    allow_reuse_address = False  # on Windows it would let another program take the port

    def __init__(self, port: int, jobs: Jobs, details: DetailSource) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.jobs, self.details, self.tokens = jobs, details, security.Tokens()
        self.files = page_files()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that is closed in the middle of an answer is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def address(self, fragment: str) -> str:
        return f"http://127.0.0.1:{self.port}/#{fragment}"


def page_files() -> dict[str, tuple[str, bytes]]:
    """The built page by path: type and contents. Nothing else on disk can be asked for."""
    found = {}
    for file in sorted(PAGE.iterdir(), key=lambda f: f.name) if PAGE.is_dir() else ():
        kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
        text = kind.startswith("text/") or kind == "image/svg+xml"
        found[f"/{file.name}"] = (f"{kind}; charset=utf-8" if text else kind, file.read_bytes())
    if "/index.html" in found:
        found["/"] = found["/index.html"]
    return found


class Handler(BaseHTTPRequestHandler):
    """One connection. GET reads; POST asks for something on the user's behalf."""

    server: PageServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "streamjob", ""
    timeout = 60

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if not security.is_ours(dict(self.headers.items()), self.server.port):
            return self._refuse(HTTPStatus.FORBIDDEN, "this address is not the server's own")
        if path in self.server.files:
            kind, content = self.server.files[path]
            return self._answer(HTTPStatus.OK, content, kind)
        if not self._has_token():
            return self._refuse(HTTPStatus.UNAUTHORIZED, "the token is missing or is not this server's")
        match _parts(path):
            case ["api", "stream"]:
                return self._stream()
            case ["api", "jobs", namespace, name, "history"]:
                return self._guarded(lambda: self._history(namespace, name))
            case ["api", "jobs", namespace, name, "savepoints"]:
                return self._guarded(lambda: self.server.details.savepoints(self._job(namespace, name)))
            case ["api", "jobs", namespace, name, "permissions"]:
                return self._guarded(lambda: self.server.details.permissions(self._job(namespace, name)))
            case ["api", "jobs", namespace, name, "diagnosis"]:
                return self._guarded(lambda: self.server.details.diagnosis(self._job(namespace, name)))
            case ["api", "jobs", namespace, name, "details"]:
                return self._guarded(lambda: self.server.details.read(self._job(namespace, name)))
        return self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    def do_POST(self) -> None:
        path = urlsplit(self.path).path
        if not security.is_ours(dict(self.headers.items()), self.server.port):
            return self._refuse(HTTPStatus.FORBIDDEN, "this address is not the server's own")
        body = self._body()
        if path == "/api/session":
            token = self.server.tokens.exchange(self.headers.get("Authorization", ""))
            if token is None:
                return self._refuse(HTTPStatus.UNAUTHORIZED, "this address has been used, or is too old")
            return self._json(HTTPStatus.OK, {"token": token})
        if not self._has_token():
            return self._refuse(HTTPStatus.UNAUTHORIZED, "the token is missing or is not this server's")
        match _parts(path):
            case ["api", "jobs", namespace, name, "requests"]:
                return self._guarded(lambda: self._request(namespace, name, body))
        return self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""

    # --- answers --------------------------------------------------------------------------------------------

    def _job(self, namespace: str, name: str) -> dict[str, Any]:
        job = self.server.jobs.find(namespace, name)
        if job is None:
            raise NotFound(f"there is no StreamJob {name} in {namespace}")
        return job

    def _history(self, namespace: str, name: str) -> Any:
        """The samples, those after the second that the query names."""
        after = float((parse_qs(urlsplit(self.path).query).get("after") or ["0"])[0])
        return {"stages": self.server.jobs.history(self._job(namespace, name)["metadata"]["uid"], after)}

    def _request(self, namespace: str, name: str, body: bytes) -> Any:
        try:
            wanted = json.loads(body)["request"]
        except (ValueError, KeyError, TypeError):
            wanted = None
        job = self._job(namespace, name)
        self.server.jobs.answered(self.server.details.request(job, named(wanted)), before=job)
        return {}

    def _stream(self) -> None:
        """Server-Sent Events: all jobs, then what changes, until the page is closed."""
        subscriber = self.server.jobs.subscribe()
        self.close_connection = True
        self.send_response(HTTPStatus.OK)
        self._headers("text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                found = subscriber.next(HEARTBEAT_SECONDS)
                for message in [b": nothing new\n\n"] if found is None else messages(found):
                    self.wfile.write(message)
                self.wfile.flush()
                time.sleep(COALESCE_SECONDS)
        except OSError:
            return  # the page is closed
        finally:
            self.server.jobs.unsubscribe(subscriber)

    # --- HTTP -----------------------------------------------------------------------------------------------

    def _has_token(self) -> bool:
        return self.server.tokens.admits(self.headers.get("Authorization", ""))

    def _guarded(self, answer: Any) -> None:
        try:
            found = answer()
        except StreamJobError as e:
            code = next((c for kind, c in CODES if isinstance(e, kind)), HTTPStatus.BAD_GATEWAY)
            return self._json(code, {"reason": e.reason, "message": e.message, "remedy": e.remedy})
        return self._json(HTTPStatus.OK, found)

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > BODY_LIMIT:
            self.close_connection = True
            return b""
        return self.rfile.read(int(length))

    def _refuse(self, code: HTTPStatus, message: str) -> None:
        self.close_connection = True
        self._json(code, {"reason": code.phrase, "message": message, "remedy": ""})

    def _json(self, code: HTTPStatus, value: Any) -> None:
        self._answer(code, json.dumps(value, separators=(",", ":")).encode(), "application/json")

    def _answer(self, code: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(code)
        self._headers(kind)
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _headers(self, kind: str) -> None:
        self.send_header("Content-Type", kind)
        for name, value in security.HEADERS.items():
            self.send_header(name, value)


def messages(found: Change) -> Iterator[bytes]:
    """A change as Server-Sent Events of at most CHUNK jobs each. The last one says that it is complete."""
    chunks = [found.jobs[i : i + CHUNK] for i in range(0, len(found.jobs), CHUNK)] or [()]
    for number, jobs in enumerate(chunks, 1):
        last = number == len(chunks)
        part = replace(found, jobs=jobs, deleted=found.deleted if last else ())
        data = json.dumps(asdict(part) | {"complete": last}, separators=(",", ":"))
        yield f"data: {data}\n\n".encode()


def _parts(path: str) -> list[str]:
    return [unquote(part) for part in path.strip("/").split("/")]
