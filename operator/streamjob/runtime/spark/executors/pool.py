"""The executors of a Spark application: how many there are, and how many there shall be.

Private: the fields of ExecutorAllocationManager, and two methods of CoarseGrainedSchedulerBackend. They have
the same names from Spark 3.5 to 4.3, so `versions.table` has no entry for them.
"""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext

from .losses import Removed

DEFAULT_PROFILE = 0  # the resource profile of all executors that no script describes by itself
FIELDS = ("minNumExecutors", "maxNumExecutors")


class ExecutorPool:
    """The executors of one SparkContext. Calls of one thread at a time.

    :raises Py4JError: this Spark has no executors of its own (`local[*]`), or has not what a call needs.
    """

    def __init__(self, context: SparkContext) -> None:
        self.context: Any = context
        self._scala = self.context._jsc.sc()
        self._backend = self._scala.schedulerBackend()
        jvm: Any = context._jvm
        self._jvm = jvm
        self._python = jvm.org.apache.spark.api.python.PythonUtils
        manager = self._scala.executorAllocationManager()
        self._manager = manager.get() if manager.isDefined() else None
        self._decommissions = self.context.getConf().get("spark.decommission.enabled", "false") == "true"
        self._requested: int | None = None
        self._bounds: tuple[int, int] | None = None
        self._seen: tuple[int, list[str]] = (0, [])
        self._removed: tuple[Removed, ...] = ()

    def count(self) -> int:
        """How many executors are connected, those included that are about to leave."""
        return len(self._ids())

    def wanted(self) -> int | None:
        """How many executors Spark wants; None if that is what it was started with."""
        return self._requested if self._manager is None else int(self._targets().apply(DEFAULT_PROFILE))

    def bound(self, least: int, most: int) -> None:
        """Keep the number within these bounds from now on. May be repeated, and must be: executors that have
        been requested before may come later.
        """
        if self._manager is not None:
            self._bound_manager((least, most))
        now = self.wanted()
        wanted = least if now is None else min(max(now, least), most)
        if wanted != now:
            if self._manager is not None:
                self._targets().update(DEFAULT_PROFILE, wanted)
            self._scala.requestTotalExecutors(wanted, 0, self._python.toScalaMap({}))
            self._requested = wanted
        self._release(most)

    def _bound_manager(self, bounds: tuple[int, int]) -> None:
        """Set the two fields that Spark reads its configuration into."""
        assert self._manager is not None
        if bounds == self._bounds:
            return
        for name, value in zip(FIELDS, bounds, strict=True):
            field = self._manager.getClass().getDeclaredField(name)
            field.setAccessible(True)
            field.setInt(self._manager, value)
        self._bounds = bounds

    def _release(self, most: int) -> None:
        """Let the newest executors go if there are more than `most`."""
        ids = self._ids()
        if len(ids) <= most:
            return
        active = [i for i in ids if self._backend.isExecutorActive(i)]
        surplus = sorted(active, key=int)[most:]
        if not surplus:
            return
        if not self._decommissions:
            # Not by force: one that has tasks goes when they have ended.
            self._backend.killExecutors(self._python.toSeq(surplus), False, False, False)
            return
        scheduler, scala = self._jvm.org.apache.spark.scheduler, self._jvm.scala
        why = scheduler.ExecutorDecommissionInfo("fewer executors are wanted", scala.Option.empty())
        pairs = self.context._gateway.new_array(scala.Tuple2, len(surplus))
        for n, executor in enumerate(surplus):
            pairs[n] = scala.Tuple2(executor, why)
        self._backend.decommissionExecutors(pairs, False, False)

    def removed(self) -> tuple[Removed, ...]:
        """The executors that have gone, as far as Spark still knows of them, in the order of their ends."""
        every = self._scala.statusStore().executorList(False)
        seen = (int(every.size()), self._ids())
        if seen != self._seen:
            gone = [s for s in map(every.apply, range(seen[0])) if s.removeReason().isDefined()]
            gone.sort(key=lambda s: int(s.removeTime().get().getTime()))
            self._removed = tuple((str(s.id()), str(s.removeReason().get())) for s in gone)
            # Spark's listener may be a moment behind: an end that it does not know yet is looked for again.
            known = seen[0] - len(gone) - 1 <= len(seen[1])  # without the driver, which is in the list
            self._seen = seen if known else (0, [])
        return self._removed

    def _ids(self) -> list[str]:
        text = str(self._backend.getExecutorIds().mkString(","))
        return text.split(",") if text else []

    def _targets(self) -> Any:
        assert self._manager is not None
        return self._manager.numExecutorsTargetPerResourceProfileId()


def pool_of(known: ExecutorPool | None) -> ExecutorPool | None:
    """The executors of the active SparkContext; `known` if they are those. None without a context.

    :raises Py4JError: as `ExecutorPool`.
    """
    context = SparkContext._active_spark_context
    if context is None or (known is not None and known.context is context):
        return known if context is not None else None
    return ExecutorPool(context)
