"""The JVM's Hadoop file systems, one for each scheme and authority."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit


class FileSystems:
    """Thread-safe.

    :param gateway: py4j's gateway to the JVM.
    :param conf: the JVM's Hadoop configuration.
    """

    def __init__(self, gateway: Any, conf: Any) -> None:
        self.gateway = gateway
        self.conf = conf
        # Looked up once: py4j asks the JVM about every part of a dotted name, each time.
        self.path: Any = gateway.jvm.org.apache.hadoop.fs.Path
        self._known: dict[tuple[str, str], Any] = {}

    def of(self, uri: str) -> Any:
        """The `FileSystem` of a URI."""
        parts = urlsplit(uri)
        key = (parts.scheme, parts.netloc)
        if key not in self._known:
            self._known[key] = self.path(uri).getFileSystem(self.conf)
        return self._known[key]

    def scheme(self, uri: str) -> str:
        return urlsplit(uri).scheme or str(self.of(uri).getUri().getScheme())

    def is_local(self, uri: str) -> bool:
        return self.scheme(uri) == "file"
