"""Which table a writer writes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..handles import Table as CatalogTable
from ..handles import session_of, table_of
from ..stream_writer import Written
from .delta import DeltaTable
from .iceberg import IcebergTable
from .table import Table


@dataclass(frozen=True)
class MissingTable:
    """A table that does not exist. The query's first batch makes it.

    :param name: as the script names it.
    """

    name: str


FindTable = Callable[[], Table | MissingTable | None]


def table_written(
    writer: DataStreamWriter, written: Written, qualify: Callable[[str], str]
) -> Table | MissingTable | None:
    """The Delta or Iceberg table that a query writes to.

    :param qualify: makes a path absolute.
    :returns: None if it writes to none, or if that cannot be found out. If a catalog or a jar is missing,
        Spark refuses the start with an error of its own.
    """
    spark = session_of(writer)
    path = written.options.get("path")
    form = (written.format or spark.conf.get("spark.sql.sources.default") or "").lower()
    try:
        if written.table is not None:
            found = table_of(writer, written.table, path)
            return _of_catalog(spark, found, form, written.table) if found is not None else None
        if path is None:
            return None
        if form == "delta":
            return _at(spark, qualify(path)) or MissingTable(path)
        if form == "iceberg":
            table = IcebergTable(spark, path)
            return table if table.exists else MissingTable(path)
    except (PySparkException, Py4JError, TypeError):  # py4j gives a package for a class that is not there
        return None
    return None


def _of_catalog(
    spark: SparkSession, found: CatalogTable, form: str, name: str
) -> Table | MissingTable | None:
    if not spark.catalog.tableExists(found.quoted):
        # A catalog in memory forgets a table whose files are still there. Delta refuses to make it again.
        forgotten = form == "delta" and found.folder is not None and _at(spark, found.folder) is not None
        return None if forgotten else MissingTable(name)
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {found.quoted}").collect()
    about = {row.col_name: row.data_type for row in rows}
    match str(about.get("Provider")).lower():
        case "delta":
            return DeltaTable(spark, found.quoted, about["Location"])
        case "iceberg":
            return IcebergTable(spark, found.quoted)
    return None


def _at(spark: SparkSession, folder: str) -> DeltaTable | None:
    location = folder.rstrip("/")
    table = DeltaTable(spark, f"delta.`{location}`", location)
    return table if table.exists else None
