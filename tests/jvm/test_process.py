"""How the driver's JVM died, in words."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from streamjob.jvm import process


def died(monkeypatch: pytest.MonkeyPatch, code: str) -> process.JvmDied | None:
    """What is said of a JVM that ends so."""
    child = subprocess.Popen([sys.executable, "-c", f"import os, signal; {code}"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=child))
    return process.await_death()


@pytest.mark.parametrize("code", [3, 52])
def test_a_full_heap_has_a_reason_of_its_own(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """3: ExitOnOutOfMemoryError. 52: Spark, for a task."""
    found = died(monkeypatch, f"os._exit({code})")
    assert found is not None
    assert (found.reason, found.retryable) == ("JvmOutOfMemory", True)
    assert found.message == f"the driver's JVM ran out of memory and exited with code {code}"
    assert "spec.driver.memory" in found.remedy


def test_other_ends_have_not(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = died(monkeypatch, "os.kill(os.getpid(), signal.SIGKILL)")
    assert killed is not None
    assert (killed.reason, killed.message) == ("JvmDied", "the driver's JVM was killed by SIGKILL")
    assert died(monkeypatch, "os._exit(0)") is None
