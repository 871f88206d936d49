"""The number of executors follows the load (`spec.executor.autoscale`, ADR 67). Pure, part of `decide`.

`resolve` keeps the number in the status and puts it where `instances` is, so that every other rule sees a job
with a fixed number. The number stays while its utilization is within a band around the target. Once it has
been outside for the time of `stabilization`, the number becomes what the load then asks for: up to what has
some room to grow, down to the target.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from ....api import AutoscaleStatus, Phase, StageInfo
from ....api.pods.executor import Autoscale
from ....api.types import duration, whole_cores
from ....protocol.messages.driver_status import DriverPhase
from ....protocol.times import moment, timestamp
from ..context import Context, DesiredState
from .demand import Demand, demand, unknown

ABOVE, BELOW = 0.2, 0.15  # of the utilization; within this band around the target the number stays
ROOM = 0.1  # to grow
ROUNDING = 1e-9
STAYS = {"next": None, "next_since": None}


class Load(NamedTuple):
    """What the rule looks at.

    :param cores: of one executor.
    """

    stages: tuple[StageInfo, ...]
    cores: int


def resolve(c: Context) -> Context:
    """The context with the number of executors that the load asks for, as if the spec had it."""
    spec = c.observed.job.spec
    if (autoscale := spec.executor.autoscale) is None:
        return replace(c, status=c.status.model_copy(update={"autoscale": None}))
    scaling = within(c.status.autoscale, autoscale, c.now)
    if _is_steady(c):
        load = Load(c.status.stages, whole_cores(spec.executor.cores))
        scaling = follow(scaling, autoscale, load, c.now)
    executor = spec.executor.with_number(scaling.desired)
    job = c.observed.job.model_copy(update={"spec": spec.model_copy(update={"executor": executor})})
    status = c.status.model_copy(update={"autoscale": scaling})
    return replace(c, observed=replace(c.observed, job=job), status=status)


def _is_steady(c: Context) -> bool:
    """Whether the driver runs, and is to go on: nothing is stopped, drained, saved or handed over."""
    driver, saving = c.observed.driver, c.status.savepoint_request
    return (
        c.desired is DesiredState.RUN
        and c.phase is Phase.RUNNING
        and not c.prepares
        and driver is not None
        and driver.phase is DriverPhase.RUNNING
        and driver.termination is None
        and (saving is None or saving.over)
    )


def within(s: AutoscaleStatus | None, spec: Autoscale, now: datetime) -> AutoscaleStatus:
    """The number so far, within the bounds of the spec; the lower one at first."""
    if s is None:
        return AutoscaleStatus(desired=spec.min, since=timestamp(now), reason="the job begins with min")
    desired = min(max(s.desired, spec.min), spec.max)
    if desired == s.desired:
        return s
    return AutoscaleStatus(desired=desired, since=timestamp(now), reason="min or max has changed")


def follow(s: AutoscaleStatus, spec: Autoscale, load: Load, now: datetime) -> AutoscaleStatus:
    """The number after a look at the load."""
    if (stage := unknown(load.stages)) is not None:
        reason = f"stays: the load of stage {stage} is not known yet"
        return s.model_copy(update={"reason": reason, "limited_by": None, **STAYS})
    target, lag = spec.target_utilization, duration(spec.lag_target).total_seconds()

    def number(utilization: float) -> int:
        return math.ceil(demand(load.stages, utilization, lag).cores / load.cores - ROUNDING)

    found, wanted = demand(load.stages, target, lag), number(target)
    s = s.model_copy(update={"reason": _reason(load, found, spec), "limited_by": _limit(found, wanted, spec)})
    if (above := number(target + ABOVE)) > s.desired:
        asked = min(max(number(target - ROOM), above), spec.max)
    elif number(target - BELOW) < s.desired:
        asked = max(min(wanted, s.desired), spec.min)
    else:
        asked = s.desired
    return _taken_if_it_lasts(s, asked, spec, _is_late(load, lag), now)


def _taken_if_it_lasts(
    s: AutoscaleStatus, asked: int, spec: Autoscale, late: bool, now: datetime
) -> AutoscaleStatus:
    """:param late: the job is further behind than it may be. More executors are not waited for then."""
    if asked == s.desired:
        return s.model_copy(update=STAYS)
    up, since = asked > s.desired, timestamp(now)
    if s.next is not None and s.next_since is not None and (s.next > s.desired) == up:
        since = s.next_since
        asked = asked if up else max(asked, s.next)  # what was needed at some time meanwhile
    patience = duration(spec.stabilization.up if up else spec.stabilization.down)
    if now - moment(since) >= patience or (up and late):
        return s.model_copy(update={"desired": asked, "since": timestamp(now), **STAYS})
    return s.model_copy(update={"next": asked, "next_since": since})


def _is_late(load: Load, lag_target: float) -> bool:
    lags = (source.lag_seconds for stage in load.stages for source in stage.sources)
    return any(lag is not None and lag > lag_target for lag in lags)


def _reason(load: Load, found: Demand, spec: Autoscale) -> str:
    rows = sum(stage.load.rows_per_second for stage in load.stages if stage.load is not None)
    return f"{rows:.0f} rows/s need {found.cores:.1f} cores at a utilization of {spec.target_utilization:g}"


def _limit(found: Demand, wanted: int, spec: Autoscale) -> str | None:
    if wanted > spec.max:
        return "max"
    if wanted < spec.min:
        return "min"
    return f"the tasks of stage {found.limited_by}" if found.limited_by is not None else None
