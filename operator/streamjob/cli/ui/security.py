"""Who may talk to the server: a browser on this machine whose page came from it and which has the token.

Other programs and users of the machine, and every page that the browser has open, can reach a port of the
loopback. So the name in `Host` is checked (a foreign name that resolves to 127.0.0.1), and `Origin`; and
everything but the files of the page takes the token.

The token travels in the fragment of the address, which a browser sends to nobody, and then in a header, which
no other page can set. The command line of a browser is visible to others, so what is opened there has a code
instead, which is exchanged for the token once and soon.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

CODE_SECONDS = 60.0
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}


def is_ours(headers: Mapping[str, str], port: int) -> bool:
    """Whether the request is for this server by its own name and, if a page has sent it, by one of ours."""
    names = [f"127.0.0.1:{port}", f"localhost:{port}"]
    host, origin = headers.get("Host", ""), headers.get("Origin")
    return host in names and origin in (None, f"http://{host}")


@dataclass
class Tokens:
    """The token of one server, and the code that is exchanged for it once."""

    clock: Callable[[], float] = time.monotonic
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    _codes: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def code(self) -> str:
        """A new code. It is good for one exchange in the next minute."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            self._codes[code] = self.clock() + CODE_SECONDS
        return code

    def exchange(self, authorization: str) -> str | None:
        """The token for `Once CODE`; None if the code is not good."""
        kind, _, given = authorization.partition(" ")
        with self._lock:
            until = self._codes.pop(given, 0.0) if kind == "Once" else 0.0
        return self.token if self.clock() < until else None

    def admits(self, authorization: str) -> bool:
        return hmac.compare_digest(authorization.encode(), f"Bearer {self.token}".encode())
