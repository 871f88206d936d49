"""Terminal states: the phase of a job that has no driver. Pure, a part of `decide`."""

from __future__ import annotations

from ....api import Phase, State, Status
from ....protocol.lifecycle import Scenario
from ....protocol.messages.driver_status import Problem
from ...objects import names
from ...reports.messages import sentence
from .. import actions
from ..context import Context, Decision, DesiredState
from ..status import fail, own_end
from . import escalation, upgrade


def rest(c: Context) -> Decision | None:
    """A rule: the job is in its desired state and has no driver."""
    if not c.settled:
        return None
    # Another end has overtaken a termination that is still open: it is no longer wanted.
    s = c.status.model_copy(
        update={"driver": None, "termination": None if c.open_termination else c.status.termination}
    )
    s = upgrade.at_its_end(s) if c.ended else s
    latest = c.observed.latest
    if c.ended:
        return at_its_end(c, s)
    if c.desired is DesiredState.STOP:
        if (decision := escalation.outcome(c, s)) is not None:
            return decision
        text = f"Stopped with checkpoint {latest.checkpoint}" if latest else "Stopped before it began"
        return c.decide(Phase.STOPPED, "Stopped", text, status=s)
    if c.desired in (DesiredState.RUN, DesiredState.SUSPEND) and ended_by_script(c):
        text = (
            "The script has stopped its queries itself. Set spec.state to Stopped and then to Running to "
            "continue"
        )
        return c.decide(Phase.FINISHED, "ScriptEnded", text, status=s)
    return None


def ended_by_script(c: Context) -> bool:
    """Whether the script has stopped its queries itself, and the job has not been asked to continue since."""
    latest = c.observed.latest
    by_script = latest is not None and own_end(latest) and latest.epoch == c.status.epoch
    return by_script and c.phase not in (Phase.SUSPENDED, Phase.STOPPED, Phase.CANCELLED)


def at_its_end(c: Context, s: Status) -> Decision:
    """The job is drained or has run out of input: it never runs again."""
    latest = c.observed.latest
    assert latest is not None
    asked = c.desired is DesiredState.DRAIN or c.observed.job.spec.state is State.DRAINED
    by_request = latest.scenario is Scenario.DRAIN or asked
    if not by_request:
        text = f"All sources ran out; checkpoint {latest.checkpoint} is the last"
        return c.decide(Phase.FINISHED, "Finished", text, status=s)
    if c.desired is not DesiredState.RUN:
        left = s.termination.state_rows_left if s.termination else None
        kept = f", {left} rows of state are left" if left else ""
        text = f"Drained with checkpoint {latest.checkpoint}: every window is flushed{kept}"
        return c.decide(Phase.DRAINED, "Drained", text, status=s)
    savepoint = latest.savepoint or "its savepoint"
    problem = Problem(
        "AlreadyDrained",
        "the job has been drained, which is its end: rows older than its last watermark would be dropped as "
        "late",
        f"Make a new StreamJob with restoreFrom.savepoint: {savepoint} and restoreFrom.allowDrained: true",
    )
    s = fail(s, problem, c.now)
    return c.decide(Phase.DRAINED, problem.reason, sentence(problem), stalled=True, status=s)


def leave_a_namespace_that_is_being_deleted(c: Context) -> Decision | None:
    """A rule: nothing can start in a namespace that is being deleted, and our permissions in it may be
    removed next. So remove the finalizer now, before the job itself is deleted.
    """
    if not c.observed.namespace_ends:
        return None
    latest = c.observed.latest
    if c.settled and latest is not None and latest.savepoint:
        remedy = f"Make a StreamJob elsewhere with restoreFrom.savepoint: {latest.savepoint}"
    else:
        remedy = "There is no savepoint of its end; make a StreamJob elsewhere with restoreFrom.checkpoints"
    problem = Problem(
        "NamespaceTerminating", "the namespace is being deleted: nothing can begin in it", remedy
    )
    ours = names.FINALIZER in c.observed.job.metadata.finalizers
    s = fail(c.status, problem, c.now)
    do = (actions.SetFinalizer(False),) if ours else ()
    return c.decide(c.phase, problem.reason, sentence(problem), stalled=True, do=do, status=s)
