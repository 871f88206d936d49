"""Runs the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ..views.progress import Mover, waiting
from . import from_controllers, from_figures, from_pods, from_status
from .facts import Evidence, Facts, Finding, Severity

Rule = Callable[[Facts], Iterator[Finding]]

# What the operator says itself comes first: of two findings with one reason, the first counts.
RULES: tuple[Rule, ...] = (
    from_controllers.nobody_acts,
    from_status.conditions,
    from_status.unseen,
    from_status.restarting,
    from_status.ending,
    from_status.index,
    from_pods.events_of_pods,
    from_figures.hangs,
    from_figures.lag,
    from_figures.executors,
    from_pods.killed_pods,
    from_pods.lost_driver,
    from_status.requests,
    from_figures.old_checkpoint,
    from_status.upgrades,
    from_status.warnings,
    from_pods.logs,
    from_figures.grace,
    from_status.deletion,
    from_status.not_ready,
    from_status.end,
)
_ORDER = list(Severity)


def diagnose(facts: Facts) -> tuple[Finding, ...]:
    """What is wrong with the job, the worst first. A job that is well has one finding, a note."""
    found: dict[str, Finding] = {}
    for rule in RULES:
        for finding in rule(facts):
            told = replace(finding, remedy=facts.with_command(finding.remedy))
            found.setdefault(_identity(finding), told)
    if not any(f.severity is not Severity.NOTE for f in found.values()) and facts.job.ready:
        found.setdefault("Well", _well(facts))
    if not found:
        found["Waiting"] = _waiting(facts)
    if facts.unread:
        evidence = tuple(Evidence("not read", text) for text in facts.unread)
        found["Unread"] = Finding(
            Severity.NOTE,
            "Unread",
            "Some facts could not be read, so something may be missing here.",
            evidence,
        )
    return tuple(sorted(found.values(), key=lambda f: _ORDER.index(f.severity)))


def _identity(finding: Finding) -> str:
    """Findings of one reason about several stages are several."""
    return finding.reason if finding.reason not in ("Behind", "NoCommit") else finding.what


def _waiting(facts: Facts) -> Finding:
    """What the job waits for: it is not what its spec asks for, and nothing is known to be wrong."""
    job = facts.job
    text, mover, move = waiting(job, facts.at)
    if not job.seen:
        text, mover = "the operator has not looked at the newest spec yet", Mover.OPERATOR
    numbers = f"generation {job.generation}, observedGeneration {job.observed_generation}"
    what = f"{job.name} is {job.phase}, on its way to {job.wanted}: {text.rstrip('. ')}."
    return Finding(Severity.NOTE, "Waiting", what, (Evidence("metadata and status", numbers),), move, mover)


def _well(facts: Facts) -> Finding:
    job = facts.job
    text = f"{job.name} is {job.phase}, as its spec asks for."
    if job.phase != job.wanted:
        text = f"{job.name} is {job.phase}, an end: that its spec asks for {job.wanted} changes nothing."
    return Finding(
        Severity.NOTE, "Well", text, (Evidence("condition Ready", job.conditions["Ready"].message),)
    )
