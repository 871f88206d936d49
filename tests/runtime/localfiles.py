"""Files of a local folder with the methods of HadoopFiles, without a JVM."""

from __future__ import annotations

import shutil
from pathlib import Path

from streamjob.runtime.files import FileExists, FileInfo, NotFound


class LocalFiles:
    """URIs are `file:/…`."""

    def list(self, uri: str) -> list[FileInfo]:
        path = self._path(uri)
        if not path.is_dir():
            raise NotFound(uri, "list", "it is not there")
        return [FileInfo(p.name, p.stat().st_size, p.is_dir()) for p in path.iterdir()]

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

    def delete(self, uri: str) -> None:
        shutil.rmtree(self._path(uri), ignore_errors=True)

    def _path(self, uri: str) -> Path:
        return Path(uri.removeprefix("file:"))
