"""An archive of the classes that Spark loads on its way up (the JVM's class-data sharing): with it a driver is there in about
half of the time.

    python -m streamjob.runtime.jvm.class_archive     make it, beside the pyspark that is installed; once for an image

A JVM takes it only if it is the same JVM with the same class path; otherwise it starts as ever.
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

SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"  # pyspark's own
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # what does not fit is no news to anybody


def archive() -> Path:
    """Where it is, or would be. Does not import pyspark."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "spark.jsa"


def settings() -> dict[str, str]:
    """Spark's configuration for a driver that uses it; nothing where there is none. `defaultJavaOptions` are those of an image:
    a job's own come after them."""
    path = archive()
    if not path.exists():
        return {}
    return {"spark.driver.defaultJavaOptions": f"-XX:SharedArchiveFile={path} -Xshare:auto {QUIET}"}


def make() -> Path:
    """Run a small streaming query in a JVM that writes the archive when it ends: half a minute, 170 MB."""
    path = archive()
    path.unlink(missing_ok=True)
    option = shlex.quote(f"-XX:ArchiveClassesAtExit={path} {QUIET}")
    # Where an image is built, the host's name may lead nowhere.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ[SUBMIT_ARGUMENTS] = f"--driver-java-options {option} pyspark-shell"
    from pyspark import SparkContext  # noqa: PLC0415  the JVM's options have to be there first
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
    """End the JVM behind a gateway of pyspark's, and wait until it has."""
    gateway.shutdown()
    gateway.proc.stdin.close()  # which is what it lives by
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
