"""The manager with which Spark writes the files of its logs, which the user may choose (`checkpointFileManagerClass`)."""

from __future__ import annotations

from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ...protocol.errors import StreamJobError
from ..jvm.errors import one_line
from .internals import FILE_MANAGER, Internals


class FileManagerUnfit(StreamJobError):
    """There is no such manager, or it cannot be used on a storage where the query needs it."""

    reason: ClassVar[str] = "FileManagerUnfit"


def refuse_unfit(spark: SparkSession, internals: Internals | None, query: str, *folders: str) -> None:
    """:param folders: of the query's checkpoint, and of its file sink, whose log is written by the same manager.
    :raises FileManagerUnfit: Spark would say it too, and not that no retry helps."""
    chosen = spark.conf.get(FILE_MANAGER, None)
    if chosen is None or internals is None:
        return
    for folder in folders:
        try:
            internals.file_manager(folder)
        except Py4JError as e:
            raise FileManagerUnfit(
                f"query {query!r} cannot keep Spark's files in {folder} with {chosen}: {one_line(e)}",
                remedy=f"Take {FILE_MANAGER} away, or name a class that this storage and this Spark have",
            ) from None
