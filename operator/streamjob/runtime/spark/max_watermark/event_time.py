"""What a query's plan says of event time, and how its watermark stands still (ADR 64).

From EventTimeWatermark and Aggregate of org.apache.spark.sql.catalyst.plans.logical. Each batch subtracts the
delay of an EventTimeWatermark from the latest event time that it has seen. All plans of a query share the
CalendarInterval in which the delay is.
"""

from __future__ import annotations

from typing import Any

from ..internals import nodes

HELD = 1000 * 365 * 24 * 3600 * 1_000_000  # microseconds: a thousand years


class EventTime:
    """The event time of one query.

    :param plan: its analyzed logical plan.
    """

    def __init__(self, plan: Any) -> None:
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

    def hold(self) -> None:
        """Let the watermark stand still from the next batch on, whatever the query reads."""
        self._add(HELD)

    def release(self) -> None:
        """Let it advance again."""
        self._add(-HELD)

    def _add(self, microseconds: int) -> None:
        for delay in self._delays:
            field = delay.getClass().getField("microseconds")
            was = int(field.getLong(delay))
            if (was < HELD) == (microseconds > 0):
                field.setAccessible(True)  # it is final
                field.setLong(delay, was + microseconds)
