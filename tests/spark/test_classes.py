"""The archive of Spark's classes: a driver takes its classes from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from streamjob.jvm import class_archive
from streamjob.protocol.messages.driver_status import DriverPhase

from .job import APP, Feed


@pytest.mark.default_spark
def test_a_driver_starts_with_the_archive(feed: Feed, tmp_path: Path) -> None:
    """Another class path than the archive's, and the JVM would start without it and say nothing."""
    if not class_archive.archive().exists():
        pytest.fail(f"{class_archive.archive()} is not there: dev/bootstrap.sh makes it")
    log = tmp_path / "classes.log"
    options = {"spark.driver.extraJavaOptions": f"-Xlog:class+load:file={log}"}
    with LocalDriver(tmp_path, APP, *feed.arguments(), spark_conf=options) as driver:
        driver.wait_for(lambda s: s.phase is DriverPhase.RUNNING)
    lines = [line for line in log.read_text().splitlines() if " org.apache.spark." in line]
    shared = [line for line in lines if "shared objects file (top)" in line]
    assert len(shared) > 0.5 * len(lines) > 0
