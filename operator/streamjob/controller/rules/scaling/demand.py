"""How many cores the stages of a job need, from what arrives and what their batches cost. Pure.

A batch takes `fixed + rows / (cores * rows per second of a core)` seconds. Batches that have the rows of a
window of time must take no longer than a share of it, the utilization. What the job is behind is worked off
beside that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

from ....api import LoadInfo, StageInfo
from ....protocol.lifecycle import TaskState

WINDOWS = 4  # in the time of the lag's target; a row waits for one batch, and is in the next
ENDED = (TaskState.FINISHED.value, TaskState.CLOSED.value)


class Demand(NamedTuple):
    """:param cores: what the job can use of what it needs.
    :param limited_by: the stage that needs more cores than its batches have tasks.
    """

    cores: float
    limited_by: str | None = None


def unknown(stages: Sequence[StageInfo]) -> str | None:
    """The first stage that runs and whose load is not known; None if all are."""
    return next((s.uid for s in stages if _runs(s) and not _usable(s.load)), None)


def demand(stages: Sequence[StageInfo], utilization: float, lag_target: float) -> Demand:
    """The cores that all stages need together whose load is known.

    :param lag_target: seconds.
    """
    cores, limited_by = 0.0, None
    for stage in stages:
        if not (_runs(stage) and _usable(stage.load)):
            continue
        needed = _needed(stage, stage.load, utilization, lag_target)
        if stage.load.tasks and needed > stage.load.tasks:
            needed, limited_by = stage.load.tasks, stage.uid
        cores += needed
    return Demand(cores, limited_by)


def _runs(stage: StageInfo) -> bool:
    return not stage.tasks or any(t.state not in ENDED for t in stage.tasks)


def _usable(load: LoadInfo | None) -> TypeGuard[LoadInfo]:
    return (
        load is not None
        and all(math.isfinite(n) and n >= 0 for n in (load.rows_per_second, load.fixed_seconds))
        and math.isfinite(load.rows_per_core_second)
        and load.rows_per_core_second > 0
    )


def _needed(stage: StageInfo, load: LoadInfo, utilization: float, lag_target: float) -> float:
    # Where the fixed part alone would fill the window, batches have to be longer.
    window = max(lag_target / WINDOWS, 2 * load.fixed_seconds / utilization)
    work = load.rows_per_second * window / load.rows_per_core_second  # seconds of a core
    behind = _rows_behind(stage, load.rows_per_second) - 2 * load.rows_per_second * window
    late = max(behind, 0.0) / load.rows_per_core_second / lag_target
    return work / (utilization * window - load.fixed_seconds) + late


def _rows_behind(stage: StageInfo, rows_per_second: float) -> float:
    rows = [
        s.lag_rows if s.lag_rows is not None else (s.lag_seconds or 0.0) * rows_per_second
        for s in stage.sources
    ]
    return float(sum(rows))
