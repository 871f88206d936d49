"""Ports for servers that start later: nobody else gets them, and the server does."""

from __future__ import annotations

import errno
import socket
import struct
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from dev import ports

IP_LOCAL_PORT_RANGE = 51


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_the_server_gets_the_port_and_nobody_else(address: str) -> None:
    port = ports.free()
    with socket.socket() as somebody, pytest.raises(OSError, match=f"Errno {errno.EADDRINUSE}"):
        somebody.bind((address, port))
    with HTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler) as server:
        assert server.server_address[1] == port


def test_no_connection_that_goes_out_is_given_it() -> None:
    port = ports.free()
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other, socket.socket() as connection:
        try:  # the only port that the kernel may choose is the one that is held
            connection.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("=HH", port, port))
        except OSError:
            pytest.skip("needs Linux 6.3")
        with pytest.raises(OSError, match=f"Errno {errno.EADDRNOTAVAIL}"):
            connection.connect(other.server_address)


def test_one_that_is_kept_outlives_all_that_are_asked_for_later() -> None:
    port = ports.free(kept=True)
    for _ in range(100):
        ports.free()
    with socket.socket() as somebody, pytest.raises(OSError, match=f"Errno {errno.EADDRINUSE}"):
        somebody.bind(("127.0.0.1", port))
