"""A job with a schedule: a round begins once, ends with its script, and the next one waits for its time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from streamjob.api import ConditionType, Phase, Specification, StreamJob, UpgradeStep
from streamjob.api.specification import digest
from streamjob.controller.rules.actions import CreateDriver, DeletePod, SendTermination
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase

from ...factories import (
    FATAL,
    MINUTE,
    NOW,
    SECOND,
    at,
    driver,
    exited,
    failed,
    index,
    is_ready,
    is_stalled,
    job,
    observed,
    pod,
    ran,
    record,
    running,
)

HOURLY = {"cron": "0 * * * *"}
DUE = at(-4 * MINUTE - 5 * SECOND)  # 03:00
NEXT = at(55 * MINUTE + 55 * SECOND)  # 04:00
LATER = at(115 * MINUTE + 55 * SECOND)  # 05:00
END = record(request=None)
MADE = Specification.of(job().spec)


def waits(**rounds: Any) -> dict[str, Any]:
    """The status of a job that waits after its first round."""
    entry = {"next": NEXT, "last": at(-64 * MINUTE), "lateAt": LATER, "madeFrom": MADE.text, "afterEpoch": 0}
    return {"phase": "Waiting", "epoch": 1, "startedEpoch": 1, "rounds": {**entry, **rounds}}


def runs(epoch: int = 2, phase: str = "Running", **rounds: Any) -> dict[str, Any]:
    """The status of a job in its second round, which began at 03:00."""
    entry = {"began": DUE, "next": NEXT, "lateAt": LATER, "madeFrom": MADE.text, "afterEpoch": 1}
    return ran(epoch, phase) | {"rounds": {**entry, **rounds}}


def scheduled(status: dict[str, Any] | None = None, *, cron: str = "0 * * * *", **more: Any) -> StreamJob:
    names = ("startingDeadline", "timeout", "nonce", "timeZone")
    given = {name: more.pop(name) for name in names if name in more}
    return job(schedule={"cron": cron, **given}, status=status, **more)


def made(d: Decision) -> list[CreateDriver]:
    return [a for a in d.actions if isinstance(a, CreateDriver)]


def follow(o: Observed, now: datetime = NOW) -> Decision:
    """Decide until the status stays, as the controller does."""
    while True:
        d = decide(o, now)
        if d.actions or d.status == o.job.status:
            return d
        o = replace(o, job=o.job.model_copy(update={"status": d.status}))


def test_a_new_job_waits_for_its_first_time() -> None:
    d = follow(observed(scheduled(finalizer=False)))
    assert (d.status.phase, d.actions, is_ready(d)) == (Phase.WAITING, (), True)
    assert d.status.rounds is not None
    assert (d.status.rounds.next, d.status.rounds.late_at) == (NEXT, LATER)
    assert d.requeue_after == pytest.approx(55 * 60 + 55)


def test_a_round_begins_when_its_time_has_come() -> None:
    d = follow(observed(scheduled(waits(next=DUE)), index=index(END)))
    (new,) = made(d)
    assert (new.config.epoch, new.config.round, new.config.restore.exact) == (2, True, True)
    r = d.status.rounds
    assert r is not None
    assert (r.began, r.next, r.after_epoch, r.missed) == (at(timedelta()), NEXT, 1, 0)


def test_it_does_not_begin_a_second_time() -> None:
    status = runs() | {"driver": {"pod": "orders-driver-2"}}
    d = follow(observed(scheduled(status), pods=[pod(2)], index=index(END)))
    assert not made(d)
    assert d.status.rounds is not None
    assert d.status.rounds.began == DUE


def test_the_round_is_over_when_its_script_has_ended_by_itself() -> None:
    second = record(2, 2, request=None)
    report = driver(DriverPhase.TERMINATED, 2, completed=second, exit_code=0)
    ended = [exited(0, 2, report=report, specification=MADE)]
    d = follow(observed(scheduled(runs()), pods=ended, index=index(END, second)))
    assert [type(a) for a in d.actions] == [DeletePod]
    gone = replace(observed(scheduled(), index=index(END, second)), job=scheduled(d.status.plain()))
    d = follow(gone)
    assert (d.status.phase, d.actions) == (Phase.WAITING, ())
    r = d.status.rounds
    assert r is not None
    assert (r.began, r.last, r.last_duration, r.next) == (None, DUE, "245s", NEXT)
    assert r.made_from == MADE.text


def test_no_round_is_over_that_has_left_with_a_failure_after_its_checkpoint() -> None:
    second = record(2, 2, request=None)
    report = driver(DriverPhase.TERMINATED, 2, completed=second, exit_code=1)
    d = follow(observed(scheduled(runs()), pods=[exited(1, 2, report=report)], index=index(END, second)))
    assert d.status.phase is Phase.RESTARTING
    assert d.status.rounds is not None
    assert d.status.rounds.began == DUE


def test_a_driver_that_was_evicted_is_followed_by_another_in_the_same_round() -> None:
    evicted = record(2, 2, request="eviction-2")
    d = follow(observed(scheduled(runs()), index=index(END, evicted)))
    assert made(d)
    assert d.status.rounds is not None
    assert (d.status.rounds.began, d.status.rounds.after_epoch) == (DUE, 1)


def test_a_round_with_nothing_to_do_is_over_and_not_the_job() -> None:
    """All input had been consumed, nothing has state, and the script has started no query."""
    stage = END.stages[0]
    spent = replace(
        END, stages=(replace(stage, tasks=tuple(replace(t, exhausted=True) for t in stage.tasks)),)
    )
    report = driver(DriverPhase.TERMINATED, 2, exit_code=0)
    over = follow(observed(scheduled(runs()), pods=[exited(0, 2, report=report)], index=index(spent)))
    d = follow(observed(scheduled(over.status.plain()), index=index(spent)))
    assert d.status.phase is Phase.WAITING
    assert d.status.rounds is not None
    assert d.status.rounds.last == DUE


def test_a_round_that_has_run_out_of_input_for_good_ends_the_job() -> None:
    bounded = record(2, 2, Scenario.END_OF_INPUT, request=None)
    d = follow(observed(scheduled(runs()), index=index(END, bounded)))
    assert d.status.phase is Phase.FINISHED
    assert d.status.rounds is not None
    assert d.status.rounds.next is None


@pytest.mark.parametrize(
    ("hours", "deadline", "begins", "missed"),
    [
        (0, None, True, 0),
        (3, None, True, 3),
        (3, "10m", True, 3),
        (0, "1m", False, 1),
        (3, "1m", False, 4),
    ],
)
def test_missed_times_are_made_up_once_within_the_deadline(
    hours: int, deadline: str | None, begins: bool, missed: int
) -> None:
    due = at(-4 * MINUTE - 5 * SECOND - hours * 60 * MINUTE)
    limit = {"startingDeadline": deadline} if deadline else {}
    d = follow(observed(scheduled(waits(next=due), **limit), index=index(END)))
    assert bool(made(d)) is begins
    assert d.status.rounds is not None
    assert (d.status.rounds.missed, d.status.rounds.next) == (missed, NEXT)


def test_a_time_that_passes_during_a_round_is_made_up_when_it_is_over() -> None:
    busy = observed(scheduled(runs(next=DUE)), pods=[running(2)], index=index(END), reported=driver(epoch=2))
    assert follow(busy).actions == ()
    second = record(2, 2, request=None)
    d = follow(observed(scheduled(runs(next=DUE)), index=index(END, second)))
    assert made(d)
    assert d.status.rounds is not None
    assert (d.status.rounds.began, d.status.rounds.missed, d.status.rounds.after_epoch) == (
        at(timedelta()),
        0,
        2,
    )


def test_a_time_of_an_earlier_schedule_does_not_count() -> None:
    d = follow(observed(scheduled(waits(next=DUE), cron="30 * * * *"), index=index(END)))
    assert d.status.phase is Phase.WAITING
    assert d.status.rounds is not None
    assert (d.status.rounds.next, d.status.rounds.missed) == (at(25 * MINUTE + 55 * SECOND), 0)


def test_another_nonce_begins_a_round_now_and_only_one() -> None:
    d = follow(observed(scheduled(waits(nonce=1), nonce=2), index=index(END)))
    assert made(d)
    assert d.status.rounds is not None
    assert (d.status.rounds.nonce, d.status.rounds.next) == (2, NEXT)
    first = follow(observed(scheduled(nonce=2)))
    assert first.status.phase is Phase.WAITING, "the initial value begins none"


def test_a_nonce_that_comes_during_a_round_begins_the_next_one() -> None:
    busy = observed(scheduled(runs(nonce=1), nonce=2), pods=[running(2)], reported=driver(epoch=2))
    still = follow(busy)
    assert still.status.rounds is not None
    assert still.status.rounds.nonce == 1
    second = record(2, 2, request=None)
    assert made(follow(observed(scheduled(runs(nonce=1), nonce=2), index=index(END, second))))


def test_a_cron_that_never_fires_is_told_and_a_round_can_be_asked_for() -> None:
    d = follow(observed(scheduled(waits(), cron="0 0 30 2 *"), index=index(END)))
    ready = d.status.condition(ConditionType.READY)
    assert ready is not None
    assert (d.status.phase, ready.reason, is_stalled(d)) == (Phase.WAITING, "ScheduleNeverFires", True)
    assert "spec.schedule.cron" in ready.message
    assert made(follow(observed(scheduled(waits(), cron="0 0 30 2 *", nonce=1), index=index(END))))


def test_a_suspension_skips_times() -> None:
    o = observed(scheduled(waits(next=DUE), suspend=True, nonce=4), index=index(END))
    d = follow(o)
    assert (d.status.phase, d.actions) == (Phase.SUSPENDED, ())
    d = follow(observed(scheduled(d.status.plain(), nonce=4), index=index(END)))
    assert (d.status.phase, d.actions) == (Phase.WAITING, ())
    assert d.status.rounds is not None
    assert (d.status.rounds.missed, d.status.rounds.next) == (0, NEXT)


def test_a_waiting_job_that_is_stopped_is_stopped() -> None:
    d = follow(observed(scheduled(waits(), state="Stopped"), index=index(END)))
    assert (d.status.phase, d.actions) == (Phase.STOPPED, ())
    again = follow(observed(scheduled(d.status.plain()), index=index(END)))
    assert (again.status.phase, again.actions) == (Phase.WAITING, ())


def test_a_waiting_job_that_is_drained_gets_a_driver_that_flushes() -> None:
    d = follow(observed(scheduled(waits(), state="Drained"), index=index(END)))
    (new,) = made(d)
    assert new.config.termination is not None
    assert new.config.termination.mode is Mode.DRAIN


def test_a_waiting_job_without_its_schedule_runs() -> None:
    d = follow(observed(job(status=waits()), index=index(END)))
    (new,) = made(d)
    assert not new.config.round
    assert d.status.rounds is None


# --- failures -----------------------------------------------------------------------------------------------


def test_a_round_that_fails_is_restarted_and_failures_count_per_round() -> None:
    lost = follow(observed(scheduled(runs()), pods=[exited(137, 2)], index=index(END)))
    assert lost.status.phase is Phase.RESTARTING
    after = runs(3) | {"restarts": failed(2, count=7)}
    d = follow(observed(scheduled(after), index=index(END, record(2, 3, request=None))))
    assert (d.status.phase, d.status.restarts) == (Phase.WAITING, None)


@pytest.mark.parametrize("due", [DUE, NEXT])
def test_a_job_that_has_failed_for_good_tries_again_at_the_next_time(due: str) -> None:
    status = runs(2, "Failed", next=due) | {"restarts": failed(2, count=11), "lastError": _error()}
    d = follow(observed(scheduled(status), index=index(END)))
    if due == NEXT:
        assert (d.status.phase, d.actions) == (Phase.FAILED, ())
        assert d.requeue_after == pytest.approx(55 * 60 + 55)
        return
    assert made(d)
    assert d.status.rounds is not None
    assert (d.status.rounds.began, d.status.rounds.after_epoch) == (at(timedelta()), 2)


def test_a_failed_job_with_another_spec_begins_a_round_with_its_whole_time() -> None:
    status = runs(2, "Failed", began=at(-60 * 60 * MINUTE)) | {"restarts": failed(2), "lastError": _error()}
    d = follow(observed(scheduled(status, generation=2), index=index(END)))
    assert made(d)
    assert d.status.rounds is not None
    assert d.status.rounds.began == at(timedelta())


# --- a round that does not end ------------------------------------------------------------------------------


def overdue(**more: Any) -> Observed:
    live = {"uid": "windows", "tasks": [{"index": 0, "state": "RUNNING"}]}
    status = runs() | {"stages": [live]}
    return observed(scheduled(status, timeout="4m"), index=index(END), **more)


def test_a_round_that_does_not_end_is_stopped_and_the_query_is_named() -> None:
    d = follow(overdue(pods=[running(2)], reported=driver(epoch=2)))
    (sent,) = d.actions
    assert isinstance(sent, SendTermination)
    assert (sent.request.request_id, sent.request.mode, sent.request.savepoint) == (
        "round-2-1",
        Mode.STOP,
        None,
    )
    assert d.status.rounds is not None
    assert d.status.rounds.error is not None
    assert "query windows still runs" in d.status.rounds.error.message

    stopped = index(END, record(2, 2, request="round-2-1"))
    over = follow(observed(scheduled(d.status.plain(), timeout="4m"), index=stopped))
    ready = over.status.condition(ConditionType.READY)
    assert ready is not None
    assert (over.status.phase, ready.reason, over.actions) == (Phase.FAILED, "RoundNotEnded", ())
    assert "query windows still runs" in ready.message
    assert "availableNow" in ready.message
    later = follow(observed(scheduled(over.status.plain(), timeout="4m"), index=stopped), NOW + MINUTE)
    assert (later.status.phase, later.actions) == (Phase.FAILED, ()), "until its next time"
    due = follow(observed(scheduled(over.status.plain(), timeout="4m"), index=stopped), NOW + 60 * MINUTE)
    assert made(due)


def test_a_round_that_dies_while_it_is_stopped_has_failed_and_gets_no_driver() -> None:
    d = follow(overdue(pods=[exited(137, 2)]))
    d = follow(observed(scheduled(d.status.plain(), timeout="4m"), index=index(END)))
    assert (d.status.phase, made(d)) == (Phase.FAILED, [])
    assert d.status.rounds is not None
    assert d.status.rounds.began is None


def test_a_driver_that_never_started_is_not_asked_to_stop() -> None:
    d = follow(overdue(pods=[pod(2)]))
    assert [type(a) for a in d.actions] == [DeletePod]


# --- upgrades -----------------------------------------------------------------------------------------------


def test_a_changed_specification_is_for_the_next_round() -> None:
    busy = observed(
        scheduled(runs(), image="orders:2", generation=2),
        pods=[running(2, specification=MADE)],
        index=index(END),
        reported=driver(epoch=2),
    )
    d = follow(busy)
    assert (d.status.phase, d.actions) == (Phase.RUNNING, ())
    assert d.status.upgrade is not None
    assert d.status.upgrade.step is UpgradeStep.PENDING

    o = observed(scheduled(waits(next=DUE), image="orders:2", generation=2), index=index(END))
    d = follow(o)
    (new,) = made(d)
    assert new.specification.image == "orders:2"
    u = d.status.upgrade
    assert u is not None
    assert (u.step, u.previous, u.epoch) == (UpgradeStep.STARTING, MADE.text, 2)


def test_a_round_that_fails_with_it_goes_back_and_the_round_goes_on() -> None:
    changed: dict[str, Any] = {"image": "orders:2", "generation": 2}
    status = runs(2, "Starting") | {
        "upgrade": {
            "step": "Starting",
            "generation": 2,
            "target": digest(scheduled(**changed).spec),
            "previous": MADE.text,
            "epoch": 2,
            "deadline": at(MINUTE),
        }
    }
    report = driver(DriverPhase.FAILED, 2, problem=FATAL, exit_code=1)
    dead = exited(1, 2, report=report, specification=Specification.of(scheduled(**changed).spec))
    d = follow(observed(scheduled(status, **changed), pods=[dead], index=index(END)))
    d = follow(observed(scheduled(d.status.plain(), **changed), index=index(END)))
    (new,) = made(d)
    assert (new.specification.image, new.config.round) == ("orders:1", True)
    assert d.status.rounds is not None
    assert d.status.rounds.began == DUE
    over = index(END, record(2, 3, request=None))
    told = follow(observed(scheduled(d.status.plain() | {"startedEpoch": 3}, **changed), index=over))
    assert (told.status.phase, is_stalled(told)) == (Phase.WAITING, True)


def test_a_round_proves_a_specification_by_a_checkpoint_not_by_time() -> None:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Running",
        "message": "",
        "observedGeneration": 2,
        "lastTransitionTime": at(-4 * MINUTE),
    }
    changed: dict[str, Any] = {"image": "orders:2", "generation": 2}
    target = scheduled(**changed).spec
    entry = {"step": "Starting", "generation": 2, "target": digest(target), "previous": MADE.text, "epoch": 2}
    status = runs() | {"upgrade": entry, "conditions": [ready]}
    o = observed(
        scheduled(status, **changed),
        pods=[running(2, specification=Specification.of(target))],
        index=index(END),
        reported=driver(epoch=2),
    )
    steps = [follow(replace(o, index=i)).status.upgrade for i in (index(END), index(END, record(2, 2, None)))]
    assert [u.step for u in steps if u is not None] == [UpgradeStep.STARTING, UpgradeStep.COMPLETED]


def _error() -> dict[str, str]:
    return {"reason": "ScriptFailed", "message": "boom", "time": DUE}
