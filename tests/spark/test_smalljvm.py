"""A JVM that does not come up says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from streamjob.jvm import standalone
from streamjob.jvm.standalone import NoJvm, SmallJvm, beside_the_script

from .feeds import eventually

pytestmark = pytest.mark.any_spark


def test_what_java_warns_of_at_every_start_is_not_the_reason() -> None:
    with pytest.raises(NoJvm, match=r"did not start: .*[Mm]aster"):
        SmallJvm({"spark.master": "nonsense"})


def test_it_ends_although_a_process_that_was_forked_meanwhile_holds_its_pipe() -> None:
    jvm = SmallJvm({})
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        jvm.close()
        assert jvm.has_ended
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_context_that_is_being_made_is_none_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = SimpleNamespace(jvm=None)
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    assert beside_the_script({}).gateway is gateway


def test_the_script_may_set_up_its_own_jvm_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """PYSPARK_SUBMIT_ARGS, just before its session."""
    submit, before = standalone.submit, dict(os.environ)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)

    def is_free() -> bool:
        free = SparkContext._lock.acquire(timeout=60)
        if free:
            SparkContext._lock.release()
        return free

    def meanwhile(*args: Any) -> Any:
        assert os.environ == {k: v for k, v in before.items() if k != "PYSPARK_SUBMIT_ARGS"}
        with ThreadPoolExecutor() as script:
            assert script.submit(is_free).result(), "the script has to wait for it"
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages its:own:1 pyspark-shell")
        return submit(*args)

    monkeypatch.setattr(standalone, "submit", meanwhile)
    jvm = SmallJvm({"spark.executor.name": "ours"})
    try:
        assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--packages its:own:1 pyspark-shell"
        assert jvm.jvm.java.lang.System.getProperty("spark.executor.name") == "ours"
        assert jvm.jvm.java.lang.System.getProperty("spark.jars.packages") is None
    finally:
        jvm.close()


# Prints the number of the process of the JVM, and exits while that starts.
EXITS_MEANWHILE = """
import threading, time
from streamjob.jvm import standalone

submitted = []
submit = standalone.submit
standalone.submit = lambda *given: submitted.append(submit(*given)) or submitted[-1]
threading.Thread(target=standalone.SmallJvm, args=({},), daemon=True).start()
while not submitted:
    time.sleep(0.01)
print(submitted[0].pid)
"""


def test_one_that_still_starts_when_its_process_exits_ends_too() -> None:
    ran = subprocess.run([sys.executable, "-c", EXITS_MEANWHILE], capture_output=True, text=True, check=True)
    eventually(lambda: not Path(f"/proc/{int(ran.stdout)}").exists(), "its end")
