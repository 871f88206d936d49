"""The JVM's Hadoop file systems, one for each scheme and authority; and how two places are compared."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from .local_disk import path_of

S3 = frozenset({"s3", "s3n", "s3a"})
DEFAULT_PORT = ":8020"  # of a name node


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


def canonical(qualified: str) -> str:
    """One form for all spellings of a place. Two qualified URIs name one place if their forms are equal.

    `org.apache.hadoop.fs.Path` takes out `..`, double and trailing slashes. Left are symbolic links of a
    local disk, letters in upper case, the default port of HDFS, and the three names of S3. What does not
    exist yet has a form, too: the links of the folders above it are followed.
    """
    parts = urlsplit(qualified)
    if parts.scheme.lower() == "file":
        return f"file:{os.path.realpath(path_of(qualified))}"
    rest = qualified.partition("://")[2].partition("/")[2].rstrip("/")
    scheme, authority = parts.scheme.lower(), parts.netloc
    if scheme in S3:
        scheme = "s3a"
    elif scheme == "hdfs":
        authority = authority.lower().removesuffix(DEFAULT_PORT)
    return f"{scheme}://{authority}/{rest}"
