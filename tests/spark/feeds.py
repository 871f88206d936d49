"""Input for streams: JSON files that appear whole, one micro-batch each."""

from __future__ import annotations

import json
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

START = time.time() - 3600
SCHEMA = "t timestamp, k string, v long"


def at(minute: float) -> str:
    """A time of 2026-01-01."""
    seconds = int(minute * 60)
    return f"2026-01-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.000Z"


class Feed:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._next = 0
        folder.mkdir(parents=True)

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Rows of one more file."""
        name = f"{self._next:05}.json"
        hidden = self.folder / f".{name}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        in_order(hidden, self._next)
        hidden.rename(self.folder / name)
        self._next += 1

    def minutes(self, first: int, last: int, step: int = 1) -> None:
        """A file with one row of every `step` minutes, keys k0 to k2 in turn."""
        self.add({"t": at(m), "k": f"k{m % 3}", "v": m} for m in range(first, last, step))

    def stream(self, spark: SparkSession, schema: str = SCHEMA, files: int = 1) -> DataFrame:
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).json(str(self.folder))

    def table(self, spark: SparkSession, schema: str = SCHEMA) -> DataFrame:
        return spark.read.schema(schema).json(str(self.folder))


def in_order(file: Path, number: int) -> None:
    """Spark reads files in the order of their times, and those of one millisecond in any order: more than a
    watermark bears.
    """
    when = START + number
    os.utime(file, (when, when))


def eventually(fact: Callable[[], object], what: str, seconds: float = 300) -> None:
    """Wait until something is the case."""
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline, f"waited {seconds} s for: {what}"
        time.sleep(0.005)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All rows in an order that does not depend on how they were computed."""
    return sorted((tuple(r) for r in frame.collect()), key=repr)


class Words(socketserver.ThreadingTCPServer):
    """Sends lines to whoever connects, as `nc -lk` of Spark's guide does.

    `at`: host and port, as arguments.
    """

    daemon_threads = True

    def __init__(self, *lines: str) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.at = ("127.0.0.1", str(self.server_address[1]))
        self._lines = lines or ("apache spark", "apache hadoop", "hello world")

    def finish_request(self, request: Any, client_address: Any) -> None:
        with suppress(OSError):
            for line in cycle(self._lines):
                request.sendall(f"{line}\n".encode())
                time.sleep(0.05)

    def __enter__(self) -> Words:
        threading.Thread(target=self.serve_forever, name="words", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()
