"""Tables of each format: no row is lost and none comes twice, or the query is refused.

Files in are values in: each minute of a `Feed` is one row, so a table is right if it has each value once.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.demo.waiting import PATIENCE
from dev.localdriver import LocalDriver
from dev.tables import formats
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.runtime.savepoints.layout import read_manifest
from tests import gate
from tests.runtime.localfiles import LocalFiles

from .feeds import eventually
from .lakes import Lake
from .scripts import Script, await_batch

pytestmark = [
    pytest.mark.default_spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not formats(), reason="no format exists for this Spark"),
]
ROLLBACK = {
    "delta": "RESTORE TABLE",
    "iceberg": "rollback_to_snapshot",
}


@pytest.fixture(params=gate.slow_but(formats()[-1:], formats()))
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    made = Lake(tmp_path, request.param)
    yield made
    made.close()


@pytest.fixture
def script(lake: Lake, tmp_path: Path) -> Script:
    return Script(tmp_path, f'(read("in").select("v"){lake.write()}.awaitTermination())')


def another_job(lake: Lake, script: Script, table: str, savepoint: str | None, epoch: int = 1) -> LocalDriver:
    """It has the same input, its own checkpoints, and begins from a savepoint."""
    home = script.home / "another"
    home.mkdir(exist_ok=True)
    file = home / "app.py"
    file.write_text(script.file.read_text().replace(lake.write(), lake.write(table)))
    restore = Restore(savepoint=savepoint)
    return LocalDriver(home, file, str(script.home), spark_conf=lake.settings, restore=restore, epoch=epoch)


def run(lake: Lake, script: Script, before: LocalDriver | None = None, **config: object) -> LocalDriver:
    """The script as a StreamJob: its first driver, or the next one after `before`."""
    if before is not None:
        return script.next(before, spark_conf=lake.settings, **config)
    return script.driver(spark_conf=lake.settings, **config)


def feed(script: Script, first: int, last: int) -> None:
    """A file of one row for each value: a batch of its own, unless the query takes several at once."""
    for value in range(first, last):
        script.feed.minutes(value, value + 1)


def await_values(lake: Lake, driver: LocalDriver, number: int) -> None:
    def there() -> bool:
        return len(lake.values()) >= number

    eventually(lambda: there() or driver.process.poll() is not None, f"{number} rows", PATIENCE)
    assert there(), driver.tail()


def stopped(
    lake: Lake, script: Script, rows: int, before: LocalDriver | None = None, **config: object
) -> LocalDriver:
    """As `run`; it was stopped when the table had so many rows."""
    with run(lake, script, before, **config) as driver:
        await_values(lake, driver, rows)
        driver.finish(Mode.STOP)
    return driver


def problem(driver: LocalDriver, reason: str = "SinkAhead") -> tuple[str, str]:
    """Message and remedy of a driver that refuses its script."""
    with driver:
        assert driver.wait() == 1, driver.tail()
    found = driver.report().problem
    assert found is not None
    assert found.reason == reason, driver.tail()
    return found.message, found.remedy


def forget_commit(directory: Path) -> None:
    """Leave the directory as a crash between the table's commit and Spark's does."""
    last = max((f for f in (directory / "commits").glob("[0-9]*")), key=lambda f: int(f.name))
    last.unlink()
    (directory / "commits" / f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.slow
def test_stop_crash_and_drain(lake: Lake, script: Script) -> None:
    feed(script, 0, 2)
    driver = stopped(lake, script, 2)
    feed(script, 2, 4)
    with run(lake, script, driver) as driver:
        await_values(lake, driver, 4)
        await_batch(driver, "lake", 3)
    forget_commit(script.home / "checkpoints" / "lake" / "0")
    feed(script, 4, 5)
    with run(lake, script, driver, exact=False) as driver:
        await_values(lake, driver, 5)
        driver.finish(Mode.DRAIN)
    assert lake.values() == [0, 1, 2, 3, 4]


def test_a_plain_job_that_was_killed_goes_on_with_its_query_id(lake: Lake, script: Script) -> None:
    """With a new id, the batch that the table has and the commit log has not would come twice."""
    bare = script.home / "bare"
    feed(script, 0, 3)
    query = lake.run(script.home / "in", bare)
    forget_commit(bare)
    feed(script, 3, 5)
    stopped(lake, script, 5, restore=Restore(checkpoints={"lake": bare.as_uri()}))
    assert lake.values() == [0, 1, 2, 3, 4]
    assert query in (script.home / "checkpoints" / "lake" / "0" / "metadata").read_text()


@pytest.mark.slow
def test_a_directory_that_was_set_back_is_refused(lake: Lake, script: Script) -> None:
    """Without the refusal, the table skips the batches and rows are lost, as the last lines show."""
    bare, older = script.home / "bare", script.home / "older"
    feed(script, 0, 2)
    lake.run(script.home / "in", bare)
    shutil.copytree(bare, older)
    feed(script, 2, 4)
    lake.run(script.home / "in", bare)
    feed(script, 4, 6)
    message, remedy = problem(run(lake, script, restore=Restore(checkpoints={"lake": older.as_uri()})))
    assert "batches up to 3 of query 'lake'" in message
    assert "ends with batch 1" in message
    assert ROLLBACK[lake.format] in remedy
    assert not (script.home / "checkpoints" / "lake" / "0" / "offsets").exists()
    lake.run(script.home / "in", older, files=2)
    assert lake.values() == [0, 1, 2, 3]  # 4 and 5 were in batch 3 of the older directory


@pytest.mark.slow
def test_an_older_savepoint_needs_the_table_of_that_time(lake: Lake, script: Script) -> None:
    """Without the refusal, the rows behind the savepoint come twice. The remedy is what has to be done."""
    feed(script, 0, 2)
    with run(lake, script) as driver:
        await_values(lake, driver, 2)
        record = driver.finish(Mode.STOP)
    assert record.savepoint is not None
    feed(script, 2, 4)
    driver = stopped(lake, script, 4, driver)
    files: Any = LocalFiles()
    (recorded,) = read_manifest(files, record.savepoint).tables
    message, remedy = problem(another_job(lake, script, lake.table, record.savepoint))
    assert str(recorded.version) in remedy
    assert "batches up to 3 of query 'lake', and the savepoint ends with batch 1" in message
    for statement in remedy[remedy.index("after ") + len("after ") :].split("; "):
        lake.sql(statement)
    assert lake.values() == [0, 1]
    feed(script, 4, 5)
    with another_job(lake, script, lake.table, record.savepoint, epoch=2) as driver:
        await_values(lake, driver, 5)
        driver.finish(Mode.STOP)
    assert lake.values() == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_a_fork_writes_to_another_table(lake: Lake, script: Script) -> None:
    feed(script, 0, 2)
    with run(lake, script) as driver:
        await_values(lake, driver, 2)
        record = driver.finish(Mode.STOP)
    feed(script, 2, 3)
    driver = stopped(lake, script, 3, driver)
    fork = lake.named("fork")
    lake.create(fork)
    with another_job(lake, script, fork, record.savepoint) as driver:
        eventually(lambda: lake.values(fork) or driver.process.poll() is not None, "the fork's rows")
        driver.finish(Mode.STOP)
    assert (lake.values(), lake.values(fork)) == ([0, 1, 2], [2])


@pytest.mark.slow
def test_a_table_that_was_dropped_is_not_begun_again_in_silence(lake: Lake, script: Script) -> None:
    feed(script, 0, 2)
    driver = stopped(lake, script, 2)
    lake.drop()
    message, remedy = problem(run(lake, script, driver), "SinkGone")
    assert lake.table in message
    assert "create it empty" in remedy


@pytest.mark.slow
def test_a_table_that_was_brought_back_is_refused(lake: Lake, script: Script) -> None:
    """Without the refusal, the query goes on behind the rows that are gone. Others may append rows."""
    feed(script, 0, 4)
    with run(lake, script) as driver:
        await_values(lake, driver, 4)
        driver.finish(Mode.STOP)
    older = lake.version_with(2)
    lake.insert(100)
    lake.back_to(older)
    refused = run(lake, script, driver)
    message, remedy = problem(refused, "SinkBehind")
    assert "no longer has the batches 2 to 3 of query 'lake'" in message
    assert lake.shown in message
    feed(script, 4, 5)
    lake.sql(remedy[remedy.index(": ") + 2 : remedy.index(", or make")])
    lake.insert(101)
    stopped(lake, script, 6, refused)
    assert lake.values() == [0, 1, 2, 3, 4, 101]


@pytest.mark.slow
def test_a_table_whose_files_are_older_is_refused_and_one_that_is_new_is_a_warning(
    lake: Lake, script: Script
) -> None:
    """No history says what has happened."""
    folder = script.home / ("ice/db/table" if lake.format == "iceberg" else "table")
    feed(script, 0, 2)
    driver = stopped(lake, script, 2)
    shutil.copytree(folder, script.home / "older")
    feed(script, 2, 4)
    driver = stopped(lake, script, 4, driver)
    shutil.rmtree(folder)
    shutil.copytree(script.home / "older", folder)
    refused = run(lake, script, driver)
    message, remedy = problem(refused, "SinkBehind")
    assert "ends with batch 1 of query 'lake', which has committed up to batch 3" in message
    assert "of batch 1 or before" in remedy
    lake.drop()
    lake.create(lake.table)
    feed(script, 4, 5)
    refused.record = driver.record
    with run(lake, script, refused) as driver:
        await_values(lake, driver, 1)
        assert [w.reason for w in driver.status().warnings] == ["SinkReplaced"]
        driver.finish(Mode.STOP)
    assert lake.values() == [4]


@pytest.mark.slow
def test_a_table_with_another_schema_is_refused_before_a_batch_is_planned(lake: Lake, script: Script) -> None:
    feed(script, 0, 2)
    driver = stopped(lake, script, 2)
    if lake.format == "delta":
        versions = "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5'"
        lake.sql(
            f"ALTER TABLE {lake.name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', {versions})"
        )
    lake.sql(f"ALTER TABLE {lake.name} RENAME COLUMN v TO w")
    feed(script, 2, 3)
    before = driver.boundary("lake")
    refused = run(lake, script, driver)
    message, remedy = problem(refused, "SinkSchema")
    assert lake.shown in message
    assert "query 'lake'" in message
    assert "ALTER TABLE" in remedy
    assert driver.boundary("lake") == before
    lake.sql(f"ALTER TABLE {lake.name} ADD COLUMNS (v BIGINT)")
    driver = stopped(lake, script, 3, refused)
    assert lake.values() == [None, None, 2]
