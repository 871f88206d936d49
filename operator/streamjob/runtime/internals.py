"""All that we use of Spark's private classes, by version. Nothing else in this project touches them.

Public are `awaitProgressLock()`, `state()`, `queryExecutionThread()` and `resolvedCheckpointRoot()` of `StreamExecution` in the
JVM's sense only: Spark promises nothing. A version enters the table once the test of random stops has passed on it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

_ROOT = "org.apache.spark.sql.execution.streaming"


@dataclass(frozen=True)
class Packages:
    """Where classes live. Spark 4.1 moved them out of one package into two."""

    runtime: str
    checkpointing: str


VERSIONS = {
    "4.0": Packages(_ROOT, _ROOT),
    "4.1": Packages(f"{_ROOT}.runtime", f"{_ROOT}.checkpointing"),
}


class Internals:
    """Of one SparkSession's JVM."""

    def __init__(self, spark: SparkSession, packages: Packages) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._packages = packages
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._active = self._singleton("ACTIVE$")
        self._terminated = self._singleton("TERMINATED$")

    @classmethod
    def of(cls, spark: SparkSession) -> Internals | None:
        """None for a version that is not in the table: the caller falls back to Spark's public API.

        STREAMJOB_SPARK_INTERNALS=off says the same of every version.
        """
        packages = VERSIONS.get(".".join(spark.version.split(".")[:2]))
        if packages is None or os.environ.get("STREAMJOB_SPARK_INTERNALS") == "off":
            return None
        return cls(spark, packages)

    def execution(self, query: StreamingQuery) -> Execution:
        """The query as its own thread sees it (`StreamExecution`)."""
        return Execution(self._jvm, query._jsq.streamingQuery(), self._active, self._terminated)

    def write_atomically(self, uri: str, text: str) -> None:
        """Write a file of a query's logs the way Spark writes it, so its own file manager's rules hold (CRC files,
        conditional writes on object stores). Fails if the file exists."""
        path = self._jvm.org.apache.hadoop.fs.Path(uri)
        companion = (
            self._class(f"{self._packages.checkpointing}.CheckpointFileManager$")
            .getField("MODULE$")
            .get(None)
        )
        manager = companion.create(path.getParent(), self._conf)
        stream = manager.createAtomic(path, False)
        try:
            stream.write(bytearray(text.encode()))
        except BaseException:
            stream.cancel()
            raise
        stream.close()

    def _singleton(self, name: str) -> Any:
        return self._class(f"{self._packages.runtime}.{name}").getField("MODULE$").get(None)

    def _class(self, name: str) -> Any:
        # py4j's own lookup does not find Scala's companion objects.
        return self._jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)


class Execution:
    """One `StreamExecution`: its progress lock, its state, and where its thread is."""

    def __init__(self, jvm: Any, stream: Any, active: Any, terminated: Any) -> None:
        self._dump = jvm.org.apache.spark.util.Utils.getThreadDumpForThread
        self._active = active
        self._terminated = terminated
        self._state = stream.state()
        self.lock = stream.awaitProgressLock()
        self.thread = stream.queryExecutionThread()
        self._thread_id = self.thread.getId()

    def terminate(self) -> bool:
        """ACTIVE → TERMINATED; false if it was not ACTIVE."""
        return bool(self._state.compareAndSet(self._active, self._terminated))

    def reactivate(self) -> bool:
        """TERMINATED → ACTIVE, to take `terminate` back."""
        return bool(self._state.compareAndSet(self._terminated, self._active))

    def stack(self) -> str:
        """The thread's frames as text, "" once it has ended."""
        found = self._dump(self._thread_id)
        return str(found.get().toString()) if found.isDefined() else ""

    def is_alive(self) -> bool:
        return bool(self.thread.isAlive())

    def is_queued_for_lock(self) -> bool:
        return bool(self.lock.hasQueuedThread(self.thread))

    def join(self, seconds: float) -> None:
        self.thread.join(max(int(seconds * 1000), 1))
