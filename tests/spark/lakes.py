"""Tables of each format for tests, and a session of somebody else's that reads and writes them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from dev.localdriver import FAST
from dev.tables import formats, jars

from .apps import environment

EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def settings(home: Path) -> dict[str, str]:
    """What a session needs for tables of all formats. The Iceberg catalog `ice-lake` lies below `home`."""
    those = formats()
    found = {"spark.jars": jars(), "spark.sql.extensions": ",".join(EXTENSIONS[form] for form in those)}
    if "delta" in those:
        found |= {
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    if "iceberg" in those:
        found |= {
            "spark.sql.catalog.ice-lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice-lake.type": "hadoop",
            "spark.sql.catalog.ice-lake.warehouse": str(home / "ice"),
            "spark.sql.catalog.ice-lake.cache-enabled": "false",
        }
    return found


class Lake:
    """A table of a test, and a plain PySpark session beside the job.

    A table is named as a script does it: by a path for Delta, by a name for Iceberg.

    :ivar table: as a script names it.
    :ivar name: as SQL names it.
    :ivar shown: what a message has of its name.
    """

    def __init__(self, home: Path, form: str) -> None:
        self.home = home
        self.format = form
        self.table = self.named("table")
        self.name = self.in_sql(self.table)
        self.shown = "`ice-lake`.`db`.`table`" if form == "iceberg" else self.table
        self.settings = settings(home)
        conf = {**FAST, **self.settings, "spark.ui.showConsoleProgress": "false"}
        self._log = (home / "lake.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.apps.lake", json.dumps(conf)],
            env=environment(),
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.create(self.table)

    def named(self, name: str) -> str:
        return f"`ice-lake`.db.{name}" if self.format == "iceberg" else str(self.home / name)

    def in_sql(self, table: str, form: str | None = None) -> str:
        """The name of a table in SQL.

        :param form: another format than the lake's.
        """
        return f"delta.`{table}`" if (form or self.format) == "delta" else table

    def create(self, table: str, form: str | None = None) -> None:
        form = form or self.format
        self.sql(f"CREATE TABLE {self.in_sql(table, form)} (v BIGINT) USING {form}")

    def drop(self) -> None:
        if self.format == "iceberg":
            self.sql(f"DROP TABLE {self.name}")
        else:
            shutil.rmtree(self.table)

    def write(self, table: str | None = None, options: str = "") -> str:
        """How a script's writer ends: the name of the query, format, options and table."""
        table = table or self.table
        end = (
            f'.toTable("{table}")'
            if self.format == "iceberg"
            else f'.format("{self.format}").start("{table}")'
        )
        return f'.writeStream.queryName("lake").trigger(**OFTEN){options}{end}'

    def sql(self, text: str) -> list[list[Any]]:
        return self._ask({"sql": text})  # type: ignore[return-value]

    def run(self, folder: Path, checkpoint: Path, files: int = 1) -> str:
        """Run a plain query to the end of its input.

        :returns: its id.
        """
        command = {"run": self.format, "table": self.table, "from": str(folder), "at": str(checkpoint)}
        return str(self._ask({**command, "files": files}))

    def insert(self, value: int) -> None:
        """As somebody else."""
        self.sql(f"INSERT INTO {self.name} VALUES ({value})")

    def values(self, table: str | None = None) -> list[int]:
        table = table or self.table
        return [value for (value,) in self.sql(f"SELECT v FROM {self.in_sql(table)} ORDER BY v")]

    def version_with(self, rows: int) -> int:
        """The version that the table had with so many rows, each in a commit of its own."""
        if self.format == "delta":
            return rows  # version 0 made the table
        text = f"SELECT snapshot_id FROM {self.name}.snapshots ORDER BY committed_at LIMIT {rows}"
        return int(self.sql(text)[-1][0])

    def back_to(self, version: int) -> None:
        if self.format == "delta":
            self.sql(f"RESTORE TABLE {self.name} TO VERSION AS OF {version}")
        else:
            self.sql(f"CALL `ice-lake`.system.rollback_to_snapshot('db.table', {version})")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._log.close()

    def _ask(self, command: dict[str, Any]) -> object:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, (self.home / "lake.log").read_text()[-3000:]
        return json.loads(line)
