"""A Spark session with its own JVM, so that no part of the benchmark profits from what another has loaded and
compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

from streamjob.jvm import class_archive

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}


@contextmanager
def session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**QUIET, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")  # Spark logs much about a stopped query
        yield spark
    finally:
        spark.stop()
        # pyspark would keep the JVM for the next session, which could not add jars to it.
        gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
        class_archive.end(gateway)
