"""Write Java's store of trusted certificates again: without the times of their addition, in order of name.

Debian's package ca-certificates-java makes the store when it is installed: in each image another one.

    python3 keystore.py /etc/ssl/certs/java/cacerts
"""

import hashlib
import struct
import sys
from pathlib import Path

MAGIC, VERSION, TRUSTED = 0xFEEDFEED, 2, 2
SEAL = (
    "changeit".encode("utf-16-be") + b"Mighty Aphrodite"
)  # the format's own salt; everybody knows the password


def settled(store: bytes) -> bytes:
    """Return the same certificates in a store that depends on nothing else.

    :raises ValueError: it is no Java keystore, or it has something other than certificates.
    """
    magic, version, count = struct.unpack(">III", store[:12])
    if (magic, version) != (MAGIC, VERSION):
        raise ValueError("not a Java keystore of version 2")
    entries = []
    at = 12
    for _ in range(count):
        (tag,) = struct.unpack_from(">I", store, at)
        if tag != TRUSTED:
            raise ValueError("an entry that is not a certificate")
        after_name = at + 4 + _sized(store, at + 4, ">H")
        after_type = after_name + 8 + _sized(store, after_name + 8, ">H")
        end = after_type + _sized(store, after_type, ">I")
        entries.append(store[at:after_name] + bytes(8) + store[after_name + 8 : end])
        at = end
    body = store[:12] + b"".join(sorted(entries, key=lambda entry: entry[6:]))
    return body + hashlib.sha1(SEAL + body, usedforsecurity=False).digest()


def _sized(store: bytes, at: int, form: str) -> int:
    """Return the length of a value together with the length that is written before it."""
    return int(struct.unpack_from(form, store, at)[0]) + struct.calcsize(form)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_bytes(settled(path.read_bytes()))
