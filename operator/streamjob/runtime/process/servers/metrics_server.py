"""Serves /metrics for Prometheus in plain HTTP: figures only, no token, no command."""

from __future__ import annotations

import logging
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ....protocol.formats.records import JobRef
from ...driver import threads
from ...driver.status_board import StatusBoard
from .exposition import CONTENT_TYPE, exposition
from .unauthenticated import UnauthenticatedConnections

log = logging.getLogger("streamjob")


def serve_metrics(address: tuple[str, int], job: JobRef, board: StatusBoard) -> None:
    """Serve until the process ends. A port that is taken costs the metrics, not the job."""
    try:
        server = MetricsServer(address, job, board)
    except OSError as e:
        log.warning("no metrics are served on port %d: %s", address[1], e)
        return
    threads.start(server.serve_forever, "streamjob-metrics")


class MetricsServer(ThreadingHTTPServer):
    """One thread per connection. All clients are strangers, so each connection serves one request."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, address: tuple[str, int], job: JobRef, board: StatusBoard) -> None:
        super().__init__(address, _Handler)
        self.job = job
        self.board = board
        self._strangers = UnauthenticatedConnections()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        self._strangers.enter(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._strangers.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a lost client is not worth a traceback."""


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    server_version = "streamjob"
    sys_version = ""

    def do_GET(self) -> None:
        if urllib.parse.urlsplit(self.path).path != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, "only /metrics is served here")
            return
        page = exposition(self.server.job, self.server.board.status).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests: there is one every few seconds."""
