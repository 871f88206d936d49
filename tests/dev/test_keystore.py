"""Java's trusted certificates in images: the same bytes each time, and Java still reads them."""

from __future__ import annotations

import runpy
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from dev.cluster.layout import REPOSITORY

SETTLED = runpy.run_path(str(REPOSITORY / "docker" / "keystore.py"))["settled"]
MADE_BY_DEBIAN = Path("/etc/ssl/certs/java/cacerts")


def store(*entries: tuple[bytes, int], tag: int = 2) -> bytes:
    """A keystore of certificates, with the time at which each was added."""
    body = struct.pack(">III", 0xFEEDFEED, 2, len(entries))
    for name, time in entries:
        body += struct.pack(">IH", tag, len(name)) + name + struct.pack(">q", time)
        body += struct.pack(">H", 5) + b"X.509" + struct.pack(">I", 4) + b"cert"
    return body + bytes(20)


def test_times_and_order_do_not_matter() -> None:
    one = SETTLED(store((b"alpha", 1), (b"beta", 2)))
    assert SETTLED(store((b"beta", 4), (b"alpha", 3))) == one
    assert SETTLED(one) == one
    assert SETTLED(store((b"alpha", 1), (b"gamma", 2))) != one


@pytest.mark.parametrize("other", [b"PKCS" * 8, store((b"key", 1), tag=1)])
def test_what_it_does_not_understand_is_refused(other: bytes) -> None:
    with pytest.raises(ValueError, match=r"keystore|certificate"):
        SETTLED(other)


@pytest.mark.skipif(
    not MADE_BY_DEBIAN.is_file() or not shutil.which("keytool"), reason="this machine has no Java of Debian"
)
def test_java_reads_it(tmp_path: Path) -> None:
    def listed(path: Path) -> list[str]:
        command = ["keytool", "-list", "-storetype", "JKS", "-storepass", "changeit", "-keystore", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return sorted(line for line in done.stdout.splitlines() if "fingerprint" in line)

    path = tmp_path / "cacerts"
    path.write_bytes(SETTLED(MADE_BY_DEBIAN.read_bytes()))
    assert listed(path) == listed(MADE_BY_DEBIAN)
    assert len(listed(path)) > 50
