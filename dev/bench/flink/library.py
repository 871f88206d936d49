"""Flink's jars: a Python package has them all. They are kept in a folder of the cache, and in no environment
of the product or of its tests.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from dev.cluster.layout import REPOSITORY, cache_folder
from dev.cluster.locks import locked

LOCK = REPOSITORY / "requirements" / "flink.lock"
PIP = (
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--no-cache-dir",
    "--no-compile",
    "--no-deps",
)


class NoFlink(Exception):
    """Flink cannot be had here, and why."""


def version(lock: str) -> str:
    found = re.search(r"^apache-flink-libraries==(\S+)", lock, re.MULTILINE)
    assert found, lock
    return found[1]


VERSION = version(LOCK.read_text())


def jars() -> list[Path]:
    """Flink's jars. They are downloaded if the cache does not have those of the lock file.

    :raises NoFlink: they cannot be downloaded.
    """
    folder = cache_folder() / f"flink-{VERSION}-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"
    with locked(cache_folder() / "locks" / "flink", "another download of Flink"):
        if not folder.exists():
            _download(folder)
    return sorted((folder / "pyflink" / "lib").glob("*.jar"))


def _download(folder: Path) -> None:
    """Download into a temporary folder that is renamed at the end, so an incomplete one is never found."""
    print(f"  Flink {VERSION}: downloading 330 MB", flush=True)
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    # A wheel, so that nothing is built; hashes, as for every lock file.
    what = ("--only-binary", ":all:", "--require-hashes", "-r", LOCK, "--target", partial)
    done = subprocess.run([sys.executable, "-m", *PIP, *what], capture_output=True, text=True, check=False)
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NoFlink(reasons[-1] if reasons else f"pip ended with {done.returncode}")
    partial.rename(folder)
