"""A job that is killed at random moments while it writes to tables of each format in the ways of users.

Each file is one row. So a table is right at any moment if it has the rows of all batches in Spark's commit
log, and perhaps those of the one batch that Spark has only planned. Most of the time goes into the start of
what is killed: so each driver runs two of the queries, one for each format if its session can have two.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from dev.tables import formats
from streamjob.protocol.messages.commands import Mode

from .feeds import eventually
from .lakes import Lake
from .scripts import Script

KILLS = int(os.environ.get("STREAMJOB_KILLS", "30"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(7200),
    pytest.mark.skipif(not formats(), reason="no format exists for this Spark"),
]
# Arguments: the folder, files for each batch, and the queries to start, by the names of their tables.
APP = """
files = int(sys.argv[2])


def start(name):
    return read("in", files).select("v").writeStream.queryName(name).trigger(**OFTEN)


def append(frame, batch):
    writer = frame.write.format("delta").mode("append")
    writer.option("txnAppId", "lake").option("txnVersion", batch).save(f"{home}/appended")


def merge(table):
    def write(frame, batch):
        frame.createOrReplaceTempView("batch")
        frame.sparkSession.sql(
            f"MERGE INTO {table} t USING batch b ON t.v = b.v WHEN NOT MATCHED THEN INSERT *"
        )
    return write


for name in sys.argv[3:]:
    if name == "path":
        start(name).format("delta").start(f"{home}/path")
    elif name == "named":
        spark.sql(f"CREATE TABLE IF NOT EXISTS named (v BIGINT) USING delta LOCATION '{home}/named'")
        start(name).format("delta").toTable("named")
    elif name == "appended":
        start(name).foreachBatch(append).start()
    elif name == "merged":
        start(name).foreachBatch(merge(f"delta.`{home}/merged`")).start()
    elif name == "ice":
        start(name).toTable("`ice-lake`.db.ice")
    elif name == "ice_merged":
        start(name).foreachBatch(merge("`ice-lake`.db.ice_merged")).start()
spark.streams.awaitAnyTermination()
"""
WAYS = {  # by table: its format
    "path": "delta",
    "named": "delta",
    "appended": "delta",
    "merged": "delta",
    "ice": "iceberg",
    "ice_merged": "iceberg",
}
FILES = 5  # between two kills: all of the queries together are always behind


class Tables:
    """Those that the job writes to, by the names of their queries."""

    def __init__(self, home: Path, lake: Lake) -> None:
        self._home, self._lake = home, lake
        names = [name for name, form in WAYS.items() if form in formats()]
        self.names = {n: f"`ice-lake`.db.{n}" if WAYS[n] == "iceberg" else str(home / n) for n in names}
        for name, table in self.names.items():
            lake.create(table, WAYS[name])

    def rows(self) -> dict[str, int]:
        found = dict.fromkeys(self.names, 0)
        counts = [f"SELECT '{name}', COUNT(*) FROM {table}" for name, table in self._in_sql().items()]
        answer = self._lake.sql(" UNION ALL ".join(counts))
        return found | {str(name): int(number) for name, number in answer}

    def some(self, chance: random.Random) -> list[str]:
        """Two tables in any order, of different formats if there are two."""
        names = [[n for n in self.names if WAYS[n] == form] for form in formats()]
        if len(names) == 1:
            return chance.sample(names[0], 2)
        found = [chance.choice(those) for those in names]
        chance.shuffle(found)
        return found

    def values(self, name: str) -> list[int]:
        table = self._in_sql()[name]
        return [value for (value,) in self._lake.sql(f"SELECT v FROM {table} ORDER BY v")]

    def _in_sql(self) -> dict[str, str]:
        return {n: self._lake.in_sql(table, WAYS[n]) for n, table in self.names.items()}

    def batches(self, log: str) -> dict[str, int]:
        """The last batch of each query in one of its logs, `offsets` or `commits`; -1 if there is none."""
        return {name: _last(self._home / "checkpoints" / name / "0" / log) for name in self.names}

    def rows_in(self, log: str) -> dict[str, int]:
        """How many rows each query has in the batches of one of its logs.

        A batch has two of them where a kill came between the log of the source and the offset log.
        """
        found = {}
        for name, batch in self.batches(log).items():
            entry = self._home / "checkpoints" / name / "0" / "offsets" / str(batch)
            found[name] = json.loads(entry.read_text().splitlines()[-1])["logOffset"] + 1 if batch >= 0 else 0
        return found

    def await_work(self, driver: LocalDriver, names: list[str]) -> None:
        """Wait until each of the queries has committed what it had planned before, and has planned more."""
        before = self.batches("offsets")

        def each_has_more() -> bool:
            now = self.batches("offsets")
            return all(now[name] > before[name] for name in names)

        eventually(lambda: each_has_more() or driver.process.poll() is not None, "a batch of each query", 900)
        assert driver.process.poll() is None, driver.tail()

    def await_rows(self, driver: LocalDriver, number: int) -> None:
        def all_there() -> bool:
            return all(found >= number for found in self.rows().values())

        eventually(lambda: all_there() or driver.process.poll() is not None, f"{number} rows each", 900)
        assert driver.process.poll() is None, driver.tail()


def test_every_row_is_in_every_table_once(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    lake, script = Lake(tmp_path, formats()[0]), Script(tmp_path, APP)
    tables = Tables(tmp_path, lake)
    struck: Counter[tuple[str, str]] = Counter()  # by table and what the kill has left
    began = time.monotonic()
    driver: LocalDriver | None = None
    for kill in range(KILLS):
        for value in range(kill * FILES, (kill + 1) * FILES):
            script.feed.minutes(value, value + 1)
        names = tables.some(chance)
        with _next(script, lake, driver, 1, names) as driver:
            tables.await_work(driver, names)
            time.sleep(chance.uniform(0, 2))  # the moment of the kill is what is tried
        planned, committed = tables.rows_in("offsets"), tables.rows_in("commits")
        for name, rows in tables.rows().items():
            assert committed[name] <= rows <= planned[name], f"kill {kill}: {name} has {rows} rows"
            if name in names:
                struck[name, "kills"] += 1
                struck[name, "in a batch"] += planned[name] > committed[name]
                struck[name, "between table and log"] += rows > committed[name]
        print(f"kill {kill} after {time.monotonic() - began:.0f} s: {', '.join(names)}", flush=True)
    values = list(range(KILLS * FILES))
    with _next(script, lake, driver, 50, list(tables.names)) as driver:
        tables.await_rows(driver, len(values))
        driver.finish(Mode.DRAIN)
    print(f"{time.monotonic() - began:.0f} s")
    found = {name: tables.values(name) for name in tables.names}
    for name, there in found.items():
        print(
            name,
            *(f"{number} {what}" for (n, what), number in struck.items() if n == name),
            sep=", ",
            end=": ",
        )
        lost, twice = len(set(values) - set(there)), len(there) - len(set(there))
        print(f"{len(there)} rows, {lost} lost, {twice} twice")
    assert found == dict.fromkeys(tables.names, values)
    lake.close()


def _last(log: Path) -> int:
    """A file whose name begins with a dot is not complete."""
    return max((int(file.name) for file in log.glob("[0-9]*")), default=-1)


def _next(
    script: Script, lake: Lake, before: LocalDriver | None, files: int, names: list[str]
) -> LocalDriver:
    if before is None:
        return script.driver(str(files), *names, spark_conf=lake.settings)
    return script.next(before, str(files), *names, spark_conf=lake.settings)
