"""Files of a local folder with the methods of HadoopFiles, without a JVM."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

from streamjob.storage.file_systems import canonical
from streamjob.storage.hadoop import CopiedFile, FileExists, FileInfo, NotFound


class LocalFiles:
    """URIs are `file:/…`."""

    spark_version = "4.1.4"

    def list(self, uri: str, recursive: bool = False) -> list[FileInfo]:
        path = self._path(uri)
        if not path.is_dir():
            raise NotFound(uri, "list", "it is not there")
        found = []
        for inside in path.iterdir():
            with contextlib.suppress(FileNotFoundError):  # deleted since
                found.append(_info(inside))
        if not recursive:
            return found
        below = [
            replace(f, path=f"{d.path}/{f.path}")
            for d in found
            if d.is_dir
            for f in self.list(f"{uri}/{d.path}", True)
        ]
        return [f for f in found if not f.is_dir] + below

    def exists(self, uri: str) -> bool:
        return self._path(uri).exists()

    def read_bytes(self, uri: str, limit: int = 1 << 20) -> bytes:
        if not self._path(uri).is_file():
            raise NotFound(uri, "read", "it is not there")
        return self._path(uri).read_bytes()

    def write_new(self, uri: str, data: bytes) -> None:
        path = self._path(uri)
        if path.exists():
            raise FileExists(uri, "write", "it exists")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def copy(self, source: str, target: str) -> CopiedFile:
        data = self.read_bytes(source)
        self._path(target).parent.mkdir(parents=True, exist_ok=True)
        self._path(target).write_bytes(data)
        return CopiedFile(len(data), hashlib.sha256(data).hexdigest())

    def sha256(self, uri: str) -> str:
        return hashlib.sha256(self.read_bytes(uri)).hexdigest()

    def delete(self, uri: str) -> None:
        path = self._path(uri)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def qualify(self, uri: str) -> str:
        return f"file:{self._path(uri)}"

    def canonical(self, uri: str) -> str:
        return canonical(self.qualify(uri))

    def _path(self, uri: str) -> Path:
        return Path(uri.removeprefix("file:"))


def _info(path: Path) -> FileInfo:
    if path.is_dir():
        return FileInfo(path.name, 0, True)
    stat = path.stat()
    return FileInfo(path.name, stat.st_size, False, stat.st_mtime_ns // 1_000_000)
