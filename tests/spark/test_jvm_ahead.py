"""A script gets the JVM that it asks for, whether one was started ahead of it or not."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from .feeds import eventually
from .terminal import Terminal

REPLACED = "the JVM that was started ahead is replaced: "
DECIDES = "the script decides about "
# It has been told to end when pkill is back. It has ended when that can be waited for.
KILLS_IT = (
    'subprocess.run(["pkill", "-9", "-P", str(os.getpid())]); os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)'
)
SCRIPT = """
import os, subprocess, sys
from pyspark.sql import SparkSession
{before}
builder = SparkSession.builder.appName("mine").config("spark.sql.shuffle.partitions", "3")
spark = builder{builder}.getOrCreate()
jvm, context = spark._jvm, spark.sparkContext
given = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
(heap,) = (word for word in given if word.startswith("-Xmx"))
children = subprocess.run(["pgrep", "-c", "-P", str(os.getpid()), "java"], capture_output=True, text=True)
print("found", heap, jvm.System.getenv("MINE"), context.appName,
      spark.conf.get("spark.sql.shuffle.partitions"), children.stdout.strip(), flush=True)
frame = spark.readStream.format("rate").load()
frame.writeStream.queryName("q").format("noop").trigger(availableNow=True).start().awaitTermination()
"""


@pytest.mark.parametrize(
    ("before", "builder", "replaced", "found"),
    [
        ("", "", None, ["-Xmx1g", "None"]),
        ("", '.config("spark.driver.memory", "600m")', "spark.driver.memory", ["-Xmx600m", "None"]),
        ('os.environ["MINE"] = "yes"', "", "the variable MINE", ["-Xmx1g", "yes"]),
        ("os.chdir('/')", "", "the working directory", ["-Xmx1g", "None"]),
        (KILLS_IT, "", "it ended with code -9", ["-Xmx1g", "None"]),
    ],
    ids=["as it is", "an option of the JVM", "its environment", "where it starts", "it dies"],
)
def test_the_script_decides(
    tmp_path: Path, before: str, builder: str, replaced: str | None, found: list[str]
) -> None:
    with started(tmp_path, SCRIPT.format(before=before, builder=builder)) as script:
        _, log = script.ended()
    (words,) = (line.split()[1:] for line in log.splitlines() if line.startswith("found "))
    assert words == [*found, "mine", "3", "1"]
    assert [
        line.split(REPLACED)[1].removeprefix(DECIDES) for line in log.splitlines() if REPLACED in line
    ] == ([] if replaced is None else [replaced])


def test_a_script_without_spark_leaves_no_jvm(tmp_path: Path) -> None:
    with started(tmp_path, "print('no Spark')\n") as script:
        assert script.ended()[0] == 1
    group = script.process.pid
    eventually(lambda: not is_there(group), "the end of the processes of the job")


def test_a_script_that_is_stopped_while_its_own_jvm_starts_leaves_none(tmp_path: Path) -> None:
    """pyspark deletes the folder in which that would say where it listens."""
    script = """
import os, subprocess
from pyspark.sql import SparkSession
start = subprocess.Popen
def starts(*given, **options):
    process = start(*given, **options)
    print("its own", process.pid, flush=True)
    os.kill(os.getpid(), 15)
    return process
subprocess.Popen = starts
SparkSession.builder.config("spark.driver.memory", "600m").getOrCreate()
"""
    with started(tmp_path, script) as running:
        code, log = running.ended()
    (pid,) = (line.split()[2] for line in log.splitlines() if line.startswith("its own "))
    assert code == 0, log
    assert not Path(f"/proc/{pid}").exists(), "the JVM that was starting goes on"


def is_there(group: int) -> bool:
    try:
        os.killpg(group, signal.SIGCONT)
    except ProcessLookupError:
        return False
    return True


def started(home: Path, script: str) -> Terminal:
    file = home / "app.py"
    file.write_text(script)
    return Terminal(home / "state", file)
