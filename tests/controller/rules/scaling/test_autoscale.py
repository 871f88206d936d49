"""The number of executors follows the load: on load curves, in the rules, and where figures are missing."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.bench import autoscale as bench
from streamjob.api import AutoscaleStatus, LoadInfo, Phase, SourceInfo, Specification, StageInfo, TaskInfo
from streamjob.api.pods.executor import Autoscale
from streamjob.controller.rules.actions import CreateDriver, SendExecutors
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.observed import Pod
from streamjob.controller.rules.scaling import autoscale
from streamjob.controller.rules.scaling.demand import Demand, demand, unknown
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.commands import ExecutorsRequest
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    DriverStatus,
    ExecutorsStatus,
    StageStatus,
    TaskStatus,
)
from streamjob.protocol.messages.figures import Load, QueryFigures
from streamjob.protocol.times import timestamp

from ...factories import NOW, driver, index, job, look, observed, ran, running, terminating

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
SPEC = Autoscale(max=10)


def stage(rows: float, *, uid: str = "main", lag: int = 0, seconds: float = 0.0, **load: Any) -> StageInfo:
    """A core does a hundred rows a second, and a batch has no fixed cost, unless `load` says so."""
    costs = {"fixed_seconds": 0.0, "rows_per_core_second": 100.0, **load}
    source = SourceInfo(uid="source-0", lag_rows=lag, lag_seconds=seconds)
    return StageInfo(uid=uid, load=LoadInfo(rows_per_second=rows, **costs), sources=(source,))


# --- what the load needs -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "cores"),
    [
        ([stage(700)], 10.0),
        ([stage(700), stage(70, uid="other")], 11.0),
        ([stage(0)], 0.0),
        # Of each 15 s, a batch may take 10.5; 1.5 are for nothing.
        ([stage(600, fixed_seconds=1.5)], 10.0),
        # A batch that takes 21 s for nothing has to be 60 s long, 42 of them busy.
        ([stage(700, fixed_seconds=21.0)], 20.0),
        # 30 s of rows wait or are in a batch. 6,000 more are a minute of one core.
        ([stage(700, lag=21_000)], 10.0),
        ([stage(700, lag=27_000)], 11.0),
        # More cores than tasks are of no use.
        ([stage(700, tasks=4)], 4.0),
        ([stage(700, tasks=4), stage(70, uid="other")], 5.0),
    ],
)
def test_how_many_cores_are_needed(stages: list[StageInfo], cores: float) -> None:
    assert unknown(stages) is None
    assert demand(stages, 0.7, 60.0).cores == pytest.approx(cores)


def test_a_lag_in_seconds_counts_where_rows_are_not_known() -> None:
    source = SourceInfo(uid="source-0", lag_files=9, lag_seconds=90.0)
    found = demand([stage(700).model_copy(update={"sources": (source,)})], 0.7, 60.0)
    assert found.cores == pytest.approx(10.0 + (90 - 30) * 700 / 100 / 60)


@pytest.mark.parametrize(
    "load",
    [
        None,
        {"rows_per_second": math.nan},
        {"rows_per_second": math.inf},
        {"rows_per_second": -1.0},
        {"rows_per_core_second": 0.0},
        {"rows_per_core_second": math.nan},
        {"fixed_seconds": math.nan},
    ],
)
def test_a_load_that_cannot_be_is_unknown(load: dict[str, Any] | None) -> None:
    full: dict[str, Any] = {"rows_per_second": 1.0, "fixed_seconds": 0.0, "rows_per_core_second": 1.0}
    bad = StageInfo(uid="bad", load=LoadInfo(**{**full, **load}) if load is not None else None)
    assert unknown([stage(1), bad]) == "bad"


def test_a_stage_that_has_ended_needs_nothing() -> None:
    ended = StageInfo(uid="ended", tasks=(TaskInfo(index=0, state=TaskState.FINISHED.value),))
    assert unknown([ended]) is None
    assert demand([ended], 0.7, 60.0) == Demand(0.0)


# --- when the number changes -------------------------------------------------------------------------


class Follower:
    """Looks at a load every half minute."""

    def __init__(self, spec: Autoscale = SPEC, desired: int = 4) -> None:
        self.spec, self.now = spec, BEGIN
        self.status = AutoscaleStatus(desired=desired, since=timestamp(BEGIN))

    def see(self, *stages: StageInfo, minutes: float = 0.5) -> int:
        for _ in range(round(minutes * 2)):
            self.now += timedelta(seconds=30)
            status = autoscale.within(self.status, self.spec, self.now)
            self.status = autoscale.follow(status, self.spec, autoscale.Load(stages, 1), self.now)
        return self.status.desired


@pytest.mark.parametrize("rows", [281, 220, 360])
def test_within_the_band_the_number_stays(rows: int) -> None:
    """Four cores, each at a utilization of 0.7, 0.55 and 0.9."""
    assert Follower().see(stage(rows), minutes=60) == 4


def test_more_than_the_band_adds_what_leaves_room() -> None:
    follower = Follower()
    assert follower.see(stage(480)) == 4
    assert (follower.status.next, follower.status.next_since) == (8, timestamp(BEGIN + timedelta(seconds=30)))
    assert follower.see(stage(480)) == 4
    assert follower.see(stage(480)) == 8
    assert follower.see(stage(480), minutes=60) == 8
    assert follower.status.reason == "480 rows/s need 6.9 cores at a utilization of 0.7"


def test_a_job_that_is_late_gets_more_at_once() -> None:
    assert Follower().see(stage(480, seconds=61.0)) == 8


def test_less_than_the_band_removes_after_five_minutes_what_was_never_needed_meanwhile() -> None:
    follower = Follower(desired=9)
    assert follower.see(stage(100), minutes=3) == 9
    assert follower.see(stage(400)) == 9
    assert follower.status.next == 6
    assert follower.see(stage(100), minutes=1.5) == 9
    assert follower.see(stage(100)) == 6


def test_a_load_that_comes_back_begins_again() -> None:
    follower = Follower()
    for _ in range(20):
        follower.see(stage(480))
        assert follower.see(stage(300)) == 4
    assert (follower.status.next, follower.status.next_since) == (None, None)


def test_missing_figures_change_nothing() -> None:
    follower = Follower()
    assert follower.see(StageInfo(uid="new"), minutes=60) == 4
    assert follower.status.reason == "stays: the load of stage new is not known yet"


@pytest.mark.parametrize(
    ("rows", "more", "desired", "limited_by"),
    [
        (5000, {}, 10, "max"),
        (1, {}, 2, "min"),
        (5000, {"tasks": 5}, 5, "the tasks of stage main"),
        (500, {}, 4, None),
    ],
)
def test_the_bounds_hold_and_are_named(rows: int, more: Any, desired: int, limited_by: str | None) -> None:
    follower = Follower(Autoscale(min=2, max=10))
    first = follower.see(stage(rows, **more))
    assert follower.status.limited_by == limited_by
    assert first == 4
    if limited_by is not None:
        assert follower.see(stage(rows, **more), minutes=30) == desired


def test_other_bounds_apply_at_once() -> None:
    follower = Follower(desired=9)
    follower.spec = Autoscale(max=5)
    assert follower.see(stage(600)) == 5


@given(
    st.lists(
        st.tuples(st.floats(0, 1e9), st.floats(0, 100), st.floats(1e-3, 1e6), st.integers(0, 10**9)),
        max_size=12,
    ),
    st.integers(1, 5),
    st.integers(5, 20),
)
def test_it_is_always_within_its_bounds(
    loads: list[tuple[float, float, float, int]], least: int, most: int
) -> None:
    follower = Follower(Autoscale(min=least, max=most))
    for rows, fixed, capacity, lag in loads:
        found = follower.see(stage(rows, fixed_seconds=fixed, rows_per_core_second=capacity, lag=lag))
        assert least <= found <= most


# --- on load curves ----------------------------------------------------------------------------------


def outcome(name: str) -> bench.Outcome:
    case = next(case for case in bench.CASES if case.name == name)
    return bench.simulate(case.curve, case.work, bench.Ours(case.work))


def test_a_day() -> None:
    found = outcome("a day")
    assert found.late <= 0.01
    assert found.executors <= 0.6
    assert found.changes <= 10


@pytest.mark.parametrize(
    ("name", "late", "changes"),
    [
        ("a day, no interval", 0.01, 15),
        ("steps", 0.015, 12),  # five in a day, each of which takes a minute and a half to answer
        ("slow drift", 0.01, 6),
        ("skew", 0.01, 6),
        ("a sink slows down", 0.01, 10),
        ("3 partitions", 0.01, 4),
        ("restarts", 0.01, 6),
    ],
)
@pytest.mark.slow
def test_other_curves(name: str, late: float, changes: int) -> None:
    found = outcome(name)
    assert found.late <= late
    assert found.changes <= changes


def test_a_load_that_stays_makes_no_change_once_it_is_known() -> None:
    changes = []

    class Watched(bench.Ours):
        def __call__(self, view: bench.View) -> int:
            number = super().__call__(view)
            if number != view.number:
                changes.append(view.at)
            return number

    work = bench.Work()
    bench.simulate(lambda at: 6000, work, Watched(work), days=0.25)
    assert 0 < len(changes) <= 2
    assert max(changes) < 1800


# --- in decide ---------------------------------------------------------------------------------------

FIVE = {"desired": 5, "since": timestamp(NOW)}
AUTO = {"autoscale": {"min": 1, "max": 8, "stabilization": {"up": "0s"}}}


def reported(rows: float, executors: int = 1, base: DriverStatus | None = None) -> DriverStatus:
    figures = QueryFigures(load=Load(rows, 0.0, 100.0))
    stages = (StageStatus("main", (TaskStatus(0, TaskState.RUNNING, 7),), figures=figures),)
    known = ExecutorsStatus(executors, executors, wanted=executors)
    return replace(base or driver(), stages=stages, executors=known)


def decided(status: dict[str, Any], report: DriverStatus | None, *pods: Pod, **spec: Any) -> Decision:
    wanted = job(**{"executor": AUTO, "status": status, **spec})
    return look(observed(wanted, pods=[*pods], index=index(), reported=report))[3]


def of_one_executor() -> Pod:
    return running(specification=Specification.of(job(executor={"instances": 1}).spec))


def asked(d: Decision) -> list[ExecutorsRequest]:
    return [a.request for a in d.actions if isinstance(a, SendExecutors)]


def test_the_driver_gets_the_number_that_the_load_asks_for() -> None:
    d = decided(ran(), reported(450.0), of_one_executor())
    assert asked(d) == [ExecutorsRequest(1, 8, 8)]
    assert d.status.autoscale is not None
    assert (d.status.autoscale.desired, d.status.upgrade) == (8, None)
    again = d.status.model_dump(mode="json", by_alias=True)
    assert asked(decided(again, reported(450.0, executors=8), of_one_executor())) == []


@pytest.mark.parametrize(
    ("report", "spec"),
    [
        (driver(DriverPhase.STARTING), {}),
        (terminating(), {}),
        (driver(), {"state": "Stopped"}),
        (driver(), {"suspend": True}),
        (driver(), {"savepoint": {"nonce": 1}}),
    ],
)
def test_it_stays_while_the_job_starts_ends_or_is_saved(report: DriverStatus, spec: dict[str, Any]) -> None:
    d = decided(ran(), reported(450.0, base=report), of_one_executor(), **spec)
    assert asked(d) == []
    assert d.status.autoscale is not None
    assert d.status.autoscale.desired == 1


def test_the_next_driver_begins_with_the_number_of_the_last() -> None:
    d = decided(ran(pod=False, phase="Restarting", autoscale=FIVE), None)
    (made,) = [a for a in d.actions if isinstance(a, CreateDriver)]
    assert made.specification.executor.instances == 5
    assert made.specification.executor.autoscale is None
    assert made.config.spark_conf["spark.executor.instances"] == "5"


def test_without_autoscale_the_status_has_none() -> None:
    one = {"instances": 1}
    d = decided(ran(autoscale=FIVE), reported(450.0), of_one_executor(), executor=one)
    assert (d.status.autoscale, d.status.phase, asked(d)) == (None, Phase.RUNNING, [])
