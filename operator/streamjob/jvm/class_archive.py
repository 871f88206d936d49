"""An archive of the classes that Spark loads at startup (JVM class-data sharing).

It about halves the start time of a driver.

    python -m streamjob.jvm.class_archive     make it, next to the installed pyspark; once per image

A JVM uses the archive only if it is the same JVM with the same class path. Otherwise it ignores the archive.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"  # read by pyspark
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # no warnings about an archive that does not fit


def archive() -> Path:
    """The path of the archive, whether it exists or not. Does not import pyspark."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ModuleNotFoundError("there is no pyspark", name="pyspark")
    return Path(found.origin).parent / "spark.jsa"


def settings() -> dict[str, str]:
    """The Spark configuration that makes a driver use the archive; empty if there is no archive.

    `defaultJavaOptions` is meant for images: a job's own Java options come after it.
    """
    path = archive()
    if not path.exists():
        return {}
    return {"spark.driver.defaultJavaOptions": f"-XX:SharedArchiveFile={path} -Xshare:auto {QUIET}"}


def make() -> Path:
    """Run a small streaming query in a JVM that writes the archive when it exits: half a minute, 170 MB.

    :returns: the path of the archive.
    """
    path = archive()
    path.unlink(missing_ok=True)
    option = shlex.quote(f"-XX:ArchiveClassesAtExit={path} {QUIET}")
    # During an image build, the host name may not resolve.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ[SUBMIT_ARGUMENTS] = f"--driver-java-options {option} pyspark-shell"
    from pyspark import SparkContext  # noqa: PLC0415  the JVM's options must be set first
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        _run(spark, Path(folder))
        spark.stop()
        end(SparkContext._gateway)
    return path


def end(gateway: Any) -> None:
    """End the JVM of a pyspark gateway and wait for it to exit."""
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM exits when this pipe closes
    gateway.proc.wait()


def _run(spark, folder: Path) -> None:  # type: ignore[no-untyped-def]
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    (folder / "in").mkdir()
    for minute in range(3):
        row = {"t": f"2026-01-01T00:{minute * 20:02}:00Z", "v": minute}
        (folder / "in" / f"{minute}.json").write_text(json.dumps(row))
    rows = spark.readStream.schema("t timestamp, v long").option("maxFilesPerTrigger", 1)
    late = rows.json(str(folder / "in")).withWatermark("t", "1 minute")
    counts = late.groupBy(F.window("t", "5 minutes")).agg(F.count("*").alias("n"))
    writer = counts.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(folder / "out")).awaitTermination()


if __name__ == "__main__":
    print(make(), file=sys.stderr)
