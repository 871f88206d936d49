"""A web server on loopback: serves a folder, and refuses what a path asks it to refuse."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Web:
    """:param requests: the paths that were asked for, in order."""

    folder: Path
    url: str
    requests: list[str] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)


class Handler(SimpleHTTPRequestHandler):
    """`/503/NAME` answers 503, `/short/NAME` announces more than it sends, `/held/NAME` waits for the end."""

    def __init__(self, *args: object, web: Web) -> None:
        self.web = web
        super().__init__(*args, directory=str(web.folder))  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self.web.requests.append(self.path)
        if self.path.startswith("/held/"):
            self.web.closed.wait()
        if found := re.match(r"/([345]\d\d)/", self.path):
            return self.send_error(int(found[1]))
        if self.path.startswith("/short/"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"x = 1\n")
            return None
        return super().do_GET()

    def do_HEAD(self) -> None:
        found = re.match(r"/([345]\d\d)/", self.path)
        return self.send_error(int(found[1])) if found else super().do_HEAD()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(folder: Path) -> Iterator[Web]:
    web = Web(folder, "")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, web=web))
    server.daemon_threads = True
    web.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
