"""Whether a Spark context has something to finish before its JVM ends.

What `SparkContext.stop()` does is for others: listeners that wait for the application's end, the event log,
executors, metrics, folders on a volume. A context that has none of them may end with its process.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark import SparkContext

# Spark's own listeners, by simple name: what they have is in the memory of the JVM, and what they must still
# hear is delivered. Not among them: EventLoggingListener, and everything that came by a setting or a library.
IN_MEMORY = frozenset(
    {"AppStatusListener", "SQLAppStatusListener", "HeartbeatReceiver", "StreamingQueryListenerBus"}
)
# Settings of what a stop ends outside of the JVM, or of folders that it deletes and that may be on a volume.
SETTINGS = (
    "spark.plugins", "spark.metrics.conf", "spark.local.dir", "spark.ui.store.path", "spark.shuffle.manager",
    "spark.shuffle.sort.io.plugin.class",
)  # fmt: skip
VARIABLES = ("SPARK_LOCAL_DIRS", "LOCAL_DIRS")  # folders, as spark.local.dir
METRICS = "metrics.properties"  # found on the class path, where spark.metrics.conf is not set


def left_to_finish(context: SparkContext, environment: Collection[str]) -> str | None:
    """What needs the context's orderly stop; None if nothing does.

    If it is None, the listeners have heard of everything that has happened so far.

    :param environment: names of the process's variables.
    :raises Exception: Spark, or this version of it, does not answer.
    """
    master = str(context.master)
    if master != "local" and not master.startswith("local["):
        return f"executors of {master}"
    java: Any = context
    spark = java._jsc.sc()
    settings = {line.partition("=")[0] for line in spark.conf().toDebugString().splitlines()}
    by_setting = [s for s in settings if s.startswith(SETTINGS)] + [v for v in VARIABLES if v in environment]
    if by_setting:
        return f"the setting {by_setting[0]}"
    if spark.getClass().getClassLoader().getResource(METRICS) is not None:
        return METRICS
    if len(spark.statusTracker().getActiveJobIds()):
        return "a running job"
    bus = spark.listenerBus()
    listeners = bus.listeners()
    for i in range(listeners.size()):
        kind = listeners.get(i).getClass()
        if not (kind.getName().startswith("org.apache.spark.") and kind.getSimpleName() in IN_MEMORY):
            return f"the listener {kind.getName()}"
    bus.waitUntilEmpty()
    return None
