"""Where a test keeps checkpoints and savepoints: files of this machine, and what Hadoop calls them."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dev.s3.server import S3


@dataclass(frozen=True)
class Storage:
    """`root` is the URI of `folder`.

    The S3 server keeps objects as files, so a test can look at them and damage them.
    """

    folder: Path
    root: str

    @classmethod
    def of_volume(cls, folder: Path) -> Storage:
        return cls(folder, f"file:{folder}")

    @classmethod
    def of_bucket(cls, s3: S3) -> Storage:
        """A new one."""
        name = f"b{uuid.uuid4().hex}"
        return cls(s3.bucket(name), f"s3a://{name}")

    def uri(self, path: Path) -> str:
        """Of a path below the folder."""
        return f"{self.root}/{path.relative_to(self.folder)}"

    def path(self, uri: str) -> Path:
        """The inverse."""
        return self.folder / uri.removeprefix(f"{self.root}/")


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """The folder has this much room in the block, such as `1m`, and begins empty."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system is not allowed here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)
