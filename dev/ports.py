"""Ports of this machine for servers that are started a moment later, by another process."""

from __future__ import annotations

import socket
from collections import deque

# A port that was only looked up can be gone before its server binds it: the kernel gives it to the next connection that goes
# out. One that is bound here is not given away, and a server that sets SO_REUSEADDR (as servers do: Python's http.server,
# Java, Go, PostgreSQL) can bind it all the same, because nobody listens here.
_HELD: deque[socket.socket] = deque()
_KEPT: list[socket.socket] = []
_AT_MOST = 64


def free(*, kept: bool = False) -> int:
    """A port that nobody else gets until 64 more were asked for in this process. `kept`: ever, for one that is started again."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))  # of all addresses: a driver serves on all of them
    (_KEPT if kept else _HELD).append(held)
    if len(_HELD) > _AT_MOST:
        _HELD.popleft().close()
    return int(held.getsockname()[1])
