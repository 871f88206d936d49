"""What there is to do about Spark's UI: after the job, without a call if nothing has changed, and never in
the way of the job.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streamjob.api import Condition, ConditionType, Specification, StreamJob
from streamjob.controller.objects import ui as objects
from streamjob.controller.objects.ui import UiKind
from streamjob.controller.rules import ui
from streamjob.controller.rules.actions import Action, ApplyUi, DeleteUi
from streamjob.controller.rules.context import Decision
from streamjob.controller.rules.decide import decide
from streamjob.controller.rules.observed import Observed, ObservedUi, UiFailure
from streamjob.protocol.messages.driver_status import Problem

from ..factories import MINUTE, NOW, driver, index, job, observed, ran, running

ALL = frozenset(UiKind)
INGRESS = {"ingress": {"host": "orders.example.com"}}
TAKEN = Problem("NameTaken", "Ingress: it belongs to something else", "Rename it")


def seen(wanted: StreamJob, there: ObservedUi | None = None, **more: Any) -> Observed:
    """A job whose driver runs."""
    pod = running(specification=Specification.of(wanted.spec))
    more = {"pods": [pod], "index": index(), "reported": driver(), **more}
    return observed(wanted, ui=there or ObservedUi(ALL), **more)


def follow(o: Observed) -> Decision:
    """As `Reconcile` does it, in a status in which the job itself has come to rest."""
    rests = replace(o, job=o.job.model_copy(update={"status": decide(o, NOW).status}))
    return ui.follow(rests, decide(rests, NOW), NOW)


def applied(wanted: StreamJob) -> dict[UiKind, str]:
    return {kind: objects.digest(obj) for kind, obj in objects.objects(wanted, None).items()}


def kinds(d: Decision) -> list[tuple[type[Action], UiKind]]:
    assert all(isinstance(a, ApplyUi | DeleteUi) for a in d.actions)
    return [
        (type(a), UiKind(a.body["kind"]) if isinstance(a, ApplyUi) else a.kind)  # type: ignore[union-attr]
        for a in d.actions
    ]


def told(d: Decision) -> Condition | None:
    return d.status.condition(ConditionType.UI_AVAILABLE)


def test_what_is_asked_for_is_applied_service_first() -> None:
    d = follow(seen(job(ui=INGRESS, status=ran())))
    assert kinds(d) == [(ApplyUi, UiKind.SERVICE), (ApplyUi, UiKind.INGRESS)]
    assert told(d) is None, "not before it is there"


def test_what_is_there_costs_nothing_and_is_told() -> None:
    wanted = job(ui=INGRESS, status=ran())
    d = follow(seen(wanted, ObservedUi(ALL, applied(wanted))))
    condition = told(d)
    assert d.actions == ()
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", "Exposed")
    assert condition.message == "Service orders-ui.shop:4040; Ingress http://orders.example.com/"
    again = wanted.model_copy(update={"status": d.status})
    assert follow(seen(again, ObservedUi(ALL, applied(wanted)))).status == d.status


def test_a_job_that_asks_for_nothing_says_nothing() -> None:
    d = follow(seen(job(status=ran())))
    assert d.actions == ()
    assert told(d) is None


def test_a_changed_field_is_applied_and_a_removed_one_deleted() -> None:
    before, now = job(ui=INGRESS), job(ui={"service": {"port": 80}}, status=ran())
    d = follow(seen(now, ObservedUi(ALL, applied(before))))
    assert kinds(d) == [(ApplyUi, UiKind.SERVICE), (DeleteUi, UiKind.INGRESS)]
    d = follow(seen(job(status=ran()), ObservedUi(ALL, applied(before))))
    assert kinds(d) == [(DeleteUi, UiKind.SERVICE), (DeleteUi, UiKind.INGRESS)]


def test_what_is_removed_is_not_told_any_more() -> None:
    wanted = job(ui=INGRESS, status=ran())
    with_it = follow(seen(wanted, ObservedUi(ALL, applied(wanted)))).status
    assert told(follow(seen(job(status=with_it.plain())))) is None


def test_the_job_comes_first() -> None:
    """A stop does not wait for a Service."""
    o = seen(job(ui=INGRESS, state="Stopped", status=ran()))
    d = ui.follow(o, decide(o, NOW), NOW)
    assert d == decide(o, NOW)
    assert d.actions


def test_nothing_is_made_for_what_is_going() -> None:
    assert follow(seen(job(ui=INGRESS, status=ran()), namespace_ends=True)).actions == ()
    o = seen(job(ui=INGRESS, status=ran(), deleted=MINUTE))
    assert not any(isinstance(a, ApplyUi) for a in ui.follow(o, decide(o, NOW), NOW).actions)


def test_nothing_is_done_before_it_is_known_what_there_is() -> None:
    o = replace(seen(job(ui=INGRESS, status=ran())), ui=None)
    d = decide(o, NOW)
    assert ui.follow(o, d, NOW) == d


def test_a_failure_is_told_and_tried_again_later_and_holds_up_nothing() -> None:
    wanted = job(ui=INGRESS, status=ran())
    digests = applied(wanted)
    failure = UiFailure(digests[UiKind.INGRESS], TAKEN, 40.0)
    there = ObservedUi(ALL, {UiKind.SERVICE: digests[UiKind.SERVICE]}, {UiKind.INGRESS: failure})
    d = follow(seen(wanted, there))
    condition, ready = told(d), d.status.condition(ConditionType.READY)
    assert d.actions == ()
    assert d.requeue_after == 40.0
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "NameTaken")
    assert condition.message == "Ingress: it belongs to something else. Rename it."
    assert ready is not None
    assert ready.status == "True"


def test_another_spec_is_tried_at_once() -> None:
    wanted = job(ui=INGRESS, status=ran())
    there = ObservedUi(ALL, applied(job(ui={})), {UiKind.INGRESS: UiFailure("of before", TAKEN, 40.0)})
    d = follow(seen(wanted, there))
    assert kinds(d) == [(ApplyUi, UiKind.INGRESS)]
    assert d.requeue_after is None


def test_a_kind_that_this_installation_does_not_make_is_told_with_the_remedy() -> None:
    wanted = job(ui=INGRESS, status=ran())
    there = ObservedUi(frozenset({UiKind.SERVICE}), applied(job(ui={})))
    d = follow(seen(wanted, there))
    condition = told(d)
    assert d.actions == ()
    assert condition is not None
    assert condition.reason == "UIKindNotAllowed"
    assert "ui.ingresses: true" in condition.message
