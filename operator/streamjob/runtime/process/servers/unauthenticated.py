"""Limits what clients without a token can hold of a server."""

from __future__ import annotations

import contextlib
import socket
import threading

from ...driver import threads

GREETING = 10.0  # seconds that a connection of a stranger lasts, even if it sends bytes all the time
MAX_CONNECTIONS = 32


class UnauthenticatedConnections:
    """Connections of clients that are not known: at most MAX_CONNECTIONS, each for at most GREETING seconds.

    If there is one more, the oldest is closed. Where no NetworkPolicy is enforced, any pod may connect; it
    must not be able to keep the controller out.
    """

    def __init__(self) -> None:
        self._open: dict[socket.socket, threading.Timer] = {}  # oldest first
        self._lock = threading.Lock()

    def enter(self, connection: socket.socket) -> None:
        timer = threads.own(threading.Timer(GREETING, _hang_up, [connection]))
        timer.start()
        with self._lock:
            self._open[connection] = timer
            while len(self._open) > MAX_CONNECTIONS:
                oldest = next(iter(self._open))
                self._open.pop(oldest).cancel()
                _hang_up(oldest)

    def leave(self, connection: socket.socket) -> None:
        """The connection has shown the token, or has ended."""
        with self._lock:
            timer = self._open.pop(connection, None)
        if timer is not None:
            timer.cancel()


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has already ended
        connection.shutdown(socket.SHUT_RDWR)
