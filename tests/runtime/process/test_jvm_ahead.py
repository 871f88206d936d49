"""Whether the JVM that was started ahead is the one that pyspark would start for the script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import streamjob
from streamjob.runtime.process.jvm_ahead import differs, differs_in

OURS = ["/spark/bin/spark-submit", "--properties-file", "/tmp/a/spark.properties", "pyspark-shell"]


def command(
    *settings: str, program: str = "/spark/./bin/spark-submit", rest: list[str] = OURS[1:]
) -> list[str]:
    return [program, *(word for setting in settings for word in ("--conf", setting)), *rest]


@pytest.mark.parametrize(
    "wanted",
    [
        command(),
        command("spark.app.name=a=b"),
        command("spark.app.name=x", "spark.sql.shuffle.partitions=2", "spark.sql.extensions=a.B"),
    ],
)
def test_what_the_session_sets_later_makes_no_difference(wanted: list[str]) -> None:
    assert differs(OURS, wanted) is None


@pytest.mark.parametrize(
    "key",
    ["spark.driver.memory", "spark.jars.packages", "spark.master", "spark.hadoop.fs.s3a.path", "spark.sq"],
)
def test_what_a_jvm_reads_at_its_start_does(key: str) -> None:
    assert differs(OURS, command("spark.app.name=x", f"{key}=1")) == key


@pytest.mark.parametrize(
    "wanted",
    [
        command(program="/other/bin/spark-submit"),
        command(rest=["pyspark-shell"]),
        command(rest=["--packages", "a:b:1", *OURS[1:]]),
        command("spark.app.name=x", rest=[]),
        ["/spark/bin/spark-submit", "--conf"],
    ],
)
def test_another_command_is_another_jvm(wanted: list[str]) -> None:
    assert differs(OURS, wanted) == "Spark's folder or PYSPARK_SUBMIT_ARGS"


def test_a_user_who_has_settings_in_the_submit_arguments_gets_them() -> None:
    ours = [OURS[0], "--conf", "spark.driver.memory=2g", "pyspark-shell"]
    assert differs(ours, list(ours)) is None
    assert differs(ours, [OURS[0], "--conf", "spark.app.name=x", *ours[1:]]) is None
    assert differs(ours, [OURS[0], "--conf", "spark.driver.memory=3g", *ours[1:]]) == "spark.driver.memory"


def test_the_environment_is_the_same_but_for_pysparks_own() -> None:
    ours = {"PATH": "/bin", "_PYSPARK_DRIVER_CONN_INFO_PATH": "/a", "SPARK_CONNECT_MODE": "0"}
    assert differs_in(ours, {"PATH": "/bin", "_PYSPARK_DRIVER_CONN_INFO_PATH": "/b"}) is None
    assert differs_in(ours, {**ours, "MY": "1"}) == "the variable MY"
    assert differs_in({**ours, "MY": "1"}, ours) == "the variable MY"
    assert differs_in(ours, {**ours, "PATH": "/usr/bin"}) == "the variable PATH"


# In the place of Spark's launcher: it says its own number in the file where a JVM says where it listens.
LAUNCHER = """#!/bin/sh
echo $$ > "$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
exec cat > /dev/null
"""
# Each process asks for a JVM as pyspark does, with an environment of its own. Prints whether it got that one.
FORKS = """
import os, subprocess, sys, time
from pathlib import Path
from pyspark import java_gateway
from streamjob.runtime.process.jvm_ahead import JvmAhead

home = Path(sys.argv[1])
ahead = JvmAhead(home, dict(os.environ))
ahead.lend()
child = os.fork()

def asks(name):
    said = home / name
    environment = {**os.environ, "MINE": name, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(said)}
    command = [str(Path(os.environ["SPARK_HOME"], "bin/spark-submit")), "pyspark-shell"]
    process = java_gateway.Popen(command, stdin=subprocess.PIPE, env=environment)
    while not said.exists():
        time.sleep(0.01)
    print(name, int(said.read_text()) == process.pid, flush=True)

asks(f"connection of {os.getpid()}")
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_forked_process_gets_a_jvm_of_its_own(tmp_path: Path) -> None:
    """Before the first session there is no JVM yet that the two could have in common."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").write_text(LAUNCHER)
    (tmp_path / "bin" / "spark-submit").chmod(0o755)
    source = str(Path(str(streamjob.__file__)).parents[1])
    environment = {**os.environ, "SPARK_HOME": str(tmp_path), "PYTHONPATH": source}
    command = [sys.executable, "-c", FORKS, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert sorted(line.split()[-1] for line in done.stdout.splitlines()) == ["True"] * 2, done
