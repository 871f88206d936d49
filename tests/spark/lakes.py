"""Delta and Iceberg tables for tests, and a session of somebody else's that reads and writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dev.localdriver import FAST
from dev.tables import formats, jars

from .apps import environment


def settings(home: Path) -> dict[str, str]:
    """What a session needs for tables of all formats. The Iceberg catalog `ice-lake` lies below `home`."""
    extensions = {
        "delta": "io.delta.sql.DeltaSparkSessionExtension",
        "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    found = {"spark.jars": jars(), "spark.sql.extensions": ",".join(extensions[f] for f in formats())}
    if "delta" in formats():
        found |= {
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
    if "iceberg" in formats():
        found |= {
            "spark.sql.catalog.ice-lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.ice-lake.type": "hadoop",
            "spark.sql.catalog.ice-lake.warehouse": str(home / "ice"),
            "spark.sql.catalog.ice-lake.cache-enabled": "false",
        }
    return found


class Lake:
    """A table of a test, and a plain PySpark session beside the job.

    :ivar table: as a script names it: a path for Delta, a name for Iceberg.
    :ivar name: as SQL names it.
    :ivar shown: what a message has of its name.
    """

    def __init__(self, home: Path, form: str) -> None:
        self.home = home
        self.format = form
        self.table = str(home / "table") if form == "delta" else "`ice-lake`.db.table"
        self.name = f"delta.`{self.table}`" if form == "delta" else self.table
        self.shown = self.table if form == "delta" else "`ice-lake`.`db`.`table`"
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
        self.sql(f"CREATE TABLE {self.name} (v BIGINT) USING {form}")

    def write(self, table: str | None = None) -> str:
        """How a script's writer ends: the name of the query, format and table."""
        table = table or self.table
        end = f'.format("delta").start("{table}")' if self.format == "delta" else f'.toTable("{table}")'
        return f'.writeStream.queryName("lake").trigger(**OFTEN){end}'

    def sql(self, text: str) -> list[list[Any]]:
        return self._ask({"sql": text})  # type: ignore[return-value]

    def run(self, folder: Path, checkpoint: Path, files: int = 1) -> str:
        """Run a plain query to the end of its input.

        :returns: its id.
        """
        command = {"run": self.format, "table": self.table, "from": str(folder), "at": str(checkpoint)}
        return str(self._ask({**command, "files": files}))

    def values(self, name: str | None = None) -> list[int]:
        return [value for (value,) in self.sql(f"SELECT v FROM {name or self.name} ORDER BY v")]

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
