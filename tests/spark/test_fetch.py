"""Files and Maven packages of a JVM: what can be had, and why not."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev import ports
from dev.s3.server import S3
from streamjob.jvm.standalone import Jvm
from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.messages.driver_config import Deps
from streamjob.runtime.spark.dependencies import maven
from streamjob.runtime.spark.dependencies.errors import (
    DependencyInvalid,
    DependencyUnavailable,
    of_field,
)
from streamjob.storage import fetch as fetching
from streamjob.storage.errors import AccessDenied, NoConnector, NotFound, StorageError
from streamjob.storage.fetch import TooLarge, fetch, unreachable
from tests.runtime.disks import Storage

from .test_dependencies import repository
from .web import Web, serving

DATA = b"some bytes"
MAVEN = "com.example:driver:1.0"


@pytest.fixture
def jvm(spark: SparkSession) -> Jvm:
    return Jvm(spark.sparkContext._gateway)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    (tmp_path / "web").mkdir()
    with serving(tmp_path / "web") as web:
        yield web


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and answers nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "CONNECT", 2000)
    monkeypatch.setattr(fetching, "READ", 2000)


def test_a_file_is_copied_and_hashed(jvm: Jvm, web: Web, bucket: Storage, tmp_path: Path) -> None:
    for folder in (web.folder, bucket.folder, tmp_path):
        (folder / "f").write_bytes(DATA)
    for uri in (f"{web.url}/f", f"{bucket.root}/f", f"local://{tmp_path}/f", f"{tmp_path}/f"):
        copied = fetch(jvm, uri, tmp_path / "copy", limit=len(DATA))
        assert (copied.size, copied.sha256) == (len(DATA), hashlib.sha256(DATA).hexdigest())
        assert (tmp_path / "copy").read_bytes() == DATA
        with pytest.raises(TooLarge, match=r"more than 3 bytes"):
            fetch(jvm, uri, tmp_path / "copy", limit=3)


@pytest.mark.parametrize(
    ("path", "error", "retryable"),
    [
        ("/404/f", NotFound, False),
        ("/403/f", AccessDenied, False),
        ("/401/f", AccessDenied, False),
        ("/410/f", NotFound, False),
        ("/302/f", NotFound, False),
        ("/429/f", StorageError, True),
        ("/503/f", StorageError, True),
        ("/short/f", StorageError, True),
    ],
)
def test_what_a_web_server_answers(
    jvm: Jvm, web: Web, tmp_path: Path, path: str, error: type[StorageError], retryable: bool
) -> None:
    with pytest.raises(error) as refused:
        fetch(jvm, web.url + path, tmp_path / "f")
    assert refused.value.retryable is retryable
    assert web.url + path in refused.value.message


def test_a_web_server_that_is_not_there_or_does_not_answer(jvm: Jvm, silent: str, tmp_path: Path) -> None:
    for url in (f"http://127.0.0.1:{ports.free()}/f", f"{silent}/f"):
        with pytest.raises(StorageError, match=r"Connection refused|timed out") as refused:
            fetch(jvm, url, tmp_path / "f")
        assert refused.value.retryable
        assert unreachable(jvm, url)


def test_what_a_store_refuses(jvm: Jvm, s3: S3, bucket: Storage, tmp_path: Path) -> None:
    for uri in (f"{bucket.root}/none", "s3a://no-such-bucket/f"):
        with pytest.raises(NotFound):
            fetch(jvm, uri, tmp_path / "f")
    with pytest.raises(NoConnector):
        fetch(jvm, "nosuch://bucket/f", tmp_path / "f")
    s3.stop()
    try:
        with pytest.raises(DependencyUnavailable), of_field("spec.deps.jars"):
            fetch(jvm, f"{bucket.root}/f", tmp_path / "f")
    finally:
        s3.start()


class Repositories:
    def __init__(self, jvm: Jvm, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._jvm, self._folder = jvm, folder
        monkeypatch.setattr(maven, "SPARK_PACKAGES", f"file:{folder}")  # there, and has nothing

    def resolve(self, *repositories: str, package: str = MAVEN, exclude: tuple[str, ...] = ()) -> list[str]:
        deps = Deps(packages=(package,), repositories=repositories, exclude_packages=exclude)
        return [path.name for path in maven.resolve(self._jvm, deps, self._folder)]

    def refusal(self, *repositories: str, package: str = MAVEN) -> StreamJobError:
        with pytest.raises(StreamJobError) as refused:
            self.resolve(*repositories, package=package)
        assert refused.value.message.startswith("spec.deps.packages: ")
        return refused.value


@pytest.fixture
def repositories(jvm: Jvm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repositories:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"file:{tmp_path}/empty")
    return Repositories(jvm, tmp_path / "empty", monkeypatch)


def test_packages_with_what_they_depend_on(
    repositories: Repositories, web: Web, silent: str, tmp_path: Path
) -> None:
    """A repository that does not answer is no obstacle, if another one has the package."""
    repository(web.folder / "m2")
    both = {"com.example_driver-1.0.jar", "com.example_python-1.0.jar"}
    assert set(repositories.resolve(silent, f"{web.url}/m2")) == both
    assert repositories.resolve(f"{web.url}/m2", exclude=("com.example:python",)) == [
        "com.example_driver-1.0.jar"
    ]


def test_a_package_that_no_repository_has(repositories: Repositories, web: Web) -> None:
    refused = repositories.refusal(web.url, package="com.example:none:1.0")
    assert isinstance(refused, DependencyInvalid)
    assert f"com.example:none:1.0 not found in {web.url}, " in refused.message


def test_a_package_that_a_repository_out_of_reach_may_have(
    repositories: Repositories, web: Web, silent: str
) -> None:
    """Also one that answers, but not for this package."""
    closed = f"http://127.0.0.1:{ports.free()}"
    for url in (silent, closed, f"{web.url}/503", f"file:{web.folder}/none"):
        refused = repositories.refusal(url, web.url, package="com.example:none:1.0")
        assert isinstance(refused, DependencyUnavailable)
        assert f"{url} cannot be reached" in refused.message
