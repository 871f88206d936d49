"""What a query's plan says of event time, and how its watermark stands still (ADR 64).

From EventTimeWatermark and Aggregate of org.apache.spark.sql.catalyst.plans.logical. Each batch subtracts the
delay of an EventTimeWatermark from the latest event time that it has seen. All plans of a query share the
CalendarInterval in which the delay is, and so do all queries that a script makes of one frame.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

from ..internals import nodes

HELD = 1000 * 365 * 24 * 3600 * 1_000_000  # microseconds: a thousand years

_holders: defaultdict[int, set[str]] = defaultdict(set)  # tasks, by the identity of a CalendarInterval
_lock = threading.Lock()


class EventTime:
    """The event time of one query. Holds and releases are thread-safe.

    :param plan: its analyzed logical plan.
    :param jvm: py4j's view of the JVM.
    """

    def __init__(self, plan: Any, jvm: Any) -> None:
        self._identity = jvm.java.lang.System.identityHashCode
        found = [(str(node.getClass().getSimpleName()), node) for node in nodes(plan)]
        self._delays = [node.delay() for name, node in found if name == "EventTimeWatermark"]
        self._global = any(n.groupingExpressions().isEmpty() for name, n in found if name == "Aggregate")

    def fires(self, mode: str) -> bool:
        """Whether a batch with a larger watermark and without input may bring out rows that no batch has.

        In complete mode it would repeat the whole result, and an aggregation without keys its only row. Spark
        does not run such a batch either (`shouldRunAnotherBatch` of StateStoreSaveExec).

        :param mode: output mode, in lower case.
        """
        return mode != "complete" and (bool(self._delays) or not self._global)

    def hold(self, task: str) -> None:
        """Let the watermark stand still from the next batch on, whatever the task reads. A repetition does
        nothing.
        """
        with _lock:
            for delay in self._delays:
                _holders[self._identity(delay)].add(task)
                self._set(delay, held=True)

    def release(self, task: str) -> None:
        """Let it advance again, unless another task holds it."""
        with _lock:
            for delay in self._delays:
                holders = _holders[self._identity(delay)]
                holders.discard(task)
                self._set(delay, held=bool(holders))

    @staticmethod
    def _set(delay: Any, *, held: bool) -> None:
        field = delay.getClass().getField("microseconds")
        was = int(field.getLong(delay))
        if (was >= HELD) != held:
            field.setAccessible(True)  # it is final
            field.setLong(delay, was + HELD if held else was - HELD)
