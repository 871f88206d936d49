"""Saves memory in a process with thousands of TLS connections (ADR 18)."""

from __future__ import annotations

import ctypes
from asyncio import sslproto

# Bytes per read. asyncio reserves 256 KiB for each connection, but drivers send one or a few KiB. The price
# is more time for answers of the API server: 22 ms for 3 MB.
TLS_BUFFER = 1 << 10


def spare_memory() -> None:
    """Shrink the TLS read buffers of this process: otherwise the connections to a thousand drivers hold a
    quarter of a GB of empty buffers.
    """
    sslproto.SSLProtocol.max_size = TLS_BUFFER


def give_memory_back() -> None:
    """Return free memory to the kernel. The many TLS handshakes of a start leave it fragmented between memory
    in use, and glibc keeps it unless asked.
    """
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)
