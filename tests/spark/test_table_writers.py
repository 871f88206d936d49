"""Hudi tells queries apart by an option, which is the same for all that do not set it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.tables import formats

from .feeds import Feed
from .lakes import Lake
from .scripts import HEAD, Script
from .test_tables import feed, problem, run, stopped

pytestmark = [
    pytest.mark.default_spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif("hudi" not in formats(), reason="there is no Hudi for this Spark"),
]
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = Lake(tmp_path, "hudi")
    yield made
    made.close()


def app(lake: Lake, columns: str = '"v"', options: str = "") -> str:
    return f'(read("in").select({columns}){lake.write(options=options)}.awaitTermination())'


@pytest.mark.slow
def test_a_new_query_with_the_identifier_of_another_is_refused(lake: Lake) -> None:
    """Without the refusal, the first rows of the new one are lost, as those of a plain query are."""
    other = Feed(lake.home / "other")
    for value in range(10, 12):
        other.minutes(value, value + 1)
    lake.run(other.folder, lake.home / "bare")
    script = Script(lake.home, app(lake))
    feed(script, 0, 3)
    refused = run(lake, script)
    message, remedy = problem(refused)
    assert f"up to 1 of a query with {IDENTIFIER}=default_single_writer" in message
    assert "query 'lake', which has the same, begins with batch 0" in message
    assert IDENTIFIER in remedy
    lake.run(lake.home / "in", lake.home / "new")
    assert lake.values() == [2, 10, 11]
    script.file.write_text(HEAD + app(lake, options=f'.option("{IDENTIFIER}", "mine")'))
    stopped(lake, script, 6, refused)
    assert lake.values() == [0, 1, 2, 2, 10, 11]


@pytest.mark.slow
def test_columns_that_hudi_does_not_take_are_refused_before_a_batch_is_planned(lake: Lake) -> None:
    """Hudi would end the JVM with the first batch. It takes new columns that may be null."""
    script = Script(lake.home, app(lake, '"v", "k"'))
    feed(script, 0, 2)
    driver = stopped(lake, script, 2)
    feed(script, 2, 3)
    before = driver.boundary("lake")
    script.file.write_text(HEAD + app(lake))
    refused = run(lake, script, driver)
    message, _ = problem(refused, "SinkSchema")
    assert lake.shown in message
    assert "missing" in message
    assert driver.boundary("lake") == before
    script.file.write_text(HEAD + app(lake, '"v", "k", F.when(F.col("v") >= 0, 1).alias("w")'))
    stopped(lake, script, 3, refused)
    assert lake.values() == [0, 1, 2]


@pytest.mark.slow
def test_two_queries_of_a_job_that_are_one_writer_are_refused(lake: Lake) -> None:
    """The table would skip batches of one because of those of the other."""
    one = app(lake).replace(".awaitTermination()", "")
    script = Script(lake.home, f"{one}\n{one.replace('lake', 'sea', 1)}\nspark.streams.awaitAnyTermination()")
    message, remedy = problem(run(lake, script), "SinkShared")
    assert f"'lake' and 'sea' write to one table with {IDENTIFIER}=default_single_writer" in message
    assert IDENTIFIER in remedy
