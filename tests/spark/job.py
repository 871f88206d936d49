"""The script that the tests of the whole runtime drive, apps/windows.py, and its input."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.runtime.disks import Storage

from .apps.windows import SCHEMA, windows
from .feeds import in_order

APP = Path(__file__).parent / "apps" / "windows.py"


class Feed:
    """Input files, a minute of event time apart, so that windows stay open until somebody drains."""

    def __init__(self, home: Path) -> None:
        self.source, self.sink = home / "in", home / "out"
        self.source.mkdir(parents=True)
        self.storage: Storage | None = None  # if the sink is not in a folder of this machine
        self._next = 0

    def add(self, files: int) -> None:
        for _ in range(files):
            rows = [
                {
                    "t": f"2026-01-01T{m // 60:02}:{m % 60:02}:{s:02}.000Z",
                    "k": f"k{s % 3}",
                    "v": self._next * 10 + s,
                }
                for m in [self._next]
                for s in range(0, 60, 10)
            ]
            hidden = self.source / f".{self._next:04}.json"
            hidden.write_text("\n".join(map(json.dumps, rows)) + "\n")
            in_order(hidden, self._next)
            hidden.rename(self.source / f"{self._next:04}.json")
            self._next += 1

    def arguments(self, how: str = "await") -> tuple[str, str, str]:
        return str(self.source), self.sink_uri, how

    @property
    def sink_uri(self) -> str:
        return self.storage.uri(self.sink) if self.storage else str(self.sink)

    def output(self, spark: SparkSession) -> list[tuple[object, ...]]:
        if not (self.sink / "_spark_metadata").exists():
            return []
        rows = spark.read.parquet(self.sink_uri).select("window.start", "k", "n", "s").collect()
        return sorted(tuple(r) for r in rows)

    def read_files(self, checkpoint: Path) -> list[str]:
        """The input files that a query has read, from the file source's own log, if it has begun one."""
        log = (checkpoint / "sources" / "0").glob("[!.]*")
        entries = [line for f in log for line in f.read_text().splitlines()[1:]]
        return sorted({json.loads(line)["path"] for line in entries})

    def expected(self, spark: SparkSession) -> list[tuple[object, ...]]:
        batch = windows(spark.read.schema(SCHEMA).json(str(self.source)))
        return sorted(tuple(r) for r in batch.select("window.start", "k", "n", "s").collect())
