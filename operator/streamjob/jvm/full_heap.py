"""A JVM whose memory is full ends. Does not import pyspark.

Spark ends a JVM only if a task, or a thread without a handler, runs out of memory. Netty, listeners and py4j
catch the error: such a JVM stays and does nothing.
"""

from __future__ import annotations

SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"  # read by spark-submit; the settings with Java options come after it
ENDS = "-XX:+ExitOnOutOfMemoryError"
CODES = (3, 52)  # exit codes: of ENDS; of org.apache.spark.util.SparkExitCode.OOM


def submit_options(given: str) -> str:
    """The value of SUBMIT_OPTIONS with which a JVM ends when its memory is full.

    :param given: the value that the variable has. Of two options that exclude each other, the last counts.
    """
    words = given.split()
    return given if ENDS in words else " ".join([ENDS, *words])
