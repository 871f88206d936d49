"""Chooses the internals for a session, by the table."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ....jvm.errors import one_line
from ..internals import Internals
from .table import SparkUnknown, known, line


def internals_of(spark: SparkSession) -> Internals:
    """The internals of a session.

    :raises SparkTooOld: as `table.known`.
    :raises SparkUnknown: as `table.known`; or this build of Spark lacks a class of its line.
    """
    traits = known(spark.version)
    try:
        return Internals(spark, traits)
    except Py4JError as e:
        raise SparkUnknown(
            f"this build of Spark {spark.version} differs from Apache Spark {line(spark.version)}: "
            f"{one_line(e)}",
            remedy="Use the newest StreamJob, or an image with Apache Spark",
        ) from None
