"""What leads to Spark's UI, after everything else has been decided. Pure.

Nothing about it ever holds up the job: a failure is a condition, and is tried again later.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from ...api import Condition, ConditionType, Status
from ...protocol.messages.driver_status import Problem
from ..objects import Obj, ui
from ..objects.ui import UiKind
from ..reports.messages import sentence
from .actions import Action, ApplyUi, DeleteUi
from .conditions import condition
from .context import Decision
from .observed import Observed

NOT_ALLOWED_REMEDY = (
    "Ask the administrator for {value} in the values of the operator's chart, or remove it from spec.ui"
)
VALUES = {  # of the chart
    UiKind.SERVICE: "ui.services: true",
    UiKind.INGRESS: "ui.ingresses: true",
    UiKind.HTTP_ROUTE: "ui.httpRoutes: true",
}


def follow(observed: Observed, decision: Decision, now: datetime) -> Decision:
    """The decision with what there is to do about the UI; first comes what there is to do about the job."""
    job, there = observed.job, observed.ui
    if decision.actions or there is None or job.deleting or observed.namespace_ends:
        return decision
    runs = observed.pod.specification if observed.pod is not None and not observed.pod.terminated else None
    wanted = ui.objects(job, runs)
    digests = {kind: ui.digest(wanted[kind]) if kind in wanted else None for kind in UiKind}
    failed = {kind: f for kind, f in there.failures.items() if f.digest == digests[kind]}
    actions: list[Action] = []
    for kind in UiKind:
        if kind not in there.allowed or kind in failed or there.applied.get(kind) == digests[kind]:
            continue
        actions.append(ApplyUi(wanted[kind]) if kind in wanted else DeleteUi(kind))
    problems = [f.problem for f in failed.values()] + [_refused(k) for k in wanted if k not in there.allowed]
    if actions and not problems:
        return replace(decision, actions=tuple(actions))  # the next round reports what came of them
    times = [decision.requeue_after, *(f.retry_in for f in failed.values())]
    return replace(
        decision,
        status=_told(decision.status, observed, wanted, problems, now),
        actions=tuple(actions),
        requeue_after=min((t for t in times if t is not None), default=None),
    )


def _refused(kind: UiKind) -> Problem:
    text = f"this installation of the operator makes no {kind.value} for Spark's UI"
    return Problem("UIKindNotAllowed", text, NOT_ALLOWED_REMEDY.format(value=VALUES[kind]))


def _told(
    s: Status, observed: Observed, wanted: dict[UiKind, Obj], problems: list[Problem], now: datetime
) -> Status:
    """The status with the condition UIAvailable, or without it if nothing is wanted and nothing is wrong."""
    others = tuple(c for c in s.conditions if c.type is not ConditionType.UI_AVAILABLE)
    found: tuple[Condition, ...] = ()
    if problems:
        value, reason, message = "False", problems[0].reason, " ".join(sentence(p) for p in problems)
    else:
        value, reason, message = "True", "Exposed", "; ".join(ui.address(obj) for obj in wanted.values())
    if problems or wanted:
        old = observed.job.status
        found = (condition(old, observed.job, now, ConditionType.UI_AVAILABLE, value, reason, message),)
    return s.model_copy(update={"conditions": (*others, *found)})
