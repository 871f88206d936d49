"""What happens in one world: the job, what its user does, and the faults.

All of it from one seed, or written down.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random


class Fault(str, Enum):
    """What can go wrong with one call."""

    CRASH_BEFORE = "crash before"
    CRASH_AFTER = "crash after"
    CONFLICT = "409"
    TOO_MANY = "429"
    ERROR = "500"
    APPLIED = "timeout, applied"
    LOST = "timeout, not applied"


class Mishap(str, Enum):
    """What can happen to a driver when it carries out an effect of the coordinator."""

    KILLED_BEFORE = "killed before"
    KILLED_AFTER = "killed after"  # done, and not yet answered
    THROWS = "throws"
    HANGS = "hangs"  # answers nobody for a while
    NODE_LOST = "node lost"
    EVICTED = "evicted"


class Scripted(str, Enum):
    """What the job's script does beside starting its queries."""

    TOGETHER = "together"  # starts them all, and falls off its end
    IN_TURN = "in turn"  # each when the one before is over: their triggers take what there is
    NOTES = "notes"  # in turn, up to declared ends; it notes which are over, and does not start those again
    POLLS = "polls"  # waits for something to happen before it starts them, often for long
    REFRESH = "refresh"  # stops the last one again and again, and starts it again
    RETRY = "retry"  # starts again what has failed
    CARELESS = "careless"  # what has failed stays dead


@dataclass(frozen=True)
class Shape:
    """The job: its stages, and its spec where it matters here.

    :param chained: each stage reads from the one before; otherwise they have nothing to do with each other.

    :param transactional: its sinks commit with checkpoints.
    :param bounded: batches until the input ends, None for never.
    :param interval: of periodic checkpoints.
    :param schedule: of savepoints, None for none; so many of them are `retained`, None for all.
    :param on_delete: as `spec.termination.onDelete`.
    :param executors: so many at the start; 0: none, and no step changes that.
    :param autoscale: the number of executors follows the load.
    :param sidecar: a container beside the driver's that ends only when it is killed.
    :param runtime: as `spec.runtime`.
    :param history: as `spec.restart.failedDriversHistoryLimit`.
    :param standby: as `spec.driver.standby`.
    :param rounds: minutes between two rounds (`spec.schedule`); None: it has none. `bounded` is then of each
        round, and without it a round does not end by itself.
    :param ui: with Service, Ingress and HTTPRoute for Spark's UI.
    """

    stages: tuple[str, ...] = ("events",)
    transactional: bool = False
    bounded: int | None = None
    interval: str = "0s"
    on_delete: str = "Stop"
    image: str = "jobs:1"
    policy: str = "OnFailure"
    schedule: str | None = None
    retained: int | None = None
    escalation: tuple[str, ...] = ()
    upgrade: str = "Savepoint"
    sidecar: bool = False
    executors: int = 0
    autoscale: bool = False
    script: Scripted = Scripted.TOGETHER
    chained: bool = True
    runtime: str = "Image"
    history: int = 1
    ui: bool = False
    standby: bool = False
    rounds: int | None = None


@dataclass(frozen=True)
class Step:
    """`do` of `user.DEEDS`, once the job's phase is `phase` (or PATIENCE is over), and
    `delay` seconds later.
    """

    do: str
    delay: float = 0.0
    phase: str | None = None


@dataclass(frozen=True)
class Weather:
    """Until `until`: the share of all calls that go wrong, and of events that are lost, late or doubled."""

    until: float = 0.0
    calls: float = 0.0
    events: float = 0.0


@dataclass(frozen=True)
class Plan:
    """The faults and mishaps of one plan.

    :param faults: by the ordinal of the effect (a write to the API server, a command to a driver), from 0.
    :param mishaps: by the effect's name and how often it has come before.
    :param skews: seconds, of each controller's clock.
    :param deaf: to a kind (`pods`): its events never come, and nobody says so.
    :param first: what each call, reads too, meets with the first time.
    :param name: of the scenario, if it is one.
    """

    seed: int
    shape: Shape = field(default_factory=Shape)
    steps: tuple[Step, ...] = (Step("apply"),)
    faults: tuple[tuple[int, Fault], ...] = ()
    mishaps: tuple[tuple[str, int, Mishap], ...] = ()
    weather: Weather = field(default_factory=Weather)
    skews: tuple[float, ...] = (0.0,)
    deaf: str = ""
    first: Fault | None = None
    name: str = ""

    @property
    def calm(self) -> bool:
        """Nothing goes wrong in it, except what the user does."""
        return not (self.faults or self.mishaps or self.weather.until or self.first)


# Moments at which a driver may meet with a mishap: the coordinator's effects, and the driver's own way of
# life. Those of a gate come only where there are hand-overs: "Gate" (it has reached it), "Opened".
MOMENTS = (
    "Container",
    "Started",
    "Running",
    "StopAtBoundary",
    "CatchUp",
    "FireMaxWatermark",
    "Flushed",
    "Finish",
    "StoreCheckpoint",
    "AnnounceCheckpoint",
    "NotifyComplete",
    "Close",
    "Leave",
    "Delete",
)
RARE = (
    "delete namespace",
    "fill storage",
    "revoke all",
    "revoke pods",
    "revoke index",
    "revoke status",
)
# Faults end: what puts an end to them.
MENDED = {
    "fill storage": "make room",
    "revoke all": "grant",
    "revoke pods": "grant",
    "revoke index": "grant",
    "revoke status": "grant",
}
STATES = ("Running", "Stopped", "Drained", "Cancelled")
DELAYS = (0.0, 0.3, 2.0, 5.0, 12.0, 40.0, 150.0)


def random_plan(seed: int, *, rounds: bool = True) -> Plan:
    """The plan of this seed.

    :param rounds: one in five is of a job with a schedule.
    """
    rng = Random(f"plan {seed}")
    shape = Shape(
        stages=rng.choice((("events",), ("events",), ("events", "sums"))),
        transactional=rng.random() < 0.25,
        bounded=rng.choice((None, None, None, 10, 40)),
        interval=rng.choice(("0s", "5s", "15s", "60s")),
        on_delete=rng.choice(("Stop", "Stop", "Drain", "Cancel")),
        image=rng.choice(("jobs:1",) * 9 + ("missing:1",)),
        policy=rng.choice(("OnFailure",) * 9 + ("Never",)),
        schedule=rng.choice((None, None, None, "*/2 * * * *")),
        retained=rng.choice((None, 1, 2)),
        escalation=rng.choice(((), (), ("Stop",), ("Cancel",), ("Stop", "Cancel"))),
        upgrade=rng.choice(("Savepoint",) * 6 + ("Checkpoint", "NextEpoch")),
        sidecar=Random(f"sidecar {seed}").random() < 0.2,
        runtime=Random(f"runtime {seed}").choice(("Image", "Image", "Injected")),
        history=Random(f"history {seed}").choice((0, 1, 1, 2)),
        ui=Random(f"ui {seed}").random() < 0.2,
    )
    if (handover := Random(f"handover {seed}")).random() < 0.3:
        shape = replace(shape, upgrade="Handover")
    if (standby := Random(f"standby {seed}")).random() < 0.3:
        shape = replace(shape, standby=True)
    shape = _scripted(shape, Random(f"script {seed}"))
    kind = rng.choice(("calls", "drivers", "both", "weather", "all"))
    faults: tuple[tuple[int, Fault], ...] = ()
    mishaps: tuple[tuple[str, int, Mishap], ...] = ()
    weather = Weather()
    if kind in ("calls", "both", "all"):
        faults = tuple((rng.randrange(40), rng.choice(list(Fault))) for _ in range(rng.choice((1, 2, 2, 3))))
    if kind in ("drivers", "both", "all"):
        mishaps = tuple(
            (rng.choice(MOMENTS), rng.choice((0, 0, 0, 1, 2)), rng.choice(list(Mishap)))
            for _ in range(rng.choice((1, 1, 2)))
        )
    if kind in ("weather", "all"):
        weather = Weather(rng.choice((60.0, 400.0)), rng.choice((0.02, 0.1, 0.3)), rng.choice((0.0, 0.3)))
    if shape.standby and mishaps and standby.random() < 0.6:
        moment = standby.choice(("Gate", "Opened", "Running", "Running"))
        mishaps += ((moment, standby.choice((0, 0, 1)), standby.choice(list(Mishap))),)
    if shape.upgrade == "Handover" and mishaps and handover.random() < 0.5:
        gate = handover.choice(("Gate", "Opened"))
        mishaps += ((gate, handover.choice((0, 0, 1)), handover.choice(list(Mishap))),)
    skews = (rng.choice((0.0, 0.0, 3600.0, -3600.0)),) * rng.choice((1, 1, 1, 2))
    steps = list(_suspended(_steps(rng), Random(f"suspend {seed}")))
    if scales := Random(f"executors {seed}").choice((0, 0, 0, 1, 2)):
        shape = replace(shape, executors=1)
        steps += _scaling(Random(f"scale {seed}"), scales)
    elif (load := Random(f"load {seed}")).random() < 0.2:
        shape = replace(shape, autoscale=True)
        does = load.choice((("busy",), ("busy", "quiet"), ("busy", "quiet", "busy")))
        steps += [Step(do, load.choice((*DELAYS, 60.0)), "Running") for do in does]
    if shape.ui:
        hides = Random(f"hides {seed}")
        steps.insert(hides.randrange(1, len(steps) + 1), Step(hides.choice(("hide UI", "no UI"))))
    if shape.upgrade == "Handover":
        steps = _handed_over(steps, handover)
    if shape.standby:
        steps = _stood_by(steps, standby)
    if (of_rounds := Random(f"rounds {seed}")).random() < 0.2 and rounds:
        shape, steps = _in_rounds(shape, steps, of_rounds)
    deaf = rng.choice(("",) * 18 + ("pods", "streamjobs"))
    first = rng.choice((None,) * 20 + tuple(Fault))
    return Plan(seed, shape, tuple(steps), faults, mishaps, weather, skews, deaf, first)


def _scaling(rng: Random, times: int) -> list[Step]:
    phases = (None, "Running", "Running", "Starting", "Stopping")
    return [Step("scale", rng.choice(DELAYS), rng.choice(phases)) for _ in range(times)]


def _scripted(shape: Shape, rng: Random) -> Shape:
    """One half of the scripts only start their queries. What takes its queries in turn needs them to end."""
    script = rng.choice((Scripted.TOGETHER, rng.choice(list(Scripted))))
    in_turn = script in (Scripted.IN_TURN, Scripted.NOTES)
    stages = ("events", "sums") if in_turn or rng.random() < 0.3 else shape.stages
    bounded = shape.bounded or (10 if in_turn else None)
    return replace(shape, script=script, stages=stages, bounded=bounded, chained=rng.random() < 0.7)


def _handed_over(steps: list[Step], rng: Random) -> list[Step]:
    """The specification changes while the driver runs, once or twice, and something else comes in between."""
    change = rng.choice(("edit",) * 5 + ("broken script", "throwing script", "bad image"))
    between = [Step(change, rng.choice(DELAYS), "Running")]
    if rng.random() < 0.5:
        second = rng.choice(("edit", "edit", "mend", "nonce", "kill pod", "delete pod", "savepoint", *STATES))
        between.append(Step(second, rng.choice((*DELAYS, 1.0, 7.0, 9.0)), rng.choice((None, "Stopping"))))
    return [*steps[:1], *between, *steps[1:]]


def _stood_by(steps: list[Step], rng: Random) -> list[Step]:
    """The running driver dies or is evicted, once or twice, when a standby may be there or not."""
    ends = ("kill leader", "kill leader", "evict", "evict", "kill pod", "no standby", "edit", *STATES)
    between = [
        Step(rng.choice(ends), rng.choice((*DELAYS, 15.0, 20.0)), "Running")
        for _ in range(rng.choice((1, 1, 2)))
    ]
    if any(step.do == "no standby" for step in between) and rng.random() < 0.7:
        between.append(Step("standby", rng.choice(DELAYS)))
    return [*steps[:1], *between, *steps[1:]]


def _in_rounds(shape: Shape, steps: list[Step], rng: Random) -> tuple[Shape, list[Step]]:
    """A job with a schedule: its script ends by itself, as a rule."""
    bounded = rng.choice((1, 3, 3, 10, 40)) if rng.random() < 0.9 else None
    shape = replace(
        shape,
        rounds=rng.choice((1, 2, 5)),
        bounded=bounded,
        script=Scripted.IN_TURN if bounded else Scripted.TOGETHER,
        upgrade="Savepoint",
        standby=False,
    )
    own = [
        Step(
            rng.choice(("run", "run", "edit", "suspend", "broken script", "kill leader", "evict", *STATES)),
            rng.choice((*DELAYS, 1.0, 7.0)),
            rng.choice(("Waiting", "Waiting", "Running", "Starting", None)),
        )
        for _ in range(rng.choice((1, 2, 3)))
    ]
    if any(step.do == "suspend" for step in own):
        own.append(Step("unsuspend", rng.choice(DELAYS), rng.choice((None, "Suspended", "Stopping"))))
    return shape, [*steps[:1], *own, *(s for s in steps[1:] if s.do not in ("standby", "no standby"))]


def _suspended(steps: list[Step], rng: Random) -> tuple[Step, ...]:
    """Some jobs are suspended, most of them not for ever."""
    if rng.random() < 0.8:
        return tuple(steps)
    at = rng.randrange(1, len(steps) + 1)
    phase = rng.choice((None, "Running", "Running", "Stopping", "Stopped", "Restarting", "Starting"))
    between = [Step("suspend", rng.choice(DELAYS), phase)]
    if rng.random() < 0.7:
        between.append(Step("unsuspend", rng.choice(DELAYS), rng.choice((None, "Suspended", "Stopping"))))
    return (*steps[:at], *between, *steps[at:])


def _steps(rng: Random) -> list[Step]:
    steps = [Step("apply")]
    for _ in range(rng.choice((1, 2, 2, 3, 4))):
        what = rng.random()
        if what < 0.6:
            do = rng.choice(STATES)
        elif what < 0.7:
            do = "delete"
        else:
            do = rng.choice(
                (
                    "delete pod",
                    "kill pod",
                    "edit",
                    "savepoint",
                    "savepoint",
                    "nonce",
                    "delete secret",
                    "bad image",
                    "good image",
                    "broken script",
                    "throwing script",
                    "good script",
                    "mend",
                    "strip",
                    "again",
                    "other",
                    "other Stopped",
                    "other Drained",
                    *(("delete index",) if rng.random() < 0.3 else ()),
                    *(RARE if rng.random() < 0.3 else ()),
                )
            )
        phase = rng.choice(
            (None, None, "Running", "Stopping", "Draining", "Stopped", "Restarting", "Starting")
        )
        steps.append(Step(do, rng.choice(DELAYS), phase))
    if rng.random() < 0.5:
        steps.append(Step(rng.choice(STATES), rng.choice(DELAYS)))
    done = {step.do for step in steps}
    return steps + [Step(mended, rng.choice(DELAYS)) for deed, mended in MENDED.items() if deed in done]
