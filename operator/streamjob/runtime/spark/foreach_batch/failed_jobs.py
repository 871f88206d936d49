"""Whether SIGTERM has failed Spark jobs of a batch.

Whoever ends the job may send SIGTERM to each of its processes, as systemd does by default. The driver and
its JVM take it as a request to stop. A Python worker dies of it, and a foreachBatch function may catch the
error in which that arrives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

sigterm = threading.Event()  # has come

_BUS_MILLISECONDS = 10_000


def after_sigterm(callback: Callable[[], None]) -> Callable[[], None]:
    """What to call when SIGTERM has come: it is noted first."""

    def come() -> None:
        sigterm.set()
        callback()

    return come


def failed_since(frame: DataFrame, began: float) -> bool:
    """Whether a Spark job of the frame's application has failed, in whichever thread it was started.

    :param began: seconds of `time.time`.
    """
    context: Any = frame.sparkSession.sparkContext
    scala, jvm = context._jsc.sc(), context._jvm
    scala.listenerBus().waitUntilEmpty(_BUS_MILLISECONDS)  # AppStatusListener learns of a failure later
    failed = jvm.java.util.Collections.singletonList(jvm.org.apache.spark.JobExecutionStatus.FAILED)
    jobs = scala.statusStore().jobsList(failed)
    ends = [jobs.apply(n).completionTime() for n in range(jobs.size())]
    return any(end.isDefined() and end.get().getTime() >= began * 1000 for end in ends)
