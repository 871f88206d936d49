"""Free ports of this machine, for servers that another process starts a moment later."""

from __future__ import annotations

import socket
from collections import deque

# A port that is only looked up may be taken before its server binds it: the kernel may assign it to the next
# outgoing connection. The kernel does not assign a port that is bound here. A server that sets SO_REUSEADDR
# (as Python's http.server, Java, Go and PostgreSQL do) can still bind it, because nobody listens on it.
_HELD: deque[socket.socket] = deque()
_KEPT: list[socket.socket] = []
_AT_MOST = 64


def free(*, kept: bool = False) -> int:
    """Reserve a free port. The reservation lasts until this process has reserved 64 more ports.

    :param kept: reserve the port for the life of this process, for a server that will be restarted.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))  # on all addresses, because a driver listens on all of them
    (_KEPT if kept else _HELD).append(held)
    if len(_HELD) > _AT_MOST:
        _HELD.popleft().close()
    return int(held.getsockname()[1])
