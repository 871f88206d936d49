"""Scripts that cannot be run as a job: the report names what is wrong and the remedy, and says whether a
retry helps.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase

pytestmark = pytest.mark.any_spark
HEAD = "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
RATE = "spark.readStream.format('rate').load().writeStream.format('noop')"

FAULTS = {
    "no query": ("print('hello')", "NoQueryStarted", False, "writeStream"),
    "syntax error": ("def broken(:\n", "ScriptSyntaxError", False, "script"),
    "raises": ("raise RuntimeError('no such table')", "ScriptFailed", True, "log"),
    "continuous": (
        f"{HEAD}{RATE}.trigger(continuous='1 second').start()",
        "UnsupportedTrigger",
        False,
        "processingTime",
    ),
    "connect": (
        "from pyspark.sql import SparkSession\nSparkSession.builder.remote('sc://localhost').getOrCreate()",
        "SparkConnectUnsupported",
        False,
        "classic",
    ),
    "asynchronous progress": (
        f"{HEAD}{RATE}.option('asyncProgressTrackingEnabled', True).start()",
        "AsyncProgressUnsupported",
        False,
        "asyncProgressTrackingEnabled",
    ),
    "same name": (
        f"{HEAD}for _ in 'ab': {RATE}.queryName('a').start()",
        "DuplicateQueryName",
        False,
        "queryName",
    ),
    "no names": (f"{HEAD}for _ in 'ab': {RATE}.start()", "QueryNameMissing", False, "queryName"),
    "a query in a batch": (
        f"{HEAD}def load(frame, batch):\n    try: {RATE}.start()\n    except Exception: pass\n"
        "rate = spark.readStream.format('rate').load().writeStream.queryName('outer').foreachBatch(load)\n"
        "rate.start().awaitTermination()",
        "QueryInForeachBatch",
        False,
        "frame.sparkSession.read",
    ),
    "shared sink": (
        f"{HEAD}from streamjob.sinks import FileSink\nsink = FileSink('/tmp/shared-sink')\n"
        "rows = spark.readStream.format('rate').load()\n"
        "for n in 'ab': rows.writeStream.foreachBatch(sink).queryName(n).start()",
        "SinkShared",
        False,
        "for each query",
    ),
    "a circle": (
        f"{HEAD}import os\nfor n in 'ab': os.makedirs('/tmp/circle/' + n, exist_ok=True)\n"
        "for a, b in ('ab', 'ba'):\n"
        "    lines = spark.readStream.text('/tmp/circle/' + a).writeStream.format('text')\n"
        "    lines.option('path', '/tmp/circle/' + b).queryName(b).start()",
        "StagesInACircle",
        False,
        "no stage of this job",
    ),
}


ELSEWHERE = ("continuous", "same name", "a circle")  # also shown on the cluster, or without Spark


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=pytest.mark.slow) if f in ELSEWHERE else f for f in FAULTS]
)
def test_a_script_that_is_no_job(tmp_path: Path, fault: str) -> None:
    source, reason, retryable, remedy = FAULTS[fault]
    script = tmp_path / "app.py"
    script.write_text(source)
    with LocalDriver(tmp_path, script) as driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == (reason, retryable)
    assert remedy in problem.remedy


@pytest.mark.parametrize(("fault", "mode"), [("raises", Mode.STOP), ("no query", Mode.DRAIN)])
def test_a_termination_that_waits_does_not_keep_a_script_that_is_no_job(
    tmp_path: Path, fault: str, mode: Mode
) -> None:
    """An earlier epoch was asked to end and died; this one finds nothing that it could end."""
    source, reason, *_ = FAULTS[fault]
    script = tmp_path / "app.py"
    script.write_text(source)
    asked = TerminationRequest(f"{mode.value.lower()}-1-2", 1, mode, (tmp_path / "savepoint").as_uri())
    with LocalDriver(tmp_path, script, epoch=2, termination=asked) as driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert problem.reason == reason


def test_a_stop_that_waits_ends_a_script_without_a_query(tmp_path: Path) -> None:
    """There is nothing to save, and it is no failure."""
    script = tmp_path / "app.py"
    script.write_text(FAULTS["no query"][0])
    asked = TerminationRequest("stop-1-2", 1, Mode.STOP, (tmp_path / "savepoint").as_uri())
    with LocalDriver(tmp_path, script, epoch=2, termination=asked, restore=Restore(exact=True)) as driver:
        assert driver.wait() == 0, driver.tail()
    report = driver.report()
    assert (report.phase, report.problem, report.completed) == (DriverPhase.STARTING, None, None)
    assert (report.exit_reason, report.unchanged_since) == ("the script has ended before a query began", 0)


def test_an_unreachable_checkpoint_location(tmp_path: Path) -> None:
    script = tmp_path / "app.py"
    script.write_text(f"{HEAD}{RATE}.start().awaitTermination()")
    (tmp_path / "checkpoints").write_text("a file where a folder is needed")
    with LocalDriver(tmp_path, script) as driver:
        assert driver.wait() == 1, driver.tail()
    problem = driver.report().problem
    assert problem is not None
    assert (problem.reason, problem.retryable) == ("NotADirectory", False)
    assert "spec.storage.checkpoints" in problem.message
    assert problem.remedy


def test_a_script_with_a_location_of_its_own_keeps_it(tmp_path: Path) -> None:
    own = tmp_path / "own"
    script = tmp_path / "app.py"
    script.write_text(f"{HEAD}{RATE}.option('CheckpointLocation', {str(own)!r}).start().awaitTermination()")
    with LocalDriver(tmp_path, script) as driver:
        driver.running()
        record = driver.finish(Mode.STOP)
    assert record.stages[0].tasks[0].location == f"file:{own}"
    assert not (tmp_path / "checkpoints").exists()


def test_a_query_may_be_stopped_from_inside_its_batch(tmp_path: Path) -> None:
    """The batch commits; a wait for its own end would hang it. So may another one, by a listener."""
    script = tmp_path / "app.py"
    script.write_text(
        f"{HEAD}"
        "import time\n"
        "from pyspark.sql.streaming import StreamingQueryListener\n"
        "queries = {}\n"
        "def stop(name):\n"
        "    while name not in queries: time.sleep(0.02)\n"
        "    queries[name].stop()\n"
        "class Stops(StreamingQueryListener):\n"
        "    def onQueryStarted(self, event): pass\n"
        "    def onQueryIdle(self, event): pass\n"
        "    def onQueryTerminated(self, event): pass\n"
        "    def onQueryProgress(self, event):\n"
        "        if event.progress.name == 'b' and event.progress.batchId == 1: stop('b')\n"
        "def batch(frame, number):\n"
        "    if number == 1: stop('a')\n"
        "spark.streams.addListener(Stops())\n"
        "rate = spark.readStream.format('rate').load()\n"
        "def start(name, function):\n"
        "    writer = rate.writeStream.queryName(name).foreachBatch(function)\n"
        "    queries[name] = writer.trigger(processingTime='100 milliseconds').start()\n"
        "start('a', batch)\n"
        "start('b', lambda frame, number: None)\n"
        "for query in queries.values(): query.awaitTermination()\n"
    )
    with LocalDriver(tmp_path, script) as driver:
        record = driver.finish()
    for stage in record.stages:
        assert stage.tasks[0].batch is not None
        assert stage.tasks[0].batch >= 1
        assert driver.boundary(stage.uid) == (stage.tasks[0].batch, stage.tasks[0].batch)
