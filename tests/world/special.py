"""Scenarios that only a certain mishap shows; each has found something, or is the only one that notices a
seeded bug. More than 600 lines: it is a list.
"""

from __future__ import annotations

from dataclasses import replace

from .plan import Fault, Mishap, Plan, Scripted, Shape, Step, Weather
from .scenarios import APPLY, PLANS

TWO = ("events", "sums")
Met = tuple[str, int, Mishap]
DIES = ("Running", 0, Mishap.THROWS)
FILL = Step("fill storage", 3.0, "Running")


def _revoked(seed: int, what: str, seconds: float) -> Plan:
    """Rights are taken away in the middle of a stop, and given back."""
    return Plan(
        seed,
        steps=(
            APPLY,
            Step("Stopped", 3.0, "Running"),
            Step(f"revoke {what}", 0.1, "Stopping"),
            Step("grant", seconds),
        ),
    )


def _handed_over(seed: int, *steps: Step) -> Plan:
    """Hand-overs of a job with transactional sinks."""
    return Plan(seed, Shape(upgrade="Handover", transactional=True), (APPLY, *steps))


def _stood_by(seed: int, *steps: Step) -> Plan:
    """A job with a standby and transactional sinks, whose directories are ahead of its newest checkpoint."""
    return Plan(seed, Shape(standby=True, transactional=True, interval="5s"), (APPLY, *steps))


def _held(seed: int, *steps: Step) -> Plan:
    """The pod of a stopped driver is held for a minute by somebody else's finalizer."""
    stops = (APPLY, Step("hold pods", 3.0, "Running"), Step("Stopped", 1.0, "Running"))
    return Plan(seed, steps=(*stops, *steps, Step("let pods go", 60.0)))


def _in_rounds(seed: int, *steps: Step, bounded: int | None = 3, mishaps: tuple[Met, ...] = ()) -> Plan:
    """A job with a schedule and transactional sinks. A round of five minutes leaves time for what comes."""
    script = Scripted.IN_TURN if bounded else Scripted.TOGETHER
    shape = Shape(stages=TWO, transactional=True, bounded=bounded, script=script, rounds=5)
    return Plan(seed, shape, (APPLY, *steps), mishaps=mishaps)


_SPECIAL: dict[str, Plan] = {
    # The load comes and goes: the number has to come down, too.
    "busy-then-quiet": Plan(
        66, Shape(autoscale=True), (APPLY, Step("busy", 3.0, "Running"), Step("quiet", 90.0, "Running"))
    ),
    "rounds": _in_rounds(
        501, Step("nonce", 900.0, "Waiting"), Step("run", 100.0), Step("run", 3.0, "Running")
    ),
    "rounds-suspended": _in_rounds(
        502, Step("suspend", 3.0, "Running"), Step("unsuspend", 400.0), Step("run", 3.0, "Waiting")
    ),
    "rounds-stopped": _in_rounds(503, Step("Stopped", 5.0, "Running"), Step("Running", 60.0, "Stopped")),
    "rounds-drained": _in_rounds(504, Step("run", 5.0, "Waiting"), Step("Drained", 90.0, "Waiting")),
    "rounds-drained-at-work": _in_rounds(505, Step("run", 5.0, "Waiting"), Step("Drained", 3.0, "Running")),
    "rounds-killed": _in_rounds(
        506, Step("run", 5.0, "Waiting"), mishaps=(("StoreCheckpoint", 2, Mishap.KILLED_AFTER),)
    ),
    "rounds-killed-at-the-end": _in_rounds(
        507, Step("run", 120.0), mishaps=(("Leave", 0, Mishap.KILLED_BEFORE),)
    ),
    "rounds-evicted": _in_rounds(508, Step("evict", 3.0, "Running")),
    "rounds-upgraded": _in_rounds(509, Step("edit", 60.0, "Waiting"), Step("edit", 3.0, "Running")),
    "rounds-rolled-back": _in_rounds(
        510, Step("run", 5.0, "Waiting"), Step("broken script", 90.0, "Waiting"), Step("run", 400.0)
    ),
    "rounds-not-pulled": _in_rounds(
        511, Step("run", 5.0, "Waiting"), Step("bad image", 90.0, "Waiting"), Step("run", 3.0)
    ),
    "rounds-held": _in_rounds(
        514,
        Step("hold pods", 3.0, "Running"),
        Step("run", 5.0, "Waiting"),
        Step("let pods go", 60.0),
        Step("nonce", 100.0),
    ),
    "rounds-that-do-not-end": _in_rounds(
        512, Step("run", 5.0, "Waiting"), Step("nonce", 700.0), bounded=None
    ),
    "rounds-that-last": _in_rounds(513, Step("nonce", 1500.0), bounded=60),
    "held": _held(61, Step("Running", 2.0, "Stopped")),
    "held-twice": _held(62, Step("Running", 2.0, "Stopped"), Step("Stopped", 9.0), Step("Running", 9.0)),
    "held-drained": _held(63, Step("Drained", 2.0, "Stopped")),
    "held-deleted": _held(64, Step("delete", 2.0, "Stopped")),
    "held-cancelled": _held(65, Step("Cancelled", 2.0, "Stopped"), Step("Running", 9.0)),
    "held-suspended": _held(66, Step("suspend", 2.0, "Stopped"), Step("Running", 3.0)),
    # A drain fails, and the next driver is stopped when all that its script has started has finished; the
    # script has not started its second query.
    "stopped-between-queries": Plan(
        9702381,
        Shape(stages=TWO, transactional=True, bounded=10, script=Scripted.IN_TURN),
        (
            APPLY,
            Step("Running", 0.0, "Running"),
            Step("Running", 5.0, "Starting"),
            Step("Stopped", 2.0),
        ),
        mishaps=(("Flushed", 1, Mishap.THROWS),),
    ),
    # It notes what is over: the driver after the stop starts nothing.
    "stopped-when-all-is-noted": Plan(
        9,
        Shape(stages=TWO, transactional=True, bounded=3, script=Scripted.NOTES, chained=False),
        (APPLY, Step("Stopped", 28.0, "Running"), Step("Running", 3.0, "Stopped")),
    ),
    # Its script has started nothing when it is stopped, first without a checkpoint.
    "stopped-before-it-started": Plan(
        13,
        Shape(stages=TWO, script=Scripted.POLLS),
        (APPLY, Step("Stopped", 20.0), Step("Running", 3.0, "Stopped"), Step("Stopped", 200.0, "Running")),
    ),
    # One has died while its queries ran. The next one is to stop, and is evicted while its script polls.
    "evicted-before-it-started": Plan(
        16,
        Shape(stages=TWO, script=Scripted.POLLS),
        (
            APPLY,
            Step("kill pod", 20.0, "Running"),
            Step("Stopped", 20.0),
            Step("delete pod", 8.0),
            Step("Running", 3.0, "Stopped"),
        ),
    ),
    # The checkpoint is in the index, and the driver dies before its sinks have committed.
    "uncommitted": Plan(
        8,
        Shape(transactional=True),
        (APPLY, Step("Stopped", 9.0, "Running")),
        mishaps=(("NotifyComplete", 0, Mishap.KILLED_BEFORE),),
    ),
    # A deleted job's driver hangs for longer than the deletion is patient.
    "hung": Plan(
        9, steps=(APPLY, Step("delete", 3.0, "Running")), mishaps=(("StopAtBoundary", 0, Mishap.HANGS),)
    ),
    # A deleted job's driver is lost with its node, and the job's policy is not to start another one.
    "lost-deleted": Plan(
        22,
        Shape(policy="Never"),
        (APPLY, Step("delete", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.NODE_LOST),),
    ),
    # Three drivers are killed: the pods of one, of two or of none of them stay, and none of their executors.
    **{
        f"history-{limit}": Plan(
            53 + limit,
            Shape(executors=2, history=limit),
            (APPLY, Step("Stopped", 90.0, "Running")),
            mishaps=tuple(("Running", n, Mishap.KILLED_BEFORE) for n in range(3)),
        )
        for limit in range(3)
    },
    # A sidecar runs on in the pod of a driver that has died: that pod does not stay.
    "history-sidecar": Plan(
        56,
        Shape(executors=1, sidecar=True),
        mishaps=tuple(("Running", n, Mishap.KILLED_BEFORE) for n in range(2)),
    ),
    # It fails for good, and is cancelled, resumed, and deleted.
    "history-at-rest": Plan(
        57,
        Shape(executors=1, policy="Never"),
        (APPLY, Step("Cancelled", 9.0, "Failed"), Step("Running", 9.0, "Cancelled")),
        mishaps=(("Running", 0, Mishap.KILLED_BEFORE),),
    ),
    # A job is deleted while its driver starts: at once, and when it resumes.
    "delete-starting": Plan(58, steps=(APPLY, Step("delete", 1.0, "Starting"))),
    "delete-resuming": Plan(
        59,
        steps=(
            APPLY,
            Step("Stopped", 3.0, "Running"),
            Step("Running", 3.0, "Stopped"),
            Step("delete", 3.0, "Starting"),
        ),
    ),
    # Its directories are ahead of the newest checkpoint when it is killed.
    "behind": Plan(14, Shape(interval="5s"), mishaps=(("Running", 0, Mishap.KILLED_BEFORE),)),
    # The driver answers nobody for a while; then it is told to stop.
    "deaf": Plan(
        13, steps=(APPLY, Step("Stopped", 500.0, "Running")), mishaps=(("Running", 0, Mishap.HANGS),)
    ),
    # A savepoint is in progress when the job is asked to stop: it is aborted, or the index has it.
    "savepoint-stop": Plan(
        16, Shape(interval="5s"), (APPLY, Step("savepoint", 3.0, "Running"), Step("Stopped", 1.0))
    ),
    # Its driver dies: the next one is asked for the same.
    "savepoint-killed": Plan(
        17,
        steps=(APPLY, Step("savepoint", 3.0, "Running")),
        mishaps=(("StoreCheckpoint", 0, Mishap.KILLED_AFTER),),
    ),
    # Its driver answers nobody until its time is over.
    "savepoint-cancelled": Plan(
        18, steps=(APPLY, Step("savepoint", 3.0, "Running"), Step("Cancelled", 0.5), Step("Running", 30.0))
    ),
    # A driver dies while it deletes: what is left is the next one's.
    "retained": Plan(
        20,
        Shape(schedule="*/2 * * * *", retained=1),
        (APPLY, Step("edit", 900.0, "Running")),
        mishaps=(("Delete", 1, Mishap.KILLED_BEFORE),),
    ),
    # One every two minutes, and the job is stopped over some of them.
    "scheduled": Plan(
        19,
        Shape(schedule="*/2 * * * *", retained=1),
        (APPLY, Step("Stopped", 300.0, "Running"), Step("Running", 600.0, "Stopped"), Step("edit", 400.0)),
    ),
    # The index is deleted by hand while nothing runs: the job continues by the savepoint that its status
    # names.
    "lost-index": Plan(
        12,
        Shape(transactional=True),
        (
            APPLY,
            Step("Stopped", 3.0, "Running"),
            Step("delete index", 1.0, "Stopped"),
            Step("Running", 1.0),
        ),
    ),
    # It is deleted while a driver runs, in its second epoch: that one knows what was in it.
    "index-deleted": Plan(
        21,
        Shape(transactional=True, interval="5s"),
        (
            APPLY,
            Step("Stopped", 12.0, "Running"),
            Step("Running", 3.0, "Stopped"),
            Step("savepoint", 7.0, "Running"),
            Step("delete index", 12.0),
            Step("Stopped", 20.0),
            Step("Running", 20.0),
        ),
    ),
    # A job is made anew under its name before the index of the one before it has been collected.
    "again-at-once": Plan(
        22,
        steps=(
            APPLY,
            Step("Cancelled", 2.0),
            Step("strip", 100.0),
            Step("again", 0.3),
            Step("Running", 40.0),
        ),
    ),
    # A new script that fails in its first batch, when the driver has been Running already.
    "throws": Plan(22, steps=(APPLY, Step("throwing script", 3.0, "Running"))),
    # One that fails before its first query.
    "broken": Plan(33, steps=(APPLY, Step("broken script", 3.0, "Running"))),
    # Another one that cannot work, while the first one is tried: the job goes back behind both.
    "twice-broken": Plan(
        23, steps=(APPLY, Step("throwing script", 3.0, "Running"), Step("edit", 0.0, "Restarting"))
    ),
    # A second change while the new driver, which has run for a moment only, has yet to fail.
    "second-thought": Plan(
        24,
        steps=(
            APPLY,
            Step("throwing script", 30.0, "Running"),
            Step("edit", 0.0, "Starting"),
            Step("broken script", 0.1, "Running"),
        ),
    ),
    # The new driver is killed once, by chance.
    "unlucky": Plan(
        25,
        steps=(APPLY, Step("edit", 3.0, "Running")),
        mishaps=(("Started", 1, Mishap.KILLED_BEFORE),),
    ),
    # The old driver dies while it stops for the new one.
    "died-stopping": Plan(
        26,
        steps=(APPLY, Step("edit", 9.0, "Running")),
        mishaps=(("StoreCheckpoint", 0, Mishap.KILLED_BEFORE),),
    ),
    # So does the new one, by chance, a moment after it has begun.
    "died-twice": Plan(
        37,
        steps=(APPLY, Step("edit", 9.0, "Running"), Step("kill pod", 15.0, "Restarting")),
        mishaps=(("StoreCheckpoint", 0, Mishap.KILLED_BEFORE),),
    ),
    # The new one is killed once, and no driver of this job is tried again.
    "died-once": Plan(
        39,
        Shape(policy="Never"),
        (APPLY, Step("edit", 9.0, "Running"), Step("kill pod", 15.0, "Starting")),
    ),
    # It was rolled back; the spec is mended, and the job stopped and started in between.
    "mended": Plan(
        27,
        steps=(
            APPLY,
            Step("bad image", 3.0, "Running"),
            Step("Stopped", 120.0),
            Step("Running", 3.0, "Stopped"),
            Step("mend", 30.0, "Running"),
        ),
    ),
    # The specification changes, and the new driver is prepared beside the running one. Its
    # image is not there, or its script fails in its first batch.
    "handover-image": _handed_over(70, Step("bad image", 3.0, "Running")),
    "handover-throws": _handed_over(71, Step("throwing script", 3.0, "Running")),
    # Another change, or the old specification again, while it is prepared, waits, or has just taken over.
    **{
        f"handover-{what.split()[-1]}-{when}": _handed_over(
            72 + n, Step("bad image", 3.0, "Running"), Step(what, delay, phase)
        )
        for n, (what, when, delay, phase) in enumerate(
            (
                ("good image", "reverted", 2.0, None),
                ("mend", "mended", 3.0, None),
                ("Stopped", "preparing", 2.0, None),
                ("Drained", "preparing", 2.0, None),
                ("suspend", "preparing", 2.0, None),
                ("Cancelled", "preparing", 2.0, None),
                ("delete", "preparing", 2.0, None),
            )
        )
    },
    **{
        f"handover-{what.split()[-1]}-{when}": _handed_over(
            80 + n, Step("edit", 3.0, "Running"), Step(what, delay, phase)
        )
        for n, (what, when, delay, phase) in enumerate(
            (
                ("edit", "stopping", 1.0, "Stopping"),
                ("Stopped", "stopping", 1.0, "Stopping"),
                ("Stopped", "starting", 0.0, "Starting"),
                ("Drained", "starting", 0.0, "Starting"),
                ("suspend", "starting", 0.0, "Starting"),
                ("Cancelled", "starting", 0.0, "Starting"),
                ("delete", "starting", 0.0, "Starting"),
                ("delete index", "starting", 0.0, "Starting"),
                ("edit", "starting", 0.0, "Starting"),
            )
        )
    },
    # The new driver dies on its way to the gate, at it, when it has been opened, or never gets there.
    **{
        f"handover-{moment.lower()}-{mishap.name.lower()}": replace(
            _handed_over(90, Step("edit", 3.0, "Running")),
            seed=90 + 10 * n + m,
            mishaps=((moment, int(moment == "Container"), mishap),),
        )
        for n, moment in enumerate(("Container", "Gate", "Opened"))
        for m, mishap in enumerate(Mishap)
        if mishap is not Mishap.THROWS
    },
    # The old one dies while another is prepared, when it is asked to stop, or before it has closed.
    **{
        f"handover-old-{moment.lower()}-{mishap.name.lower()}": replace(
            _handed_over(130, Step("edit", 3.0, "Running")),
            seed=130 + 10 * n + m,
            mishaps=((moment, 0, mishap),),
        )
        for n, moment in enumerate(("StopAtBoundary", "StoreCheckpoint", "NotifyComplete", "Close", "Leave"))
        for m, mishap in enumerate((Mishap.KILLED_BEFORE, Mishap.HANGS, Mishap.EVICTED))
    },
    "handover-old-killed": _handed_over(
        190, Step("edit", 3.0, "Running"), Step("kill pod", 1.0), Step("Stopped", 90.0)
    ),
    # Each call, that to the gate too, meets with a fault the first time.
    **{
        f"handover-first-{fault.name.lower()}": replace(
            _handed_over(210, Step("edit", 100.0, "Running")), first=fault
        )
        for fault in Fault
    },
    # Two controllers in bad weather: calls are lost or crash, and the other one goes on.
    **{
        f"handover-two-controllers-{n}": replace(
            _handed_over(200 + n, Step("edit", 9.0, "Running"), Step("edit", 90.0, "Running")),
            skews=(0.0, 0.0),
            weather=Weather(400.0, 0.3, 0.3),
        )
        for n in range(4)
    },
    "handover-finishes": replace(
        _handed_over(192, Step("bad image", 3.0, "Running")),
        shape=Shape(upgrade="Handover", bounded=10, transactional=True),
    ),
    # A standby waits beside the driver, which dies in each of the ways that there are.
    **{
        f"standby-{moment.lower()}-{mishap.name.lower()}": replace(
            _stood_by(220), seed=220 + 10 * n + m, mishaps=((moment, 0, mishap),)
        )
        for n, moment in enumerate(("Running", "Gate", "Opened"))
        for m, mishap in enumerate(Mishap)
        if mishap is not Mishap.THROWS or moment == "Running"
    },
    # The standby hangs when the driver dies: no other one begins beside it.
    "standby-deaf": replace(
        _stood_by(249, Step("kill leader", 100.0, "Running")), mishaps=(("Gate", 0, Mishap.HANGS),)
    ),
    # It is killed again and again: one takes over from the other, or the next one is not ready yet.
    "standby-again": _stood_by(250, *(Step("kill leader", wait, "Running") for wait in (0.1, 15.0, 15.0))),
    # The standby itself dies again and again: the job does not notice, and the next one is not made at once.
    "standby-dies": replace(
        _stood_by(251), mishaps=tuple(("Gate", n, Mishap.KILLED_BEFORE) for n in range(4))
    ),
    # Both die together; nothing of the job is left in order.
    "standby-both": _stood_by(252, Step("kill pod", 15.0, "Running"), Step("delete pod", 30.0, "Running")),
    # The job ends, or fails for good: no standby is left, and none takes over.
    **{
        f"standby-{what.split()[-1].lower()}": _stood_by(253 + n, Step(what, 15.0, "Running"))
        for n, what in enumerate(("Stopped", "Drained", "Cancelled", "suspend", "delete", "no standby"))
    },
    "standby-never": replace(
        _stood_by(260, Step("kill leader", 15.0, "Running"), Step("Stopped", 30.0)),
        shape=Shape(standby=True, policy="Never"),
    ),
    "standby-finishes": replace(_stood_by(261), shape=Shape(standby=True, bounded=10)),
    # The directories of the driver that dies are ahead of the checkpoint that the one before has left.
    "standby-behind": Plan(
        263,
        Shape(standby=True),
        (
            APPLY,
            Step("Stopped", 3.0, "Running"),
            Step("Running", 3.0, "Stopped"),
            Step("kill leader", 20.0, "Running"),
        ),
    ),
    # A stop overtakes the death, or the other way round.
    "standby-late-stop": _stood_by(262, Step("kill leader", 15.0, "Running"), Step("Stopped", 0.3)),
    # The specification changes: in every mode the standby is one of the new one in the end.
    **{
        f"standby-edit-{mode.lower()}": replace(
            _stood_by(270 + n, Step("edit", 15.0, "Running"), Step("kill leader", 9.0, "Running")),
            shape=Shape(standby=True, upgrade=mode),
        )
        for n, mode in enumerate(("Savepoint", "Checkpoint", "NextEpoch", "Handover"))
    },
    # The new specification does not come up: the standby is one of the old one.
    **{
        f"standby-broken-{mode.lower()}": replace(
            _stood_by(280 + n, Step("throwing script", 15.0, "Running")),
            shape=Shape(standby=True, upgrade=mode),
        )
        for n, mode in enumerate(("Savepoint", "Handover"))
    },
    # Each call meets with a fault the first time.
    **{
        f"standby-first-{fault.name.lower()}": replace(
            _stood_by(290, Step("kill leader", 60.0, "Running")), first=fault
        )
        for fault in Fault
    },
    # A sidecar runs on in the pod of the driver that is dead, and that pod stays for its log, or not.
    **{
        f"standby-history-{limit}": replace(
            _stood_by(300 + limit, *(Step("kill leader", 20.0, "Running") for _ in range(3))),
            shape=Shape(standby=True, executors=2, history=limit, sidecar=limit == 1, interval="5s"),
        )
        for limit in range(3)
    },
    # The controller may make no pods for a while: the job runs, and gets its standby later.
    "revoked-standby": Plan(
        310, Shape(standby=True), (APPLY, Step("revoke pods", 0.1, "Running"), Step("grant", 90.0))
    ),
    **{
        f"standby-two-controllers-{n}": replace(
            _stood_by(320 + n, Step("kill leader", 15.0, "Running"), Step("evict", 60.0, "Running")),
            skews=(0.0, 0.0),
            weather=Weather(400.0, 0.3, 0.3),
        )
        for n in range(3)
    },
    # A drain hangs in its last batch for longer than its timeout: it becomes a stop.
    "drain-to-stop": Plan(
        28,
        Shape(escalation=("Stop",)),
        (APPLY, Step("Drained", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS),),
    ),
    # So does the stop that it has become.
    "drain-to-cancel": Plan(
        29,
        Shape(escalation=("Stop", "Cancel")),
        (APPLY, Step("Drained", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS), ("StopAtBoundary", 1, Mishap.HANGS)),
    ),
    "stop-to-cancel": Plan(
        30,
        Shape(escalation=("Cancel",)),
        (APPLY, Step("Stopped", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS),),
    ),
    # It hangs when its savepoint is in the index.
    "too-late-to-cancel": Plan(
        31,
        Shape(escalation=("Cancel",)),
        (APPLY, Step("Stopped", 3.0, "Running")),
        mishaps=(("Close", 0, Mishap.HANGS),),
    ),
    # It hangs when a checkpoint that it took before is in the index, and cannot be told.
    "unheard": Plan(
        4,
        Shape(interval="60s", escalation=("Cancel",)),
        (APPLY, Step("Stopped", 119.0, "Running")),
        mishaps=(("AnnounceCheckpoint", 2, Mishap.HANGS),),
        deaf="streamjobs",
    ),
    # There is nothing left to stop then.
    "too-late-to-stop": Plan(
        36,
        Shape(escalation=("Stop",)),
        (APPLY, Step("Drained", 3.0, "Running")),
        mishaps=(("Close", 0, Mishap.HANGS),),
    ),
    # Nothing is declared: it is waited for.
    "patient": Plan(
        32,
        steps=(APPLY, Step("Stopped", 3.0, "Running")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS),),
    ),
    # R6: a sidecar that never ends keeps neither a stop, nor the restart after a death, nor a drain.
    "sidecar": Plan(
        33,
        Shape(sidecar=True, transactional=True),
        (
            APPLY,
            Step("Stopped", 3.0, "Running"),
            Step("Running", 3.0, "Stopped"),
            Step("Drained", 120.0, "Running"),
        ),
        mishaps=(("Running", 1, Mishap.KILLED_BEFORE),),
    ),
    # It runs while the image of the driver is not there; the spec is mended.
    "sidecar-alone": Plan(
        34,
        Shape(sidecar=True, image="missing:1"),
        (APPLY, Step("good image", 60.0)),
    ),
    # A driver and its sidecar are evicted together.
    "sidecar-evicted": Plan(35, Shape(sidecar=True), (APPLY, Step("delete pod", 3.0, "Running"))),
    # Nobody asks for Spark's UI any more, and the controller crashes when the last object is gone.
    "ui-gone": Plan(
        1,
        Shape(ui=True),
        (
            APPLY,
            Step("suspend", 20.0, "Running"),
            Step("Cancelled", 150.0),
            Step("no UI", 0.0),
        ),
        first=Fault.CRASH_AFTER,
    ),
    # Its script fails; the next driver's comes to its end, and is killed before it can say so.
    "failed-then-finished": Plan(
        3000413,
        Shape(("events", "sums"), bounded=10, interval="0s", script=Scripted.TOGETHER),
        (APPLY,),
        mishaps=(("Running", 0, Mishap.THROWS), ("Leave", 0, Mishap.KILLED_BEFORE)),
    ),
    # The script raises when its input has ended and the index has the end: that is no Finished job. The next
    # driver has but to run it once more.
    "failed-end": Plan(36, Shape(bounded=10), mishaps=(("Leave", 0, Mishap.THROWS),)),
    # One of two queries dies, and its script does not notice: the job says so as long as it is so.
    "careless": Plan(40, Shape(TWO, script=Scripted.CARELESS, chained=False), mishaps=(DIES,)),
    "careless-stopped": Plan(
        41,
        Shape(TWO, transactional=True, interval="5s", script=Scripted.CARELESS, chained=False),
        (APPLY, Step("Stopped", 28.0, "Running"), Step("Running", 3.0, "Stopped")),
        mishaps=(DIES,),
    ),
    # What is dead cannot be drained: the next driver does it.
    "careless-drained": Plan(
        42,
        Shape(TWO, script=Scripted.CARELESS, chained=False),
        (APPLY, Step("Drained", 60.0, "Running")),
        mishaps=(DIES,),
    ),
    # It is started again; then nobody says so any more.
    "retry": Plan(43, Shape(TWO, script=Scripted.RETRY), mishaps=(DIES,)),
    # Backfill first: the driver dies while the second query runs, which continues behind a stage that has
    # ended.
    "in-turn": Plan(
        44,
        Shape(TWO, transactional=True, bounded=10, script=Scripted.IN_TURN),
        mishaps=(("Snapshot", 2, Mishap.KILLED_BEFORE),),
    ),
    "in-turn-stopped": Plan(
        45,
        Shape(TWO, bounded=10, script=Scripted.IN_TURN),
        (APPLY, Step("Stopped", 28.0, "Running"), Step("Running", 3.0, "Stopped")),
    ),
    # A query is stopped and started again until the job stops, in the middle of it or between.
    "refresh": Plan(
        46,
        Shape(TWO, transactional=True, interval="15s", script=Scripted.REFRESH),
        (APPLY, Step("Stopped", 200.0, "Running"), Step("Running", 3.0, "Stopped"), Step("Drained", 90.0)),
    ),
    # What a sink has to commit is lost when everything has ended, so nothing has come to its end.
    "lost-commit": Plan(
        47, Shape(transactional=True, bounded=10), mishaps=(("NotifyComplete", 0, Mishap.THROWS),)
    ),
    "lost-commit-stopped": Plan(
        48,
        Shape(transactional=True),
        (APPLY, Step("Stopped", 9.0, "Running")),
        mishaps=(("NotifyComplete", 0, Mishap.THROWS),),
    ),
    # While the controller is away the driver that it has made runs and is gone.
    "unseen": Plan(
        31, steps=(APPLY, Step("kill pod", 9.0), Step("Stopped")), faults=((6, Fault.CRASH_AFTER),)
    ),
    # O12: its rights are taken away in the middle of a stop, and given back.
    **{
        f"revoked-{what}": _revoked(15 + n, what, 90.0)
        for n, what in enumerate(("all", "pods", "index", "status"))
    },
    # An API server that has just started refuses what it is asked, until it has read who may do what.
    "revoked-for-a-moment": _revoked(53, "pods", 1.4),
    # Nobody has been able to take charge of the job.
    "revoked-before": Plan(19, steps=(Step("revoke pods"), APPLY, Step("grant", 60.0))),
    # O6: a watch is dead.
    "no-pod-events": replace(PLANS["resume"], seed=25, deaf="pods"),
    "no-job-events": replace(PLANS["resume"], seed=26, deaf="streamjobs"),
    # O1 to O5: each call, reads too, meets with a fault the first time.
    **{
        f"first-{fault.name.lower()}": replace(PLANS["resume"], seed=27, first=fault, name="")
        for fault in Fault
    },
    # U6: its namespace is deleted under it: in the end everything is gone.
    "namespace": Plan(28, steps=(APPLY, Step("delete namespace", 3.0, "Running"))),
    "namespace-stopping": Plan(
        29,
        Shape(transactional=True),
        (APPLY, Step("Stopped", 3.0, "Running"), Step("delete namespace", 0.5, "Stopping")),
    ),
    # Its driver hangs: nobody can be made to finish what it had begun.
    "namespace-hung": Plan(
        30,
        steps=(APPLY, Step("Drained", 3.0, "Running"), Step("delete namespace", 3.0, "Draining")),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS),),
    ),
    # The controller's rights are objects in it, too: nothing continues until a person takes the finalizer
    # away.
    "revoked-namespace": Plan(
        31,
        steps=(
            APPLY,
            Step("delete namespace", 3.0, "Running"),
            Step("revoke all", 0.5),
            Step("strip", 300.0),
            Step("grant"),
        ),
    ),
    # Two jobs: one's driver hangs, or is killed, and the other one does not notice.
    "two-jobs": Plan(
        32,
        Shape(transactional=True, interval="15s"),
        (
            APPLY,
            Step("other", 1.0),
            Step("Stopped", 20.0, "Running"),
            Step("other Drained", 1.0),
            Step("Running", 5.0, "Stopped"),
        ),
        mishaps=(("StopAtBoundary", 0, Mishap.HANGS), ("Running", 1, Mishap.KILLED_BEFORE)),
    ),
    # S5: there is no room for a savepoint; some is made when the stop is late already, or never.
    "full": Plan(
        20,
        steps=(APPLY, FILL, Step("Stopped", 1.0), Step("make room", 150.0)),
    ),
    "full-drained": Plan(
        21,
        Shape(transactional=True),
        steps=(APPLY, FILL, Step("Drained", 1.0), Step("make room", 60.0)),
    ),
    "full-deleted": Plan(22, steps=(APPLY, FILL, Step("delete", 1.0))),
    "full-evicted": Plan(23, steps=(APPLY, FILL, Step("delete pod", 1.0))),
    "full-cancelled": Plan(24, steps=(APPLY, FILL, Step("Stopped", 1.0), Step("Cancelled", 30.0))),
}
SPECIAL = {name: replace(plan, name=name) for name, plan in _SPECIAL.items()}
