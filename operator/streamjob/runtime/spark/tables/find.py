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
from ..stream_writer import WriterOptions
from ..target import Target
from .delta import DeltaTable
from .iceberg import IcebergTable
from .table import Table


@dataclass(frozen=True)
class MissingTable:
    """A table that does not exist. The query's first batch makes it.

    :param name: as the script names it.
    """

    name: str


@dataclass(frozen=True)
class OtherTable:
    """A table in a format that nobody here can read: which batches it has is not known.

    :param name: as the script names it.
    """

    name: str
    format: str


FindTable = Callable[[], Table | OtherTable | MissingTable | None]
# Of these, Spark's own file sink keeps a log, or there is nothing that could be asked.
FILES = ("parquet", "orc", "json", "csv", "text", "xml", "avro", "hive")
OTHERS = ("hudi", "org.apache.hudi", "paimon")


def table_written(
    writer: DataStreamWriter, written: WriterOptions, qualify: Callable[[str], str]
) -> Table | OtherTable | MissingTable | None:
    """The table that a query writes to.

    :param qualify: makes a path absolute.
    :returns: None if it writes to none, or if that cannot be found out. If a catalog or a jar is missing,
        Spark refuses the start with an error of its own.
    """
    found = table_of(writer, written.table, written.options.get("path")) if written.table else None
    try:
        return _find(session_of(writer), written, found, qualify)
    except (PySparkException, Py4JError, TypeError):  # py4j gives a package for a class that is not there
        return None


def table_of_target(
    spark: SparkSession, target: Target, found: CatalogTable | None, qualify: Callable[[str], str]
) -> Table | None:
    """As `table_written`, of a batch writer. None also if the table is new.

    :param found: the table that `target.table` names.
    """
    try:
        table = _find(spark, target, found, qualify)
    except (PySparkException, Py4JError, TypeError):
        return None
    return None if isinstance(table, MissingTable | OtherTable) else table


def _find(
    spark: SparkSession, target: Target, found: CatalogTable | None, qualify: Callable[[str], str]
) -> Table | OtherTable | MissingTable | None:
    path = target.options.get("path")
    form = (target.format or spark.conf.get("spark.sql.sources.default") or "").lower()
    if target.table is not None:
        return _of_catalog(spark, found, form, target) if found is not None else None
    if path is None:
        return None
    if form == "delta":
        return _at(spark, qualify(path)) or MissingTable(path)
    if form == "iceberg":
        iceberg = IcebergTable(spark, path)
        return iceberg if iceberg.exists else MissingTable(path)
    return OtherTable(path, form) if form in OTHERS else None


def _of_catalog(
    spark: SparkSession, found: CatalogTable, form: str, target: Target
) -> Table | OtherTable | MissingTable | None:
    assert target.table is not None
    if not spark.catalog.tableExists(found.quoted):
        # A catalog in memory forgets a table whose files are still there. Delta refuses to make it again.
        forgotten = form == "delta" and found.folder is not None and _at(spark, found.folder) is not None
        return None if forgotten else MissingTable(target.table)
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {found.quoted}").collect()
    about = {row.col_name: row.data_type for row in rows}
    provider = str(about.get("Provider")).lower()
    match provider:
        case "delta":
            return DeltaTable(spark, found.quoted, about["Location"])
        case "iceberg":
            return IcebergTable(spark, found.quoted)
    return None if provider in FILES or provider == "none" else OtherTable(found.quoted, provider)


def _at(spark: SparkSession, folder: str) -> DeltaTable | None:
    location = folder.rstrip("/")
    table = DeltaTable(spark, f"delta.`{location}`", location)
    return table if table.exists else None
