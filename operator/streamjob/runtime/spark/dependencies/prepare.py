"""Fetches what the job needs, and hands it to the JVM, to Python and, through Spark's settings, to executors.

The driver fetches everything once, and Spark serves its copies to the executors: they need no access of their
own, and executors that start later get the same bytes.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from ....jvm import standalone
from ....protocol.messages.driver_config import Application, Deps
from ....storage.errors import NotFound
from ....storage.fetch import fetch, is_http, is_local, local_path, present, scheme
from . import maven
from .errors import DependencyInvalid, of_field

log = logging.getLogger("streamjob")

SCRIPT_LIMIT = 16 << 20  # bytes
# What api.deps refuses in a URI, which may hold it as %2C, for instance.
ODD = re.compile(r"[\x00-\x1f\x7f\\,*?{}\[\]#]")


def prepare(application: Application, deps: Deps, folder: Path) -> str | None:
    """Fetch the script and its dependencies, before any code of the user runs.

    If there is something to fetch, the JVM starts now, and the script's session takes it. Otherwise the
    script starts it, and may set it up.

    :param folder: for what is fetched. It stays as long as this process.
    :returns: the path of the script, None for a module.
    :raises DependencyInvalid: a field names what does not exist, may not be read, or is no such thing.
    :raises DependencyUnavailable: what a field names cannot be reached now.
    :raises JvmDied: the JVM does not start.
    """
    script = application.file
    remote = script is not None and not is_local(script)
    if deps != Deps() or remote:
        fetcher = Fetcher(standalone.of_driver(), folder)
        fetcher.jars(deps)
        fetcher.python(deps.py_files)
        fetcher.files(deps.files)
        fetcher.publish(deps)
        if script is not None and remote:
            with of_field("spec.application.file"):
                return str(fetcher.fetched(script, "application", limit=SCRIPT_LIMIT))
    return None if script is None else local_path(script)


class Fetcher:
    def __init__(self, jvm: standalone.Jvm, folder: Path) -> None:
        self._jvm = jvm
        self._folder = folder
        self._jars: list[str] = []
        self._python: list[Path] = []
        self._files: list[Path] = []
        self._names: dict[str, str] = {}  # the URI of each file by its name on executors

    def jars(self, deps: Deps) -> None:
        """Put jars and packages on the class path of the JVM.

        The connector of a file system must be there before Hadoop looks at file systems for the first time.
        """
        first = [jar for jar in deps.jars if is_local(jar) or is_http(jar)]
        for jar in first:
            self._jar(jar)
        if deps.packages:
            for package in maven.resolve(self._jvm, deps, self._made("maven")):
                self._on_class_path(package)
                self._jars.append(str(package))
                if _holds_python(package):  # as a package of spark-packages.org may
                    self._python.append(package)
        for jar in deps.jars:
            if jar not in first:
                self._jar(jar)

    def python(self, uris: tuple[str, ...]) -> None:
        """Make modules importable: now, as spark-submit does it, and on executors."""
        modules: list[Path] = []
        for uri in uris:
            with of_field("spec.deps.pyFiles"):
                path = self.fetched(uri, "python")
            if path.suffix != ".py":
                _refuse_no_zip("spec.deps.pyFiles", uri, path)
            if path.suffix == ".whl":  # Spark puts only zip, egg and jar on the path of its workers
                path = path.rename(f"{path}.zip")
            self._name("spec.deps.pyFiles", uri, path)
            modules.append(path)
        self._python = [*modules, *self._python]  # those of packages come last
        entries = list(dict.fromkeys(str(p.parent if p.suffix == ".py" else p) for p in self._python))
        if not entries:
            return
        # Behind the entry of `python -m`, which that of the script's folder replaces.
        first = 0 if getattr(sys.flags, "safe_path", sys.flags.isolated) else 1
        sys.path[first:first] = entries
        os.environ["PYTHONPATH"] = os.pathsep.join([*entries, *filter(None, [os.environ.get("PYTHONPATH")])])

    def files(self, uris: tuple[str, ...]) -> None:
        for uri in uris:
            with of_field("spec.deps.files"):
                path = present(uri) if is_local(uri) else self.fetched(uri, "files")
            self._name("spec.deps.files", uri, path)
            self._files.append(path)

    def publish(self, deps: Deps) -> None:
        """Make it Spark's settings, beside those of the image: the script's sessions read them."""
        python = [str(path) for path in self._python]
        self._add("spark.jars", self._jars)
        self._add("spark.files", [*map(str, self._files), *python])
        self._add("spark.submit.pyFiles", python)
        self._add("spark.jars.packages", deps.packages)
        self._add("spark.jars.excludes", deps.exclude_packages)
        self._add("spark.jars.repositories", deps.repositories)

    def fetched(self, uri: str, kind: str, limit: int | None = None) -> Path:
        """A copy of the file, under its own name.

        :raises StorageError: as `fetch`.
        """
        name = PurePosixPath(local_path(uri)).name
        if name in ("", ".."):
            raise NotFound(uri, "fetch", "it names no file", remedy="Add the name of the file")
        target = self._made(kind) / name
        copied = fetch(self._jvm, uri, target, limit)
        log.info("fetched %s: %d bytes, SHA-256 %s", uri, copied.size, copied.sha256)
        return target

    def _jar(self, uri: str) -> None:
        field = "spec.deps.jars"
        with of_field(field):
            path = present(uri) if is_local(uri) else self.fetched(uri, "jars")
        _refuse_no_zip(field, uri, path)
        self._name(field, uri, path)
        self._on_class_path(path)
        # With `local:`, executors take it from their image.
        self._jars.append(uri if scheme(uri) == "local" else str(path))

    def _on_class_path(self, jar: Path) -> None:
        java: Any = self._jvm.jvm.java
        loader = self._jvm.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.addURL(java.io.File(str(jar)).toURI().toURL())  # that of spark-submit, which lets it grow

    def _name(self, field: str, uri: str, path: Path) -> None:
        """Executors have all files in one folder.

        :raises DependencyInvalid: another one has its name, or Spark does not take the name.
        """
        if odd := ODD.search(path.name):
            raise DependencyInvalid(
                f"{field}: the name of {uri} has the character {odd[0]!r}, which means something else in "
                "Spark's lists of files",
                remedy="Rename the file",
            )
        if path.name in self._names:
            raise DependencyInvalid(
                f"{field}: {uri} and {self._names[path.name]} have the same name", remedy="Rename one of them"
            )
        self._names[path.name] = uri

    def _made(self, kind: str) -> Path:
        folder = self._folder / kind
        folder.mkdir(exist_ok=True)
        return folder

    def _add(self, key: str, values: Any) -> None:
        if values:
            system = self._jvm.jvm.java.lang.System
            there = system.getProperty(key)
            system.setProperty(key, ",".join([*([there] if there else []), *values]))


def _refuse_no_zip(field: str, uri: str, path: Path) -> None:
    if not zipfile.is_zipfile(path):
        raise DependencyInvalid(
            f"{field}: {uri} is not a zip archive, as jars, eggs and wheels are",
            remedy="See what is there; a web server may send a page instead of the file",
        )


def _holds_python(jar: Path) -> bool:
    if not zipfile.is_zipfile(jar):
        return False
    with zipfile.ZipFile(jar) as archive:
        return any(name.endswith(".py") for name in archive.namelist())
