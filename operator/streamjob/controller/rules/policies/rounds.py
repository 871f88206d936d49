"""Rounds: with `spec.schedule`, a driver runs from a scheduled time until its script has ended by itself.
Pure, a part of `decide`.

A round is open from the moment that the status has `rounds.began` until the script has ended and its final
checkpoint is in the index. Meanwhile everything is as in a job without a schedule: failures, restarts,
evictions. A round that has failed for good leaves the job Failed; the next time, another `schedule.nonce` or
a changed spec begins the next one. A suspension, a stop and a cancel break the round off: no state is lost,
and the next round continues.

That a round begins is written into the status before its driver is made, so it begins once.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ....api import Phase, RestartStatus, RoundsStatus, Status
from ....api.cron import Schedule, schedule
from ....api.types import duration
from ....protocol.lifecycle import TaskState
from ....protocol.messages.driver_status import Problem
from ....protocol.times import moment, timestamp
from ...reports.messages import next_start, sentence
from ..context import Context, Decision, DesiredState
from ..status import ended_with_nothing_left, error_status, fail, own_end, seconds_until
from . import past_drivers, upgrade

NOT_ENDED = "RoundNotEnded"
COUNTED = 1000  # missed times that are counted at once


def follow(c: Context) -> Context:
    """The context with the rounds in its status brought up to date. Its desired state is `END_ROUND` if the
    present one has taken too long.
    """
    spec, s = c.observed.job.spec.schedule, c.status
    if spec is None:
        return c if s.rounds is None else replace(c, status=s.model_copy(update={"rounds": None}))
    r = s.rounds or RoundsStatus(nonce=spec.nonce)
    if c.desired is not DesiredState.RUN or c.ended:
        broken_off = {"next": None, "began": None, "late_at": None, "nonce": spec.nonce}
        return _with(c, r.model_copy(update=broken_off))
    times = schedule(spec.cron, spec.time_zone)
    if r.began is not None and _is_over(c, r):
        c, r = _succeeded(c, r, times)
    if c.observed.lives and r.began is None:
        r = _begun(c, r)  # a driver that was made before the job had been asked to end, or for no round
    if r.began is not None and not c.gave_up:
        if c.now < moment(r.began) + duration(spec.timeout):
            return _with(c, _with_next(c, r, times))
        return replace(_with(c, _overdue(c, r)), desired=DesiredState.END_ROUND)
    due, r = _due(c, r, times)
    failed, generation = c.failed, c.observed.job.metadata.generation
    fixed = c.phase is Phase.FAILED and failed is not None and failed.generation != generation
    if due or fixed or r.nonce != spec.nonce:
        if failed is not None:
            c = replace(c, status=c.status.model_copy(update={"restarts": c.restart_now}))
        r = _begun(c, r.model_copy(update={"nonce": spec.nonce}))
    return _with(c, _with_next(c, r, times))


def wait(c: Context) -> Decision | None:
    """A rule: no driver lives, and none begins before the next round."""
    r = c.status.rounds
    if c.observed.job.spec.schedule is None or r is None:
        return None
    ends = c.desired is DesiredState.END_ROUND
    if not ends and (c.desired is not DesiredState.RUN or c.ended or r.began is not None):
        return None
    if (decision := past_drivers.remove_the_exited_driver(c)) is not None:
        return decision
    s = c.status.model_copy(update={"driver": None, "termination": None})
    if ends:
        return _give_up(c, s)
    if c.phase is Phase.FAILED and c.gave_up:
        return c.stay(None)
    if r.next is None:
        cron = c.observed.job.spec.schedule.cron
        remedy = "Correct spec.schedule.cron; another spec.schedule.nonce begins a round all the same"
        problem = Problem("ScheduleNeverFires", f"no time fits spec.schedule.cron: {cron}", remedy)
        return replace(c, status=s).stall(Phase.WAITING, problem)
    if (told := upgrade.waiting(replace(c, status=s))) is not None:
        return told
    then = "" if c.settled else f" and {next_start(c.observed.job, s)}"
    return c.decide(Phase.WAITING, "Waiting", f"The next round begins at {r.next}{then}", status=s)


def requeue_after(c: Context, s: Status) -> float | None:
    """Seconds until the next round begins, or until the present one has taken too long."""
    spec, r = c.observed.job.spec.schedule, s.rounds
    if spec is None or r is None or c.desired is not DesiredState.RUN:
        return None
    if r.began is not None and s.phase is not Phase.FAILED:
        return max((moment(r.began) + duration(spec.timeout) - c.now).total_seconds(), 0.0)
    return seconds_until(r.next, c.now) if r.next is not None else None


# --- parts --------------------------------------------------------------------------------------------------


def _is_over(c: Context, r: RoundsStatus) -> bool:
    """Whether the script of this round has ended by itself, or had nothing to do."""
    s, latest = c.status, c.observed.latest
    if not c.settled or latest is None or s.epoch <= r.after_epoch:
        return False
    if c.observed.lives:
        return False  # how its process exits counts
    end = s.last_exit
    idle = end is not None and end.epoch == s.epoch and ended_with_nothing_left(latest, s)
    return idle or (own_end(latest) and latest.epoch == s.epoch)


def _succeeded(c: Context, r: RoundsStatus, times: Schedule) -> tuple[Context, RoundsStatus]:
    assert r.began is not None
    took = c.now - moment(r.began)
    pod = c.observed.pod
    made_from = pod.specification.text if pod is not None and pod.specification is not None else None
    r = r.model_copy(
        update={
            "began": None,
            "last": r.began,
            "last_duration": f"{round(took.total_seconds())}s",
            "late_at": _late(times, c.now),
            "made_from": made_from or r.made_from,
        }
    )
    return replace(c, status=c.status.model_copy(update={"restarts": None})), r


def _begun(c: Context, r: RoundsStatus) -> RoundsStatus:
    before = c.status.epoch - 1 if c.observed.lives else c.status.epoch
    return r.model_copy(update={"began": timestamp(c.now), "after_epoch": before, "error": None})


def _with_next(c: Context, r: RoundsStatus, times: Schedule) -> RoundsStatus:
    """The rounds with the next time. A time that passes while a round runs is kept until that is over."""
    late = r.late_at or _late(times, c.now)
    at = moment(r.next) if r.next is not None else None
    if r.began is None or at is None or at > c.now or not times.has(at):
        at = times.after(c.now)
    return r.model_copy(update={"next": timestamp(at) if at is not None else None, "late_at": late})


def _due(c: Context, r: RoundsStatus, times: Schedule) -> tuple[bool, RoundsStatus]:
    """Whether a scheduled time has come, and the rounds with the times that were missed. A time of an earlier
    schedule does not count.
    """
    spec = c.observed.job.spec.schedule
    assert spec is not None
    if r.next is None or moment(r.next) > c.now or not times.has(moment(r.next)):
        return False, r
    passed = [moment(r.next)]
    while len(passed) < COUNTED and (at := times.after(passed[-1])) is not None and at <= c.now:
        passed.append(at)
    limit = duration(spec.starting_deadline) if spec.starting_deadline is not None else None
    latest = passed[-1] if len(passed) < COUNTED else c.now
    due = limit is None or c.now - latest <= limit
    missed = r.missed + len(passed) - due
    return due, r.model_copy(update={"missed": missed, "next": None})


def _late(times: Schedule, now: datetime) -> str | None:
    first = times.after(now)
    second = times.after(first) if first is not None else None
    return timestamp(second) if second is not None else None


def _overdue(c: Context, r: RoundsStatus) -> RoundsStatus:
    """The rounds with the reason why the present one is ended. Which queries run is known only now."""
    spec = c.observed.job.spec.schedule
    assert spec is not None
    if r.error is not None:
        return r
    live = [s.uid for s in c.status.stages if any(t.state == TaskState.RUNNING.value for t in s.tasks)]
    what = f"query {', '.join(live)} still runs" if c.observed.lives and live else "its script has not ended"
    problem = Problem(
        NOT_ENDED,
        f"the round has not ended within {spec.timeout}: {what}",
        "A query of a round ends by itself: give it trigger(availableNow=True). If the round needs more "
        "time, raise spec.schedule.timeout; for a query that runs on, remove spec.schedule",
    )
    return r.model_copy(update={"error": error_status(None, problem, c.now)})


def _give_up(c: Context, s: Status) -> Decision:
    """The round that has taken too long has no driver any more: it has failed."""
    assert s.rounds is not None
    assert s.rounds.error is not None
    problem = s.rounds.error.problem
    restarts = RestartStatus(
        count=1,
        epoch=s.epoch,
        generation=c.observed.job.metadata.generation,
        error=s.rounds.error,
    )
    r = s.rounds.model_copy(update={"began": None})
    s = fail(s, problem, c.now).model_copy(update={"restarts": restarts, "rounds": r})
    return c.decide(Phase.FAILED, NOT_ENDED, sentence(problem), status=s)


def _with(c: Context, r: RoundsStatus) -> Context:
    return replace(c, status=c.status.model_copy(update={"rounds": r}))
