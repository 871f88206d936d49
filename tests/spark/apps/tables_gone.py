"""A query has read the rows 0 and 1 of a table; then something happens to the table, and it goes on.

For each case, prints a JSON object in a line: `refused` (our message and remedy, or null) or `told` (our
warnings), and what a query of plain Spark does: all its `rows`, or its `error`. Arguments: a folder, the
settings of the session as a JSON object, and the names of the cases.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.sources.plan_sources import sources_of_plan
from streamjob.runtime.startup.checks.data_loss import SourceGone, refuse_gone
from streamjob.storage.hadoop import HadoopFiles

IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"


class Case:
    """A table, and a query that reads it.

    :ivar name: of the table, as SQL takes it.
    """

    def __init__(self, spark: SparkSession, home: Path, name: str) -> None:
        self.spark, self.format = spark, name.partition("_")[0]
        self.home = home / name
        self.home.mkdir()
        self.folder = home / "ice" / "db" / name if self.format == "iceberg" else self.home / "table"
        self.table = f"`ice-lake`.db.{name}" if self.format == "iceberg" else str(self.folder)
        self.name = self.table if self.format == "iceberg" else f"delta.`{self.table}`"
        self.options: dict[str, str] = {}
        files = HadoopFiles(spark)
        self.directory = CheckpointDir(files, files.qualify(str(self.home / "checkpoint")))
        self.create()

    def create(self) -> None:
        self.spark.sql(f"CREATE TABLE {self.name} (v BIGINT) USING {self.format}")

    def add(self, *values: int) -> None:
        """Each is a commit."""
        for value in values:
            self.spark.sql(f"INSERT INTO {self.name} VALUES ({value})")

    def frame(self) -> DataFrame:
        return self.spark.readStream.format(self.format).options(**self.options).load(self.table)

    def run(self) -> None:
        """Read everything in one batch or, if one is planned, run that."""

        def write(rows: DataFrame, batch: int) -> None:
            found = [row.v for row in rows.collect()]
            (self.home / f"{batch}.json").write_text(json.dumps(found))

        writer = self.frame().writeStream.option("checkpointLocation", self.directory.uri)
        writer.foreachBatch(write).trigger(once=True).start().awaitTermination()

    def rows(self) -> list[int]:
        return sorted(v for file in self.home.glob("*.json") for v in json.loads(file.read_text()))

    def uncommit(self) -> None:
        """As a driver leaves it that dies in its last batch."""
        last = self.directory.latest_commit()
        (self.home / f"{last}.json").unlink()
        for name in (f"{last}", f".{last}.crc"):
            (self.home / "checkpoint" / "commits" / name).unlink(missing_ok=True)

    def snapshot(self) -> int:
        """The newest of an Iceberg table."""
        text = f"SELECT snapshot_id FROM {self.name}.snapshots ORDER BY committed_at DESC LIMIT 1"
        return int(self.spark.sql(text).collect()[0][0])

    def call(self, procedure: str, arguments: str) -> None:
        self.spark.sql(f"CALL `ice-lake`.system.{procedure}(table => 'db.{self.home.name}', {arguments})")

    def expire(self) -> None:
        self.call("expire_snapshots", "older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1")

    def roll_back(self, snapshot: int) -> None:
        self.call("rollback_to_snapshot", f"snapshot_id => {snapshot}")

    def vacuum(self) -> None:
        self.spark.sql(f"VACUUM {self.name} RETAIN 0 HOURS")

    def clean_up(self, last: int) -> None:
        """Remove the log up to a version, as log retention does."""
        self._log().checkpoint()
        for version in range(last + 1):
            for file in (self.folder / "_delta_log").glob(f"*{version:020}.*"):
                if "checkpoint" not in file.name:
                    file.unlink()
        self.forget()

    def forget(self) -> None:
        """What the session knows of Delta tables."""
        self.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]

    def drop(self) -> None:
        if self.format == "iceberg":
            self.spark.sql(f"DROP TABLE {self.name} PURGE")
        else:
            shutil.rmtree(self.folder)
            self.forget()

    def put_back(self, copy: Path) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(copy, self.folder)
        self.forget()

    def _log(self):  # type: ignore[no-untyped-def]
        logs = self.spark._jvm.org.apache.spark.sql.delta.DeltaLog  # type: ignore[union-attr]
        return logs.forTable(self.spark._jsparkSession, str(self.folder))


def delta_file_removed(case: Case) -> None:
    case.add(2)
    max(case.folder.glob("*.parquet"), key=lambda file: file.stat().st_mtime).unlink()


def delta_vacuumed(case: Case) -> None:
    case.add(2, 3, 4)
    case.spark.sql(f"OPTIMIZE {case.name}")
    case.vacuum()


def delta_vacuumed_and_ignored(case: Case) -> None:
    delta_vacuumed(case)
    case.spark.conf.set(IGNORE_MISSING, "true")


def delta_vacuumed_what_is_skipped(case: Case) -> None:
    """A change whose new file is compacted, and vacuumed. The query does not read changes."""
    case.options = {"skipChangeCommits": "true"}
    case.spark.sql(f"INSERT INTO {case.name} SELECT /*+ COALESCE(1) */ id + 2 FROM range(2)")
    case.run()
    case.spark.sql(f"DELETE FROM {case.name} WHERE v = 2")
    case.spark.sql(f"OPTIMIZE {case.name}")
    case.vacuum()
    case.add(4)


def delta_log_cleaned(case: Case) -> None:
    """Behind a planned batch. Otherwise Delta refuses itself, as it reads the last batch's commits again."""
    case.add(2, 3)
    case.run()
    case.uncommit()
    case.add(4)
    case.clean_up(4)


def delta_log_cleaned_and_allowed(case: Case) -> None:
    case.options = {"failOnDataLoss": "false"}
    delta_log_cleaned(case)


def delta_created_again(case: Case) -> None:
    case.add(2)
    case.drop()
    case.create()
    case.add(10, 11, 12, 13)


def delta_files_older(case: Case) -> None:
    copy = case.home / "copy"
    shutil.copytree(case.folder, copy)
    case.add(2, 3, 4)
    case.run()
    case.put_back(copy)
    case.add(10)


def delta_restored(case: Case) -> None:
    """A writer is restored, and its table with it. It writes again what was taken back."""
    case.options = {"skipChangeCommits": "true"}
    version = case.spark.sql(f"DESCRIBE HISTORY {case.name}").collect()[0].version
    case.add(2)
    case.spark.sql(f"RESTORE TABLE {case.name} TO VERSION AS OF {version}")
    case.add(2)


def delta_restored_and_allowed(case: Case) -> None:
    delta_restored(case)
    case.options["failOnDataLoss"] = "false"


def iceberg_untouched(case: Case) -> None:
    case.add(2, 3)
    case.run()
    case.expire()  # what is read
    case.add(4)


def iceberg_created_again(case: Case) -> None:
    case.add(2)
    case.drop()
    case.create()


def iceberg_replaced(case: Case) -> None:
    case.add(2)
    case.spark.sql(f"CREATE OR REPLACE TABLE {case.name} USING iceberg AS SELECT 10L AS v")


def iceberg_rolled_back(case: Case) -> None:
    before = case.snapshot()
    case.add(2, 3)
    case.run()
    case.roll_back(before)
    case.add(10)


def iceberg_rolled_back_behind_a_planned_batch(case: Case) -> None:
    before = case.snapshot()
    case.add(2, 3)
    case.run()
    case.uncommit()
    case.roll_back(before)


def iceberg_expired(case: Case) -> None:
    case.add(2, 3)
    case.expire()


def iceberg_expired_in_between(case: Case) -> None:
    case.spark.sql(f"ALTER TABLE {case.name} CREATE TAG kept AS OF VERSION {case.snapshot()}")
    case.add(2, 3)
    case.expire()


def iceberg_begun_empty(case: Case) -> None:
    """The query has begun when the table was empty, and a first snapshot has come and expired since."""
    case.add(0, 1)
    case.expire()


def run(case: Case, happens: Callable[[Case], None]) -> dict[str, object]:
    if happens is not iceberg_begun_empty:
        case.add(0, 1)
    case.run()
    happens(case)
    found: dict[str, object] = {"case": happens.__name__}
    sources = sources_of_plan(case.frame()._jdf.queryExecution().analyzed())
    assert sources is not None
    try:
        told = refuse_gone(case.directory, sources, case.spark._jvm)
        found["told"] = [[problem.reason, problem.message] for problem in told]
    except SourceGone as e:
        found["refused"] = [e.message, e.remedy]
    try:
        case.run()
        found["rows"] = case.rows()
    except StreamingQueryException as e:
        found["error"] = str(e)
    case.spark.conf.unset(IGNORE_MISSING)
    return found


def main() -> None:
    home = Path(sys.argv[1])
    builder = SparkSession.builder
    for key, value in json.loads(sys.argv[2]).items():
        builder = builder.config(key, value)
    spark = builder.config("spark.databricks.delta.retentionDurationCheck.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for name in sys.argv[3:]:
        print(json.dumps(run(Case(spark, home, name), globals()[name])), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
