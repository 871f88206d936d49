"""A job resumes with another version of Spark than the one that wrote its checkpoint."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.runtime.spark.versions.table import line, order

from .feeds import eventually
from .scripts import Script
from .terminal import Terminal

ROOT = Path(__file__).parents[2]
HOUR = 60  # minutes
DEFAULT = "4.1"  # the Spark of .venv, in which these tests run
STORE = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
UP, DOWN = ("3.5", "4.0", "4.1", "4.2", "4.3"), ("4.3", "4.2", "4.1", "4.0", "3.5")

SCRIPT = """
spark.conf.set("spark.sql.streaming.stateStore.providerClass", sys.argv[2])
rows = read("in")
start("sums", windows(rows))
start("once", rows.withWatermark("t", "10 minutes").dropDuplicates(["t", "k"]).select("v"))
spark.streams.awaitAnyTermination()
"""


def python_of(version: str) -> Path:
    name = ".venv" if version == DEFAULT else f".venv-spark{version.replace('.', '')}"
    return ROOT / name / "bin" / "python"


@pytest.mark.parametrize("store", ["RocksDB", pytest.param("HDFSBacked", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "versions",
    [
        pytest.param(("3.5", "4.1", "4.3"), id="up"),
        pytest.param(("4.3", "4.1", "3.5"), id="down"),
        pytest.param(UP, marks=pytest.mark.slow, id="each up"),
        pytest.param(DOWN, marks=pytest.mark.slow, id="each down"),
    ],
)
def test_a_job_is_stopped_and_resumed_with_other_versions(
    spark: SparkSession, tmp_path: Path, versions: tuple[str, ...], store: str
) -> None:
    """All of its input is in the output once. A step down is warned of, with both versions."""
    if line(spark.version) != DEFAULT:
        pytest.skip(f"it starts the other versions itself, from {DEFAULT}")
    if absent := [v for v in versions if not python_of(v).exists()]:
        pytest.skip(
            f"no environment with Spark {', '.join(absent)}: make venv-spark{absent[0].replace('.', '')}"
        )
    script, state = Script(tmp_path, SCRIPT), tmp_path / "state"
    arguments = (str(tmp_path), STORE.format(store))

    def runs(version: str, *options: str) -> Terminal:
        return Terminal(state, script.file, *options, arguments=arguments, python=str(python_of(version)))

    for number, version in enumerate(versions):
        script.feed.minutes(number * HOUR, (number + 1) * HOUR, 5)
        with runs(version) as driver:
            await_read(state, number)
            code, shown = driver.interrupt(signal.SIGTERM).ended()
        assert code == 0, shown
        before = versions[max(number - 1, 0)]
        warned = f"Spark {before}." in shown and "does not promise" in shown
        assert warned == (order(before) > order(version)), shown
    with runs(versions[-1], "--drain") as driver:
        code, shown = driver.ended()
    assert code == 0, shown
    assert script.values(spark, "sums") == script.windows(spark)
    assert script.values(spark, "once") == list(range(0, len(versions) * HOUR, 5))


def await_read(state: Path, number: int) -> None:
    """Wait until both queries have planned a batch with the newest file."""
    name = f"{number:05}.json"

    def read(query: str) -> bool:
        logs = (state / "checkpoints" / query / "0" / "sources" / "0").glob("[0-9]*")
        return any(name in log.read_text() for log in logs)

    eventually(lambda: read("sums") and read("once"), f"{name} is read", 120)
