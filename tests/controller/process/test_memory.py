"""Memory of a process with thousands of TLS connections."""

from __future__ import annotations

from asyncio import sslproto

import pytest

from streamjob.controller.process import memory


def test_a_tls_connection_reserves_a_small_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", 256 << 10)
    memory.spare_memory()
    protocol = sslproto.SSLProtocol.__new__(sslproto.SSLProtocol)
    assert protocol.max_size == memory.TLS_BUFFER


def test_a_libc_without_malloc_trim_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    memory.give_memory_back()
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    memory.give_memory_back()
