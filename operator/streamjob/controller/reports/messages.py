"""The texts about problems and upgrades that people read, in conditions and Events alike."""

from __future__ import annotations

from dataclasses import dataclass

from ...api import Status, StreamJob, UpgradeStatus, UpgradeStep
from ...protocol.messages.driver_status import Problem, TerminationStep
from .log_redaction import without_secrets

ROLLED_BACK = "RolledBack"
ROLLED_BACK_REMEDY = (
    "The job runs the previous specification. Fix the spec, or set it back; a new restart.nonce retries it"
)


STEPS = {
    TerminationStep.BOUNDARY: "The running batch has to commit",
    TerminationStep.MAX_WATERMARK: "One more batch runs with the maximum watermark: every window is emitted",
    TerminationStep.SNAPSHOT: "The savepoint is being written",
    TerminationStep.COMPLETING: "The final checkpoint is complete and is recorded in the index",
    TerminationStep.CLOSED: "The queries are closed; the script and the driver end",
}


@dataclass(frozen=True)
class KubernetesEvent:
    """A Kubernetes Event. `reason` is stable and in CamelCase."""

    warning: bool
    reason: str
    message: str


def sentence(problem: Problem) -> str:
    """One text with what happened and what to do about it, without secrets in the message."""
    # A driver's problem may quote an exception of its script.
    message = without_secrets(problem.message).rstrip(". \n") + "."
    return f"{message} {problem.remedy.rstrip('. ')}." if problem.remedy else message


def next_start(job: StreamJob, s: Status) -> str:
    """Where the next driver begins after the last one was killed, as a predicate of a sentence."""
    if s.checkpoint is not None:
        return "continues from the latest checkpoint"
    if s.stages:
        return "continues from the last committed batches (there is no checkpoint yet)"
    if job.spec.restore_from is not None:
        return "begins as spec.restoreFrom says (there is no checkpoint yet)"
    return "begins from nothing (there is no checkpoint)"


def cancels(job: StreamJob, s: Status) -> str:
    """How a stop or drain that waits for a batch is broken off, and what that costs."""
    return (
        "To wait no longer, set spec.state to Cancelled: no savepoint is written, sinks without transactions "
        f"may get the running batch twice, and the next driver {next_start(job, s)}."
    )


def how_far(step: str, progress: str | None) -> str:
    """What a stop or drain does now, as its driver says it, without a period.

    :param step: a TerminationStep.
    """
    return (progress or STEPS[TerminationStep(step)]).rstrip(". ")


def how_it_went(u: UpgradeStatus) -> KubernetesEvent:
    """The Event that describes an upgrade in its current step."""
    match u.step:
        case UpgradeStep.PENDING:
            text = "The driver runs an earlier specification until the next epoch, as spec.upgrade.mode says"
            return KubernetesEvent(True, "UpgradePending", text)
        case UpgradeStep.PREPARING:
            text = f"The driver of epoch {u.epoch} starts with the new specification beside the running one"
            text += f", and waits: {u.waits_for}" if u.waits_for else ""
            return KubernetesEvent(False, "Upgrading", text)
        case UpgradeStep.STOPPING:
            text = f"The driver is stopping: the next one starts with generation {u.generation} of the spec"
            return KubernetesEvent(False, "Upgrading", text)
        case UpgradeStep.STARTING:
            taken = (
                f"savepoint {u.savepoint}" if u.savepoint else "the latest checkpoint, without a savepoint"
            )
            return KubernetesEvent(
                False, "Upgrading", f"Epoch {u.epoch} starts with the new specification, from {taken}"
            )
        case UpgradeStep.COMPLETED:
            return KubernetesEvent(False, "Upgraded", f"The new specification runs in epoch {u.epoch}")
        case UpgradeStep.ROLLED_BACK:
            error = u.error
            why = sentence(error.problem) if error else ""
            text = (
                f"The specification of generation {u.generation} did not start "
                f"({error.reason if error else 'unknown'}): {why} {ROLLED_BACK_REMEDY}"
            )
            return KubernetesEvent(True, ROLLED_BACK, text)
