"""The JVM objects behind pyspark's. Other rooms get them only here, not from pyspark's private attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

SESSION_CATALOG = "spark_catalog"


@dataclass(frozen=True)
class Table:
    """A table that a query writes to.

    :param name: the full name, with catalog and namespace.
    :param folder: where its files are or will be. None if its catalog is not the session's.
    :param quoted: the full name as SQL takes it, whatever characters are in it.
    :param provider: its format. None if the session catalog of Spark does not have it.
    """

    name: str
    folder: str | None = None
    quoted: str = field(default="", compare=False)
    provider: str | None = field(default=None, compare=False)


def jvm(session: SparkSession) -> Any:
    """py4j's view of the JVM."""
    return session._jvm


def java_session(session: SparkSession) -> Any:
    """The session's org.apache.spark.sql.SparkSession."""
    return session._jsparkSession


def session_of(writer: DataStreamWriter) -> SparkSession:
    """The session that the query will run in."""
    return writer._spark


def analyzed_plan(writer: DataStreamWriter) -> Any:
    """The analyzed LogicalPlan of the frame that the writer writes, with its sources resolved."""
    return plan_of_frame(frame_of(writer))


def frame_of(writer: DataStreamWriter) -> DataFrame:
    """The frame that the writer writes."""
    return writer._df


def plan_of_frame(frame: DataFrame) -> Any:
    """The analyzed LogicalPlan of a DataFrame."""
    java: Any = frame._jdf
    return java.queryExecution().analyzed()


def table_of(writer: DataStreamWriter, name: str, path: str | None) -> Table | None:
    """The table that toTable() writes to, which need not exist yet.

    :param name: as the script gave it, resolved in the session as toTable() does it.
    :param path: the writer's option `path`, where Spark creates a new table. None: in the warehouse.
    :returns: None if the name cannot be resolved; Spark then refuses the start with an error of its own.
    """
    session: Any = writer._spark
    state = session._jsparkSession.sessionState()
    try:
        parts = state.sqlParser().parseMultipartIdentifier(name)
        found = state.analyzer().CatalogAndIdentifier().unapply(parts).get()
        catalog, identifier = found._1(), found._2()
        full, quoted = full_name(catalog, identifier), quoted_name(catalog, identifier)
        if str(catalog.name()) != SESSION_CATALOG:
            return Table(full, _iceberg_location(catalog, identifier), quoted)
        folder, provider = _files_of(jvm(writer._spark), state.catalog(), identifier, path)
        return Table(full, folder, quoted, provider)
    except (Py4JError, PySparkException):
        return None


def _iceberg_location(catalog: Any, identifier: Any) -> str | None:
    """Where an Iceberg table is, None if there is none yet, or it is another format's."""
    try:
        table = catalog.loadTable(identifier)
        return str(table.table().location()) if is_iceberg_table(table) else None
    except Py4JError:  # it does not exist yet, or this catalog has no such tables
        return None


def is_iceberg_table(table: Any) -> bool:
    """:param table: org.apache.spark.sql.connector.catalog.Table."""
    return str(table.getClass().getName()).startswith("org.apache.iceberg.")


def full_name(catalog: Any, identifier: Any) -> str:
    """A table's name with catalog and namespace.

    :param catalog: org.apache.spark.sql.connector.catalog.CatalogPlugin.
    :param identifier: org.apache.spark.sql.connector.catalog.Identifier.
    """
    return ".".join(_parts(catalog, identifier))


def quoted_name(catalog: Any, identifier: Any) -> str:
    """As `full_name`, each part between backticks."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in _parts(catalog, identifier))


def _parts(catalog: Any, identifier: Any) -> list[str]:
    return [str(part) for part in (catalog.name(), *identifier.namespace(), identifier.name())]


def query_manager(writer: DataStreamWriter) -> Any:
    """The session's StreamingQueryManager.

    The JVM has one for each session, even if pyspark has several objects for that session.
    """
    session: Any = writer._spark
    return session._jsparkSession.streams()


def java_query(query: StreamingQuery) -> Any:
    """The query's org.apache.spark.sql.streaming.StreamingQuery."""
    return query._jsq


def _files_of(java: Any, catalog: Any, identifier: Any, path: str | None) -> tuple[str, str | None]:
    """Where the files of a table of the session catalog are, or will be once Spark has created it; and its
    format, None for a new table.
    """
    option = java.scala.Option
    table = java.org.apache.spark.sql.catalyst.TableIdentifier(
        identifier.name(), option.apply(identifier.namespace()[0]), option.apply(SESSION_CATALOG)
    )
    hadoop_path = java.org.apache.hadoop.fs.Path
    if catalog.tableExists(table):
        found = catalog.getTableMetadata(table)
        provider = found.provider()
        return str(hadoop_path(found.location()).toString()), (
            str(provider.get()) if provider.isDefined() else None
        )
    default = hadoop_path(catalog.defaultTablePath(table))
    if path is None:
        return str(default.toString()), None
    if urlsplit(path).scheme or path.startswith("/"):
        return path, None
    # Spark's rule for a relative path.
    return str(hadoop_path(default.getParent(), path).toString()), None
