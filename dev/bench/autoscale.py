"""Ways to choose the number of executors, on load curves, against a model of Spark's batches.

The model: a batch takes what has arrived when it begins, and lasts a fixed time plus a time for each row,
which the cores share that there are; no more of them than the batch has tasks. New executors come 30 s after
they were asked for. `Ours` is the product's rule (`controller.rules.scaling.autoscale`) with the product's
measurement of what a batch costs (`runtime.spark.executors.cost`). The others are as defined elsewhere.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import NamedTuple, Protocol

from dev.bench.figures import Comparison, Figures
from streamjob.api import AutoscaleStatus, LoadInfo, SourceInfo, StageInfo
from streamjob.api.pods.executor import Autoscale
from streamjob.controller.rules.scaling import autoscale
from streamjob.runtime.spark.executors.cost import Cost

DAY = 86_400
MOST = 12  # executors
TOP = 16_000  # rows a second at the top of a curve: two thirds of what MOST can do
TARGET = 60.0  # seconds of lag
LOOK = 30  # seconds between two looks at the figures
COMES, GOES = 30, 5  # seconds until an executor is there, and gone
RESTART = 40  # seconds
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Work:
    """What a job's batches cost.

    :param fixed: seconds of a batch.
    :param row: seconds of a row on one core.
    :param interval: of the trigger, seconds; 0: the next batch begins at once.
    :param share: of the rows, in the largest partition.
    :param slower: further seconds of a batch, by time.
    :param restarts: when the driver dies.
    :param blind: from when to when there are no figures.
    """

    fixed: float = 1.5
    row: float = 1 / 1000
    cores: int = 2
    tasks: int = 24
    interval: float = 10.0
    share: float = 0.0
    slower: Callable[[float], float] = lambda at: 0.0
    restarts: tuple[int, ...] = ()
    blind: tuple[tuple[int, int], ...] = ()

    def seconds(self, rows: float, executors: int, at: float) -> float:
        parallel = min(executors * self.cores, self.tasks)
        return self.fixed + self.slower(at) + rows * self.row * max(1 / parallel, self.share)


class Batch(NamedTuple):
    end: float
    rows: float
    seconds: float


@dataclass
class View:
    """What a policy sees.

    :param batches: the last ones, oldest first.
    :param load: as the driver reports it; None: nothing is known.
    """

    at: float
    number: int
    lag_rows: float
    lag_seconds: float
    batches: deque[Batch]
    load: LoadInfo | None
    blind: bool


class Policy(Protocol):
    def __call__(self, view: View) -> int: ...


class Outcome(NamedTuple):
    """:param late: share of the time in which the lag was above its target.
    :param executors: executor-seconds, as a share of the fixed maximum's.
    :param changes: a day.
    :param lag: the largest, in seconds.
    """

    late: float
    executors: float
    changes: float
    lag: float


def simulate(curve: Callable[[float], float], work: Work, policy: Policy, *, days: float = 1.0) -> Outcome:
    """:param curve: rows a second, by seconds since midnight."""
    noise = random.Random(7)
    waiting: deque[tuple[int, float]] = deque()  # second, rows
    batch: tuple[Batch, float, list[tuple[int, float]]] | None = None  # with its begin
    batches: deque[Batch] = deque(maxlen=50)
    number = wanted = MOST if isinstance(policy, Fixed) else 1
    coming: list[tuple[float, int]] = []
    cost, rows, next_batch, name = Cost(), 0.0, 0.0, 0
    load: LoadInfo | None = None
    last_begin: float | None = None
    late = used = changes = 0.0
    most_lag, end = 0.0, int(DAY * days)
    for at in range(end):
        if arrived := max(0.0, curve(at % DAY) * noise.gauss(1, 0.05)):
            waiting.append((at, arrived))
            rows += arrived
        for change in [c for c in coming if c[0] <= at]:
            coming.remove(change)
            number = change[1]
        dead = any(begin <= at < begin + RESTART for begin in work.restarts)
        if dead:
            if batch is not None:
                waiting.extendleft(reversed(batch[2]))
                rows += batch[0].rows
            batch, next_batch, cost, load, last_begin = None, at + 1.0, Cost(), None, None
        if batch is not None and at >= batch[0].end:
            batches.append(batch[0])
            rate = batch[0].rows / (batch[1] - last_begin) if last_begin is not None else None
            last_begin, name = batch[1], name + 1
            progress = {
                "batchId": name,
                "numInputRows": batch[0].rows,
                "durationMs": {"triggerExecution": batch[0].seconds * 1000},
                "inputRowsPerSecond": rate,
            }
            known = cost.see(progress, number * work.cores, work.tasks, at)
            load = LoadInfo(**asdict(known)) if known is not None else None
            batch = None
        if batch is None and not dead and at >= next_batch:
            took = work.seconds(rows, number, at) * noise.gauss(1, 0.05)
            batch = (Batch(at + took, rows, took), float(at), list(waiting))
            next_batch = at + max(work.interval, took)
            waiting.clear()
            rows = 0.0
        oldest = batch[2][0][0] if batch and batch[2] else waiting[0][0] if waiting else at
        lag = float(at - oldest)
        most_lag = max(most_lag, lag)
        late += lag > TARGET
        used += max(number, wanted)
        if at % LOOK == 0 and not dead:
            blind = any(begin <= at < over for begin, over in work.blind)
            behind = rows + (batch[0].rows if batch else 0.0)
            view = View(at, wanted, behind, lag, batches, None if blind else load, blind)
            new = min(max(policy(view), 1), MOST)
            if new != wanted:
                changes += 1
                coming = [(at + (COMES if new > number else GOES), new)]
                wanted = new
    return Outcome(late / end, used / (MOST * end), changes / days, most_lag)


class Fixed:
    """`executor.instances`."""

    def __call__(self, view: View) -> int:
        return MOST


@dataclass
class Dynamic:
    """Spark's dynamic allocation: more while tasks wait longer than a second; fewer when one has no task for
    a minute, which an executor with a task in every batch never is.
    """

    work: Work

    def __call__(self, view: View) -> int:
        waits = bool(view.batches) and view.batches[-1].seconds > 1
        return math.ceil(self.work.tasks / self.work.cores) if waits else view.number


@dataclass
class Threshold:
    """As proposed in SPARK-24815: once a minute, by the share of the trigger's interval that batches take."""

    work: Work

    def __call__(self, view: View) -> int:
        recent = [b.seconds for b in view.batches if b.end > view.at - 60]
        if view.at % 60 or not recent or view.blind:
            return view.number
        share = sum(recent) / len(recent) / (self.work.interval or sum(recent) / len(recent))
        if share > 0.9:
            return view.number + max(round(share), 1)
        return view.number - 1 if share < 0.5 else view.number


@dataclass
class Hpa:
    """A HorizontalPodAutoscaler, as KEDA makes one: a tolerance of a tenth, up at once by four or twofold,
    down to the most that it has recommended within five minutes.

    :param recommended: the number by its metric.
    """

    recommended: Callable[[View], float]
    recent: deque[tuple[float, int]] = field(default_factory=deque)

    def __call__(self, view: View) -> int:
        found = view.number if view.blind else self.recommended(view)
        number = view.number if abs(found / view.number - 1) <= 0.1 else math.ceil(found)
        self.recent.append((view.at, number))
        while self.recent[0][0] < view.at - 300:
            self.recent.popleft()
        if number > view.number:
            return min(number, max(view.number * 2, view.number + 4))
        return min(view.number, max(n for _, n in self.recent))


@dataclass
class Ours:
    """`spec.executor.autoscale`."""

    work: Work
    spec: Autoscale = field(default_factory=lambda: Autoscale(max=MOST))
    status: AutoscaleStatus | None = None

    def __call__(self, view: View) -> int:
        now = BEGIN + timedelta(seconds=view.at)
        source = SourceInfo(uid="source-0", lag_rows=int(view.lag_rows), lag_seconds=view.lag_seconds)
        stage = StageInfo(uid="main", load=view.load, sources=(source,))
        load = autoscale.Load((stage,), self.work.cores)
        self.status = autoscale.follow(autoscale.within(self.status, self.spec, now), self.spec, load, now)
        return self.status.desired


def _day(at: float) -> float:
    return TOP * (0.1 + 0.9 * math.sin(math.pi * at / DAY) ** 3)


class Case(NamedTuple):
    name: str
    curve: Callable[[float], float]
    work: Work = Work()


CASES = (
    Case("a day", _day),
    Case("a day, no interval", _day, Work(interval=0)),
    Case("steps", lambda at: TOP * (0.1, 0.5, 0.2, 1.0, 0.1, 0.7)[int(at // 14_400)]),
    Case("spikes of 5 minutes", lambda at: TOP * (0.95 if at % 7200 < 300 else 0.15)),
    Case("slow drift", lambda at: TOP * (0.1 + 0.8 * at / DAY)),
    Case("skew", lambda at: _day(at) / 3, Work(share=0.12)),
    Case(
        "a sink slows down",
        lambda at: TOP * 0.4,
        Work(slower=lambda at: 4.0 if 20_000 < at < 50_000 else 0.0),
    ),
    Case("3 partitions", lambda at: _day(at) / 10, Work(tasks=3)),
    Case("restarts", lambda at: TOP * 0.4, Work(restarts=tuple(range(7200, DAY, 7200)))),
    Case("figures missing", _day, Work(blind=((20_000, 30_000), (60_000, 63_000)))),
)
POLICIES: dict[str, Callable[[Work], Policy]] = {
    "fixed maximum": lambda work: Fixed(),
    "dynamicAllocation": Dynamic,
    "threshold": Threshold,
    # An executor for what it can do in 15 s at a utilization of 0.7. Somebody has measured that before.
    "KEDA, lag in rows": lambda work: Hpa(lambda view: view.lag_rows / (0.7 * 2 * 1000 * 15)),
    # To be a third of what it may be.
    "KEDA, lag in seconds": lambda work: Hpa(lambda view: view.number * view.lag_seconds / (TARGET / 3)),
    "autoscale": Ours,
}


class Grid(Figures):
    """A row for each curve, a column for each policy: the share of the time that the lag is above its target,
    the executor-seconds as a share of the fixed maximum's, and the changes a day.
    """

    def table(self, beside: Comparison | None = None) -> list[str]:
        lines = [f"| curve | {' | '.join(POLICIES)} |", "|---" * (len(POLICIES) + 1) + "|"]
        for case in CASES:
            cells = [self._cell(f"{case.name}, {policy}") for policy in POLICIES]
            lines.append(f"| {case.name} | {' | '.join(cells)} |")
        return lines

    def _cell(self, name: str) -> str:
        late, executors, changes = self.samples[name]
        return f"{late:.1%}, {executors:.0%}, {changes:.0f}"


def measure() -> Grid:
    grid = Grid()
    for case in CASES:
        for name, policy in POLICIES.items():
            found = simulate(case.curve, case.work, policy(case.work))
            for value in (found.late, found.executors, found.changes):
                grid.add(f"{case.name}, {name}", value)
    return grid
