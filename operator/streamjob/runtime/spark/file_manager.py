"""Checks the manager with which Spark writes its log files, if `checkpointFileManagerClass` names one."""

from __future__ import annotations

from typing import ClassVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from ...jvm.errors import one_line
from ...protocol.errors import StreamJobError
from .internals import FILE_MANAGER, Internals


class FileManagerUnfit(StreamJobError):
    """The chosen manager does not exist, or does not support a storage that the query uses."""

    reason: ClassVar[str] = "FileManagerUnfit"


def refuse_unfit(spark: SparkSession, internals: Internals, query: str, *folders: str) -> None:
    """Check that the chosen file manager can be created for all folders. Does nothing if the user chose none.

    :param folders: that of the query's checkpoint, and that of its file sink, whose log the same manager
        writes.
    :raises FileManagerUnfit: it cannot. Spark would fail as well, but its error does not show that no retry
        helps.
    """
    chosen = spark.conf.get(FILE_MANAGER, None)
    if chosen is None:
        return
    for folder in folders:
        try:
            internals.file_manager(folder)
        except Py4JError as e:
            raise FileManagerUnfit(
                f"query {query!r} cannot keep Spark's files in {folder} with {chosen}: {one_line(e)}",
                remedy=f"Remove {FILE_MANAGER}, or name a class that this storage and this Spark have",
            ) from None
