"""`python -m streamjob.runtime state`: rows of a savepoint and of a checkpoint directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streamjob.runtime.savepoints.rows import cli
from streamjob.runtime.savepoints.rows.read import StateUnreadable, refuse_old_spark
from streamjob.storage.hadoop import HadoopFiles
from tests.runtime.queries import STAGE, Query

pytestmark = pytest.mark.default_spark
Output = pytest.CaptureFixture[str]


@pytest.fixture
def counts(spark: SparkSession, tmp_path: Path) -> Path:
    """The checkpoint directory of a query that has counted words in two batches."""
    source, checkpoints = tmp_path / "in", tmp_path / "cp"
    source.mkdir()
    for n, words in enumerate((["a", "b"], ["b", "c", "b"])):
        (source / f"{n}.json").write_text("".join(json.dumps({"word": w}) + "\n" for w in words))
        lines = spark.readStream.schema("word string").json(str(source))
        counted = lines.groupBy("word").agg(F.count("*").alias("n"))
        query = (
            counted.writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(checkpoints))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return checkpoints


def ask(spark: SparkSession, folder: Path, *words: object) -> int:
    """With the session that is there."""
    folder.mkdir(exist_ok=True)
    return cli.answer(spark, cli.parser().parse_args([str(w) for w in words]), str(folder))


def test_rows_of_a_checkpoint_directory(
    spark: SparkSession, counts: Path, tmp_path: Path, capsys: Output
) -> None:
    assert ask(spark, tmp_path / "x", "show", counts, "--json") == 0
    rows = {r["key"]["word"]: r["value"]["count"] for r in json.loads(capsys.readouterr().out)}
    assert rows == {"a": 1, "b": 3, "c": 1}
    assert ask(spark, tmp_path / "x", "show", counts, "--batch", 0, "--json") == 0
    rows = {r["key"]["word"]: r["value"]["count"] for r in json.loads(capsys.readouterr().out)}
    assert rows == {"a": 1, "b": 1}, "after the first batch"


def test_in_a_process_that_has_run_no_query(counts: Path) -> None:
    """Spark's reader asks for what a session starts with its first query."""
    command = [sys.executable, "-m", "streamjob.runtime", "state", "show", str(counts), "--key", "word=b"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, '{"word": "b"}  {"count": 3}\n'), ran.stderr
    assert ran.stderr == "", "Spark's greeting is not the user's"


def test_why_spark_does_not_start_is_shown(counts: Path) -> None:
    command = [sys.executable, "-m", "streamjob.runtime", "state", "show", str(counts)]
    ran = subprocess.run(
        [*command, "--conf", "spark.master=nowhere"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "Master must" in ran.stderr, "Java's own words"
    assert ran.stderr.splitlines()[-1].startswith("streamjob: Spark does not start: [JAVA_GATEWAY_EXITED]")


def test_rows_by_key_and_no_more_than_asked_for(
    spark: SparkSession, counts: Path, tmp_path: Path, capsys: Output
) -> None:
    assert ask(spark, tmp_path / "x", "show", counts, "--key", "word=b") == 0
    assert capsys.readouterr().out == '{"word": "b"}  {"count": 3}\n'
    assert ask(spark, tmp_path / "x", "show", counts, "--limit", 2) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "there are more than 2 rows" in err
    assert ask(spark, tmp_path / "x", "show", counts, "--key", "word=zzz") == 0
    assert "no such rows after batch 1" in capsys.readouterr().err


def test_stores(spark: SparkSession, counts: Path, tmp_path: Path, capsys: Output) -> None:
    assert ask(spark, tmp_path / "x", "stores", counts, "--json") == 0
    (store,) = json.loads(capsys.readouterr().out)
    assert (store["operator"], store["name"], store["store"]) == (0, "stateStoreSave", "default")
    assert (store["first_batch"], store["last_batch"]) == (0, 1)


def test_rows_of_a_savepoint_are_read_from_a_copy(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path, capsys: Output
) -> None:
    query = Query(files, tmp_path)
    query.batch()
    query.save("stop-1")
    place = query.root / "stop-1"
    before = {p: p.stat().st_mtime_ns for p in place.rglob("*")}
    with pytest.raises(StateUnreadable):  # its state is made by hand: no rows that Spark could read
        ask(spark, tmp_path / "x", "show", place, "--stage", STAGE)
    assert {p: p.stat().st_mtime_ns for p in place.rglob("*")} == before


def test_what_is_not_there(spark: SparkSession, counts: Path, tmp_path: Path) -> None:
    with pytest.raises(StateUnreadable, match="neither a savepoint nor"):
        ask(spark, tmp_path / "x", "show", tmp_path / "in")
    with pytest.raises(StateUnreadable, match="Spark cannot read this state"):
        ask(spark, tmp_path / "x", "show", counts, "--operator", 7)
    with pytest.raises(StateUnreadable, match="Spark cannot read this state"):
        ask(spark, tmp_path / "x", "show", counts, "--key", "nothing=1")


def test_a_spark_without_the_data_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.9")
    with pytest.raises(StateUnreadable, match=r"Spark 3\.5\.9 cannot"):
        refuse_old_spark()
