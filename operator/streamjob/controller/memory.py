"""What a process with thousands of TLS connections does for its memory (ADR 18)."""

from __future__ import annotations

import ctypes
from asyncio import sslproto

# Bytes read at once; asyncio has 256 KiB for each connection, and drivers say one or a few KiB. What the API server says costs
# more time so: 22 ms for 3 MB.
TLS_BUFFER = 1 << 10


def spare_memory() -> None:
    """For this process: a thousand drivers' connections would otherwise take a quarter of a GB of empty buffers."""
    sslproto.SSLProtocol.max_size = TLS_BUFFER


def give_memory_back() -> None:
    """What the many handshakes of a start leave is free, but in pieces between what is in use: glibc keeps it unless asked."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
