"""The private classes of Spark's streaming execution. Where they live in each version: `versions.table`.

Only this module and `state.stores` use them. From StreamExecution, MicroBatchExecution, IncrementalExecution
and CheckpointFileManager of org.apache.spark.sql.execution.streaming. For a version that is not known, and
that the user allows all the same, there are no `Internals`; `boundary` and `max_watermark.batch` then work
without them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from .versions.table import Traits

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"

ROUND = "MicroBatchExecution.executeOneBatch"

# How the class of a physical operator begins that may have timers, and its method that says of which time:
# TimeMode of transformWithState, GroupStateTimeout of flatMapGroupsWithState and applyInPandasWithState.
_TIME_MODES = {
    "TransformWithState": "timeMode",
    "FlatMapGroupsWithState": "timeoutConf",
    "FlatMapGroupsInPandasWithState": "timeoutConf",
}

# Queries with these triggers run no micro-batches that end, so there is no boundary to stop at.
_UNBOUNDED_TRIGGERS = frozenset({"ContinuousTrigger", "RealTimeTrigger"})


class Internals:
    """Access to the private classes of one Spark session. Thread-safe.

    :raises Py4JError: this Spark has no such class.
    """

    def __init__(self, spark: SparkSession, traits: Traits) -> None:
        self._spark = spark
        jvm: Any = spark._jvm
        self.jvm = jvm
        context: Any = spark.sparkContext
        self.gateway = context._gateway
        self.traits = traits
        self._loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
        self._active = self.module(f"{traits.execution}.ACTIVE")
        self._terminated = self.module(f"{traits.execution}.TERMINATED")
        self._file_manager = self.module(f"{traits.checkpoint}.CheckpointFileManager")

    def execution(self, query: StreamingQuery) -> Execution:
        return Execution(self.jvm, query._jsq.streamingQuery(), self._active, self._terminated, self.traits)

    def batch_metadata(self, text: str) -> Any:
        """The OffsetSeqMetadata in the second line of an entry of the offset log."""
        return self.module(f"{self.traits.checkpoint}.OffsetSeqMetadata").apply(text)

    def module(self, name: str) -> Any:
        """The instance of a Scala object."""
        return self._loader.loadClass(f"{name}$").getField("MODULE$").get(None)

    def plan_batch(
        self, plan: Any, mode: str, state: str, batch: int, metadata: str
    ) -> frozenset[int] | None:
        """Plan a batch as Spark plans the first one after a restart, without running it.

        Spark compares the batch's operators and their schemas with those in `state`, and writes them there.

        :param plan: analyzed logical plan of the query.
        :param mode: output mode.
        :param state: URI of a folder on a local disk, with the layout of Spark's `state` folder.
        :param batch: number of the batch.
        :param metadata: second line of an entry of the offset log.
        :returns: the numbers of the stateful operators, if this Spark does not compare them by itself; else
            None.
        :raises PySparkException: the plan does not match the state, or cannot be planned.
        :raises Py4JError: as PySparkException, if pyspark does not convert the error.
        """
        traits = self.traits
        log_metadata = self.module(f"{traits.checkpoint}.OffsetSeqMetadata")
        settings = self.batch_metadata(metadata)
        session = (
            self._spark._jsparkSession.cloneSession()
        )  # as StreamExecution does; the settings below stay in the clone
        conf = session.sessionState().conf()
        log_metadata.setSessionConf(settings, conf if traits.sets_sql_conf else session.conf())
        for key in ("spark.sql.adaptive.enabled", "spark.sql.cbo.enabled"):
            conf.setConfString(key, "false")
        conf.setConfString(FILE_MANAGER, f"{traits.checkpoint}.FileContextBasedCheckpointFileManager")
        ids = [self.jvm.java.util.UUID.randomUUID() for _ in range(2)]
        modes = self.jvm.org.apache.spark.sql.streaming.OutputMode
        noop = self.module(f"{traits.execution}.WatermarkPropagator").noop()
        arguments = [session, plan, getattr(modes, mode.capitalize())(), state, *ids, batch]
        arguments += [self.jvm.scala.Option.apply(settings), settings, noop]
        if traits.takes_first_batch:
            arguments.append(True)
            incremental = self.module(f"{traits.execution}.IncrementalExecution")
            # Further parameters of some versions have default values.
            methods = {str(method.getName()) for method in incremental.getClass().getMethods()}
            while (default := f"$lessinit$greater$default${len(arguments) + 1}") in methods:
                arguments.append(getattr(incremental, default)())
        of_package: Any = reduce(getattr, traits.execution.split("."), self.jvm)
        planned = of_package.IncrementalExecution(*arguments).executedPlan()
        return None if traits.describes_operators else self._stateful_operators(planned)

    def refuse_unsupported(self, plan: Any, mode: str) -> None:
        """Check a query as Spark's own start does, before it makes a directory.

        :param plan: analyzed logical plan of the query.
        :param mode: output mode.
        :raises PySparkException: Spark runs no such query, or not in this output mode.
        :raises Py4JError: as PySparkException, if pyspark does not convert the error.
        """
        modes = self.jvm.org.apache.spark.sql.streaming.OutputMode
        checker = self.module("org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
        checker.checkForStreaming(plan, getattr(modes, mode.capitalize())())

    def start_without_sink(self, frame: DataFrame, mode: str, location: str) -> Any:
        """Start a query over a frame that writes nothing, in a session of its own.

        The script's session does not list it, and the script's listeners do not hear of it. It runs the batch
        that the log at `location` has planned, and no other one within a day.

        :param mode: output mode.
        :param location: the checkpointLocation.
        :returns: the org.apache.spark.sql.streaming.StreamingQuery.
        :raises Py4JError: it does not start.
        """
        java: Any = frame._jdf
        session = self._spark._jsparkSession.cloneSession()
        datasets = self.module(str(java.getClass().getName()))
        writer = datasets.ofRows(session, java.queryExecution().analyzed()).writeStream()
        trigger = self.jvm.org.apache.spark.sql.streaming.Trigger.ProcessingTime("1 day")
        writer = writer.format("noop").outputMode(mode).trigger(trigger)
        return writer.option("checkpointLocation", location).start()

    def _stateful_operators(self, plan: Any) -> frozenset[int]:
        """The numbers of the stateful operators in a planned batch."""
        kind = self._loader.loadClass(f"{self.traits.stateful}.StatefulOperator")
        infos = [node.stateInfo() for node in nodes(plan) if kind.isInstance(node)]
        return frozenset(int(info.get().operatorId()) for info in infos if info.isDefined())

    def file_manager(self, folder: str) -> Any:
        """The manager with which Spark writes its own files in a folder.

        :raises Py4JJavaError: the class does not exist, or does not support this storage.
        """
        conf = self._spark._jsparkSession.sessionState().newHadoopConf()
        return self._file_manager.create(self.jvm.org.apache.hadoop.fs.Path(folder), conf)

    def create_atomic(self, uri: str, data: bytes) -> None:
        """Write a new file of a metadata log as Spark does, with `CheckpointFileManager.createAtomic`.

        :raises Py4JJavaError: FileAlreadyExistsException, or an error of the file system.
        """
        path = self.jvm.org.apache.hadoop.fs.Path(uri)
        stream = self.file_manager(str(path.getParent())).createAtomic(path, False)
        try:
            stream.write(data)
            stream.close()
        except Py4JError:
            stream.cancel()
            raise


class Execution:
    """The StreamExecution of one query: its state, its thread, and the lock that its batches take."""

    def __init__(self, jvm: Any, execution: Any, active: Any, terminated: Any, traits: Traits) -> None:
        self._execution = execution
        self._traits = traits
        self._one_round = f".{traits.one_round}"
        self._active = active
        self._terminated = terminated
        self._state = execution.state()
        self._thread = execution.queryExecutionThread()
        self._lock = execution.awaitProgressLock()
        # Look these up once: py4j asks the JVM about every part of a dotted name, each time.
        self._unit = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self._text = jvm.scala.runtime.ScalaRunTime.stringOf

    @property
    def checkpoint_root(self) -> str:
        """The URI of the checkpoint directory."""
        return str(self._execution.resolvedCheckpointRoot())

    @property
    def sources(self) -> list[Any]:
        """The SparkDataStreams in the order of the offset log; empty until the query has its plan."""
        found = self._execution.sources()
        return [found.apply(i) for i in range(found.size())]

    @property
    def trigger(self) -> str:
        """The simple class name of the trigger, such as `ProcessingTimeTrigger`."""
        return str(self._execution.trigger().getClass().getSimpleName()).rstrip("$")

    @property
    def runs_micro_batches(self) -> bool:
        """False for continuous processing and real-time mode."""
        kind = str(self._execution.getClass().getSimpleName())
        return kind != "ContinuousExecution" and self.trigger not in _UNBOUNDED_TRIGGERS

    @property
    def polls(self) -> bool:
        """Whether it runs plain micro-batches and, without input, looks for some every few milliseconds."""
        kind = str(self._execution.getClass().getSimpleName())
        return (
            kind == "MicroBatchExecution"
            and self.trigger == "ProcessingTimeTrigger"
            and int(self._execution.trigger().intervalMs()) == 0
        )

    def terminate(self) -> bool:
        """Compare and set ACTIVE → TERMINATED: the loop ends when it next checks its state.

        :returns: false if the state was not ACTIVE.
        """
        return bool(self._state.compareAndSet(self._active, self._terminated))

    def reactivate(self) -> bool:
        """Undo `terminate`.

        :returns: false if the state was not TERMINATED.
        """
        return bool(self._state.compareAndSet(self._terminated, self._active))

    def lock(self, seconds: float) -> bool:
        """Take `awaitProgressLock`, which blocks `constructNextBatch` and `markMicroBatchEnd`.

        The JVM thread that belongs to this Python thread owns the lock, so the same Python thread must
        release it.

        :param seconds: how long to wait for the lock.
        :returns: whether the lock was taken.
        """
        return bool(self._lock.tryLock(int(seconds * 1000), self._unit))

    def unlock(self) -> None:
        self._lock.unlock()

    def queued_for_lock(self) -> bool:
        return bool(self._lock.hasQueuedThread(self._thread))

    def alive(self) -> bool:
        return bool(self._thread.isAlive())

    def join(self, seconds: float) -> None:
        """Wait for the query's thread to end, at most `seconds`."""
        self._thread.join(max(1, int(seconds * 1000)))

    def has_processing_time_timers(self) -> bool:
        """Whether an operator of the last batch has timers or timeouts of processing time."""
        return any(
            str(getattr(node, mode)()).startswith("ProcessingTime")
            for node in nodes(self._execution.lastExecution().executedPlan())
            for prefix, mode in _TIME_MODES.items()
            if str(node.getClass().getSimpleName()).startswith(prefix)
        )

    # --- the next batch; the caller holds the lock ----------------------------------------------------------

    def close_sources(self) -> list[Any]:
        """Let no further batch read anything.

        :returns: the sources. The query no longer stops them when it ends.
        """
        found = self._execution.uniqueSources()
        keys, sources = found.keysIterator(), []
        while keys.hasNext():
            sources.append(keys.next())
        getattr(self._execution, "uniqueSources_$eq")(found.empty())  # last: until then nothing is changed
        return sources

    def next_batch(self) -> int:
        """The number of the batch that runs, or else of the next one. May be called without the lock."""
        return int(
            self._context().batchId() if self._traits.has_contexts else self._execution.currentBatchId()
        )

    def has_no_batch_after(self, batch: int) -> bool:
        """Whether the batch after this one is the next to be planned, and would have no input."""
        query, context = self._execution, self._context()
        if self._traits.has_contexts:
            start, end = context.startOffsets(), context.endOffsets()
        else:
            start, end = query.committedOffsets(), query.availableOffsets()
        constructed = field(context, "isCurrentBatchConstructed").get(context)
        # Of another class is the metadata of entries of format 2.
        plain = str(context.offsetSeqMetadata().getClass().getSimpleName()) == "OffsetSeqMetadata"
        return self.next_batch() == batch + 1 and not constructed and plain and bool(start.equals(end))

    def plan_next(self, batch: int, watermark: int, metadata: Any) -> None:
        """Let the query's next round run a batch without input that is already in the offset log.

        As MicroBatchExecution.populateStartOffsets does it for such a batch after a restart.

        :param metadata: `Internals.batch_metadata` of the entry.
        """
        query, context = self._execution, self._context()
        is_planned = field(context, "isCurrentBatchConstructed")
        # When the query last looked for input, it noted another watermark for this batch, and Spark asserts
        # that this does not change.
        field(query, "watermarkPropagator").get(query).purge(batch)
        query.watermarkTracker().setWatermark(watermark)
        getattr(context, "offsetSeqMetadata_$eq")(metadata)
        is_planned.set(context, True)  # last: the thread may look at it without the lock

    def _context(self) -> Any:
        return self._execution.getLatestExecutionContext() if self._traits.has_contexts else self._execution

    # --- its thread -----------------------------------------------------------------------------------------

    def frames(self) -> list[str]:
        """The thread's stack, innermost call first, each `Class.method`; empty if the thread has ended.

        One round of the loop is called ROUND, whatever the version calls it.
        """
        # One string in one call. Thread.getStackTrace costs a tenth of a thread dump with locks.
        text = str(self._text(self._thread.getStackTrace()))
        calls = [f.partition("(")[0] for f in text[len("Array(") : -1].split(", ") if f]
        frames = [".".join(c.rsplit(".", 2)[-2:]) for c in calls]
        return [ROUND if f.endswith(self._one_round) else f for f in frames]


def nodes(plan: Any) -> Iterator[Any]:
    """The operators of a plan, physical or logical."""
    left = [plan]
    while left:
        yield (node := left.pop())
        children = node.children()
        left += [children.apply(i) for i in range(children.size())]


def field(owner: Any, name: str) -> Any:
    """The java.lang.reflect.Field that the object's own class declares."""
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field
