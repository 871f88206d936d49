"""What a job needs beside its image: fetched by a real driver, there for the script's first line, for the
driver's JVM and for executors in processes of their own.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import ports
from dev.broker import JDBC
from dev.localdriver import LocalDriver
from dev.s3.server import CONNECTOR, S3
from streamjob.protocol.messages.driver_config import Deps
from streamjob.protocol.messages.driver_status import Problem
from tests.runtime.disks import Storage

from .feeds import Feed, eventually
from .web import Web, serving

SCRIPT = """\
import sys
from importlib.metadata import version

import of_file
import of_zip
import of_wheel
{imports}
from pyspark import SparkContext, SparkFiles
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def say(*words):
    sys.stdout.write("script: " + " ".join(map(str, words)) + "\\n")
    sys.stdout.flush()


say("before", SparkContext._active_spark_context is None, version("of-wheel"))
say("itself", __file__ == sys.argv[0], sys.path[0] == __file__.rpartition("/")[0], sys.argv[2:])
spark = SparkSession.builder.getOrCreate()
loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
say("class", {load})
say("file", open(SparkFiles.get("table.txt")).read())


@F.udf("string")
def told(v):
    import of_file, of_zip, of_wheel
    {imports}
    table = SparkFiles.get("table.txt")
    return " ".join([of_file.X, of_zip.X, of_wheel.X, open(table).read(), str({packaged}), table])


rows = spark.readStream.schema("v long").json(sys.argv[1] + "/in")
query = rows.select(told("v").alias("told")).writeStream.format("json").trigger(availableNow=True)
query.start(sys.argv[1] + "/out").awaitTermination()
say("end")
"""
LOAD = 'loader.loadClass("org.postgresql.Driver").getName()'
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>com.example</groupId>
<artifactId>{name}</artifactId><version>1.0</version><dependencies>{needs}</dependencies></project>"""
NEEDS = """<dependency><groupId>com.example</groupId><artifactId>{name}</artifactId><version>1.0</version>
</dependency>"""


def script(**more: str) -> str:
    return SCRIPT.format(**{"imports": "", "load": "None", "packaged": "None", **more})


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    (tmp_path / "web").mkdir()
    with serving(tmp_path / "web") as web:
        yield web


def modules(folder: Path) -> None:
    """One of each kind, and a file."""
    (folder / "of_file.py").write_text("X = 'module'")
    with zipfile.ZipFile(folder / "some.zip", "w") as archive:
        archive.writestr("of_zip/__init__.py", "X = 'zip'")
    with zipfile.ZipFile(folder / "of_wheel-1.2-py3-none-any.whl", "w") as archive:
        archive.writestr("of_wheel.py", "X = 'wheel'")
        archive.writestr(
            "of_wheel-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: of-wheel\nVersion: 1.2\n"
        )
    (folder / "table.txt").write_text("table")


NAMES = ("of_file.py", "some.zip", "of_wheel-1.2-py3-none-any.whl")


def repository(folder: Path) -> Path:
    """A Maven repository: `driver`, a real jar with classes, needs `python`, a jar with a module."""
    for name, needs in (("driver", NEEDS.format(name="python")), ("python", "")):
        where = folder / f"com/example/{name}/1.0"
        where.mkdir(parents=True)
        (where / f"{name}-1.0.pom").write_text(POM.format(name=name, needs=needs))
    shutil.copy(JDBC, folder / "com/example/driver/1.0/driver-1.0.jar")
    with zipfile.ZipFile(folder / "com/example/python/1.0/python-1.0.jar", "w") as archive:
        archive.writestr("of_package.py", "X = 'package'")
    return folder


def said(driver: LocalDriver) -> list[str]:
    return [x[8:] for x in driver.log.read_text().splitlines() if x.startswith("script: ")]


def told(home: Path) -> list[str]:
    """What the executor found, without the folder of its files."""
    return [
        json.loads(row)["told"] for f in (home / "out").glob("part-*") for row in f.read_text().splitlines()
    ]


def test_all_of_it_from_a_web_server(web: Web, tmp_path: Path) -> None:
    """Executors of their own, and a home that does not exist."""
    modules(web.folder)
    text = script(imports="import of_package", load=LOAD, packaged="of_package.X")
    (web.folder / "app.py").write_text(text)
    repository(web.folder / "m2")
    Feed(tmp_path / "in").add([{"v": 1}])
    deps = Deps(
        packages=("com.example:driver:1.0",),
        repositories=(f"{web.url}/m2",),
        py_files=tuple(f"{web.url}/{name}" for name in NAMES),
        files=(f"{web.url}/table.txt",),
    )
    environment = {"DEFAULT_ARTIFACT_REPOSITORY": f"http://127.0.0.1:{ports.free()}", "HOME": "/nonexistent"}
    conf = {"spark.master": "local-cluster[1,1,1024]", "spark.executor.memory": "512m"}
    app = f"{web.url}/app.py"
    with LocalDriver(
        tmp_path, app, str(tmp_path), "x", deps=deps, environment=environment, spark_conf=conf
    ) as driver:
        driver.finish()
    log = driver.log.read_text()
    assert said(driver) == [
        "before True 1.2",
        "itself True True ['x']",
        "class org.postgresql.Driver",
        "file table",
        "end",
    ]
    (row,) = told(tmp_path)
    assert row.startswith("module zip wheel table package ")
    assert "streamjob-conf" not in row  # the executor has a copy of its own
    assert f"fetched {app}: {len(text)} bytes, SHA-256 " in log
    assert web.requests.count("/of_file.py") == 1  # neither the session nor the executor fetches it again


@pytest.mark.slow
def test_all_of_it_from_s3(s3: S3, bucket: Storage, tmp_path: Path) -> None:
    """The connector is one of the job's jars."""
    modules(bucket.folder)
    shutil.copy(JDBC, bucket.folder / "driver.jar")
    (bucket.folder / "app.py").write_text(script(load=LOAD))
    Feed(tmp_path / "in").add([{"v": 1}])
    connector = [f"local://{jar}" for jar in CONNECTOR.split(",")]
    deps = Deps(
        jars=(*connector, f"{bucket.root}/driver.jar"),
        py_files=tuple(f"{bucket.root}/{name}" for name in NAMES),
        files=(f"{bucket.root}/table.txt",),
    )
    # Of what a test puts into a bucket as a file, the server knows no ETag.
    settings = {**s3.settings(), "fs.s3a.change.detection.version.required": "false"}
    app, conf = f"{bucket.root}/app.py", {f"spark.hadoop.{k}": v for k, v in settings.items()}
    where = {"deps": deps, "spark_conf": conf, "environment": s3.environment}
    with LocalDriver(tmp_path, app, str(tmp_path), "x", **where) as driver:  # type: ignore[arg-type]
        driver.finish()
    assert "class org.postgresql.Driver" in said(driver)
    assert "itself True True ['x']" in said(driver)
    assert [row.split()[:4] for row in told(tmp_path)] == [["module", "zip", "wheel", "table"]]


def refused(tmp_path: Path, app: str, **config: object) -> Problem:
    """The final report of a driver that was refused: nothing has run, nothing is written."""
    with LocalDriver(tmp_path, app, str(tmp_path), **config) as driver:  # type: ignore[arg-type]
        assert driver.wait() == 1, driver.tail()
    assert said(driver) == []
    assert not (tmp_path / "checkpoints").exists()
    problem = driver.report().problem
    assert problem is not None
    return problem


def test_what_is_not_there_is_refused_before_the_script_begins(web: Web, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(script())
    problem = refused(tmp_path, str(tmp_path / "app.py"), deps=Deps(jars=(f"{web.url}/404/x.jar",)))
    assert problem.reason == "DependencyInvalid"
    assert problem.message == f"spec.deps.jars: cannot fetch {web.url}/404/x.jar: the server answers 404"
    assert not problem.retryable


def test_what_cannot_be_reached_now_is_tried_again(tmp_path: Path) -> None:
    app = f"http://127.0.0.1:{ports.free()}/app.py"
    problem = refused(tmp_path, app)
    assert problem.reason == "DependencyUnavailable"
    assert problem.message.startswith(f"spec.application.file: cannot fetch {app}: ")
    assert "Connection refused" in problem.message
    assert problem.retryable


def test_a_remote_script_that_is_no_python(web: Web, tmp_path: Path) -> None:
    (web.folder / "app.py").write_bytes(b"\x00\x01\x02")
    problem = refused(tmp_path, f"{web.url}/app.py")
    assert problem.reason == "ScriptSyntaxError"
    assert problem.message.startswith(f"{web.url}/app.py: ")
    assert "spec.application.file" in problem.remedy


def test_sigterm_while_it_fetches(web: Web, tmp_path: Path) -> None:
    with LocalDriver(tmp_path, f"{web.url}/held/app.py") as driver:
        eventually(lambda: web.requests == ["/held/app.py"], "the request")
        driver.process.terminate()
        assert driver.wait() == 0, driver.tail()
        assert driver.report().problem is None
        assert driver.report().exit_reason == "SIGTERM, before its first query began"
