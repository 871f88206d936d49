"""One Spark for the process; every test gets folders of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.broker import CONNECTORS, Kafka
from dev.postgres import Postgres
from dev.s3.server import CONNECTOR, S3
from streamjob.jvm import class_archive
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.versions.table import BY_VERSION, line
from streamjob.storage.hadoop import HadoopFiles
from tests.runtime.disks import Storage

from . import targets
from .job import Feed
from .stores import PROVIDER, ROCKSDB

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
# Most of a test's time is the start of a JVM: without its second compiler it runs slower, and is there a
# third sooner. The archive of Spark's classes drivers take by themselves; this is for this process' own.
# Without its native library Hadoop starts a process for each `chmod` and `readlink`, a thousand of them in a
# driver's life of a dozen batches: the JVM's oldest way to do so is a tenth of that life cheaper.
SHARED = class_archive.settings().get("spark.driver.defaultJavaOptions", "")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
os.environ.setdefault("JDK_JAVA_OPTIONS", f"{QUICK} {SHARED}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3]:
    """Not started."""
    with tempfile.TemporaryDirectory() as folder:
        yield S3(Path(folder))


@pytest.fixture(scope="session")
def spark(s3_server: S3) -> Iterator[SparkSession]:
    builder = SparkSession.builder
    # Of what a test puts into a bucket as a file, the server knows no ETag.
    unversioned = {"fs.s3a.change.detection.version.required": "false"}
    for key, value in {**s3_server.settings(), **s3_server.keys, **unversioned}.items():
        builder = builder.config(f"spark.hadoop.{key}", value)
    session = (
        builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.jars", ",".join([CONNECTORS, CONNECTOR]))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = Postgres(Path(folder) / "postgres")
        yield server
        server.stop()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    with tempfile.TemporaryDirectory() as folder:
        broker = Kafka(Path(folder) / "kafka")
        yield broker
        broker.stop()


@pytest.fixture(scope="session")
def s3(s3_server: S3) -> Iterator[S3]:
    """Which the session and its HadoopFiles may use."""
    s3_server.start()
    yield s3_server
    s3_server.stop()


@pytest.fixture
def bucket(s3: S3) -> Storage:
    """A bucket of the test's own."""
    return Storage.of_bucket(s3)


@pytest.fixture(params=["volume", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Where checkpoints and savepoints lie."""
    if request.param == "s3":
        return Storage.of_bucket(request.getfixturevalue("s3"))
    return Storage.of_volume(tmp_path)


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


@pytest.fixture
def internals(spark: SparkSession) -> Internals:
    return Internals(spark, BY_VERSION[line(spark.version)])


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """State is in RocksDB, the only store in which Spark has transformWithState."""
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path)


@pytest.fixture(params=["files", "postgres"])
def target(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> targets.Target:
    if request.param == "files":
        return targets.folder(spark, tmp_path)
    return targets.table(spark, request.getfixturevalue("postgres"))


@pytest.fixture
def table(spark: SparkSession, postgres: Postgres) -> targets.Target:
    return targets.table(spark, postgres)


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> targets.Target:
    return targets.folder(spark, tmp_path)
