"""What a query's batches cost, from its progress: a batch takes a fixed time, and a time for each row that
more cores make shorter.
"""

from __future__ import annotations

import math
from typing import Any

from ....protocol.messages.figures import Load
from .. import progress as of_progress

FORGET = 0.97  # weight of the past when a batch is added: some thirty batches count
ENOUGH = 2  # batches; the first one warms up
SPREAD = 0.05  # of the rows for a core; with less, the two costs cannot be told apart
ARRIVAL_SECONDS = 30.0


class Cost:
    """Weighted least squares of the seconds of a batch against the rows that each core had. One thread."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(("1", "x", "y", "xx", "xy"), 0.0)
        self._batches = 0
        self._last: int | None = None
        self._arrival: float | None = None
        self._at = -math.inf

    def see(self, progress: Any, cores: int, tasks: int | None, now: float) -> Load | None:
        """Take the last progress into account. It may be the same again.

        :param cores: of all executors.
        :param tasks: those of the batches' longest stage; more cores do not help it.
        :param now: seconds of a clock that never goes back.
        :returns: what is known by now; None before the third batch with rows.
        """
        rows, seconds = int(progress.get("numInputRows") or 0), of_progress.batch_seconds(progress)
        number, took = int(progress["batchId"]), seconds.get("triggerExecution", 0.0)
        self._see_arrival(of_progress.rate(progress, of_progress.INPUT), now)
        if number != self._last and rows and took and cores:
            self._last, self._batches = number, self._batches + 1
            self._add(rows / max(min(cores, tasks or cores), 1), took)
        if self._batches < ENOUGH or self._arrival is None:
            return None
        fixed, row = self._fit()
        return Load(round(self._arrival, 1), round(fixed, 3), float(f"{1 / row:.4g}"), tasks)

    def _see_arrival(self, rate: float | None, now: float) -> None:
        past, self._at = now - self._at, now
        if rate is None:
            return
        weight = -math.expm1(-past / ARRIVAL_SECONDS)
        self._arrival = rate if self._arrival is None else self._arrival + (rate - self._arrival) * weight

    def _add(self, x: float, y: float) -> None:
        for name, value in {"1": 1.0, "x": x, "y": y, "xx": x * x, "xy": x * y}.items():
            self._sums[name] = FORGET * self._sums[name] + value

    def _fit(self) -> tuple[float, float]:
        """Seconds of a batch, and of a row on one core. All are of the rows where that cannot be told."""
        n, x, y, xx, xy = self._sums.values()
        mean, whole = x / n, y / x
        variance = xx / n - mean * mean
        if variance < (SPREAD * mean) ** 2:
            return 0.0, whole
        row = (xy / n - mean * y / n) / variance
        fixed = y / n - row * mean
        return (fixed, row) if row > 0 and fixed >= 0 else (0.0, whole)


def tasks_of(query: Any, jvm: Any) -> int | None:
    """How many tasks the stage has that took longest in the newest Spark job of a query; None without a job.

    Private: `SparkContext.statusStore`, which Spark's UI reads. A few calls into the JVM.

    :param query: a StreamingQuery. It runs its jobs in a group that has the id of its run.
    :param jvm: py4j's view of the JVM.
    :raises Py4JError: the session ends.
    """
    context = query._jsq.sparkSession().sparkContext()
    found = context.statusTracker().getJobIdsForGroup(query.runId)
    if not len(found):
        return None
    newest = jvm.java.util.Arrays.stream(found).max().getAsInt()
    store = context.statusStore()
    of_job = store.job(newest).stageIds()
    stages = [store.lastStageAttempt(of_job.apply(i)) for i in range(of_job.size())]
    longest = max(stages, key=lambda s: int(s.executorRunTime()), default=None)
    return int(longest.numTasks()) if longest is not None and longest.executorRunTime() else None
