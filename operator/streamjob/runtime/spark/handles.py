"""The JVM objects behind pyspark's. Other rooms get them only here, not from pyspark's private attributes."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter


def jvm(session: SparkSession) -> Any:
    """py4j's view of the JVM."""
    return session._jvm


def session_of(writer: DataStreamWriter) -> SparkSession:
    """The session that the query will run in."""
    return writer._spark


def analyzed_plan(writer: DataStreamWriter) -> Any:
    """The analyzed LogicalPlan of the frame that the writer writes, with its sources resolved."""
    frame: Any = writer._df
    return frame._jdf.queryExecution().analyzed()


def query_manager(writer: DataStreamWriter) -> Any:
    """The session's StreamingQueryManager.

    The JVM has one for each session, even if pyspark has several objects for that session.
    """
    session: Any = writer._spark
    return session._jsparkSession.streams()


def java_query(query: StreamingQuery) -> Any:
    """The query's org.apache.spark.sql.streaming.StreamingQuery."""
    return query._jsq
