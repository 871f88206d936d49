"""Places that transactional sinks write to, and what their readers see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dev.postgres import Postgres
from streamjob.sinks import FileSink, PostgresSink, Transaction, TransactionalSink

OWNER = "shop.orders.main.0123456789ab"


@dataclass
class Target:
    """A place with a sink before it.

    `open` gives another sink object, as another driver has it; `elsewhere` another place.
    """

    spark: SparkSession
    open: Callable[[], TransactionalSink]
    seen: Callable[[], list[int]]
    lose: Callable[[], object]
    elsewhere: Callable[[], Target]

    def rows(self, *values: int) -> DataFrame:
        return self.spark.createDataFrame([(v,) for v in values], "v int")

    def recovered(self, batch: int | None, owner: str = OWNER) -> tuple[TransactionalSink, list[Transaction]]:
        sink = self.open()
        return sink, list(sink.recover(owner, batch))

    def write(self, sink: TransactionalSink, batch: int, *values: int) -> None:
        sink.write_batch(self.rows(*values), batch)


def folder(spark: SparkSession, home: Path, name: str = "out") -> Target:
    out = home / name

    def seen() -> list[int]:
        if not (out / "_spark_metadata").exists():
            return []
        return sorted(r.v for r in spark.read.schema("v int").parquet(str(out)).collect())

    def lose() -> None:
        for note in (out / "_transactions").glob("*.pending"):
            note.unlink()

    return Target(spark, lambda: FileSink(str(out)), seen, lose, lambda: folder(spark, home, f"{name}-fork"))


def table(spark: SparkSession, server: Postgres, name: str = "sink_test") -> Target:
    def lose() -> None:
        for (gid,) in server.sql("SELECT gid FROM pg_prepared_xacts"):
            server.sql(f"ROLLBACK PREPARED '{gid}'")

    def create(table: str) -> None:
        server.sql(
            f"DROP TABLE IF EXISTS {table}, {table}_streamjob_rows, {table}_streamjob_commits; "
            f"CREATE TABLE {table} (id serial PRIMARY KEY, v int CHECK (v < 1000))"
        )

    def of(table: str) -> Target:
        create(table)

        def seen() -> list[int]:
            return sorted(int(v) for (v,) in server.sql(f"SELECT v FROM {table}"))

        return Target(spark, lambda: PostgresSink(server.url, table), seen, lose, lambda: of(f"{table}_fork"))

    lose()
    return of(name)
