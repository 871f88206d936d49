"""Which table a writer writes to."""

from __future__ import annotations

from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..handles import session_of, table_of
from ..stream_writer import Written
from .delta import DeltaTable
from .iceberg import IcebergTable
from .table import Table

FORMATS = ("delta", "iceberg")


def table_written(writer: DataStreamWriter, written: Written, qualify: Callable[[str], str]) -> Table | None:
    """The Delta or Iceberg table that a query writes to.

    :param qualify: makes a path absolute.
    :returns: None if it writes to none, or if its first batch has yet to make the table.
    """
    spark = session_of(writer)
    path = written.options.get("path")
    default = spark.conf.get("spark.sql.sources.default") or "parquet"
    try:
        if written.table is not None:
            found = table_of(writer, written.table, path)
            return _of_catalog(spark, found.name) if found is not None else None
        if path is None:
            return None
        match (written.format or default).lower():
            case "delta":
                location = qualify(path).rstrip("/")
                return _existing(DeltaTable(spark, f"delta.`{location}`", location))
            case "iceberg":
                return _existing(IcebergTable(spark, path))
    except (PySparkException, Py4JError, TypeError):
        # No such catalog, or its jar is missing (py4j then gives a package for a class): Spark refuses the
        # start with an error of its own.
        return None
    return None


def _of_catalog(spark: SparkSession, name: str) -> Table | None:
    if not spark.catalog.tableExists(name):
        return None
    about = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()}
    match str(about.get("Provider")).lower():
        case "delta":
            return DeltaTable(spark, name, about["Location"])
        case "iceberg":
            return IcebergTable(spark, name)
    return None


def _existing(table: DeltaTable | IcebergTable) -> Table | None:
    return table if table.exists else None
