"""`diagnose`: what is wrong, by which evidence, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import click

from .. import access, options
from ..diagnosis.diagnose import diagnose as run
from ..diagnosis.facts import Facts, Finding, Severity
from ..errors import ExitCode
from ..kubectl import Kubectl, Objects
from ..printing import screen
from ..printing.text import BAD, DIM, GOOD, STRONG, WARN, Node, Span, line
from ..views import times
from ..views.events import events
from ..views.job import Job
from ..views.pods import Pod, drivers, pods

LINES = 200  # of a log


@options.command(
    local=True,
    examples="""
    kubectl streamjob diagnose orders
    kubectl streamjob diagnose orders --json | jq -r '.[] | select(.severity == "error").remedy'
    """,
)
@options.job_name()
@click.pass_obj
def diagnose(chosen: options.Options, name: str) -> int:
    """Say what is wrong with a job and what to do.

    It reads status, index, Events, pods and logs, and says each finding with its evidence. Exit code 1: there
    is an error.
    """
    found = access.read_job(chosen, name)
    facts = local_facts(chosen, found) if chosen.local else read_facts(chosen, found)
    findings = run(facts)
    if chosen.json:
        screen.document(findings)
    else:
        screen.tree(picture(found, findings))
    return ExitCode.PROBLEM if any(f.severity is Severity.ERROR for f in findings) else ExitCode.DONE


def read_facts(chosen: options.Options, found: Job) -> Facts:
    """What there is in the cluster. What may not be read is missing, and said."""
    kubectl, unread = chosen.kubectl, list[str]()
    index = access.read_index(chosen, found)
    if index.problem and "forbidden" in index.problem:
        unread.append(index.problem)
    happened: Objects = access.unless_refused(lambda: access.events(kubectl, found), [], unread)
    before = len(unread)
    of_pods = pods(access.unless_refused(lambda: access.pods(kubectl, found), [], unread))
    pods_known = len(unread) == before
    live = [p for p in drivers(of_pods) if p.phase == "Running"]
    ended = [p for p in drivers(of_pods) if p.ended]
    return Facts(
        found,
        index,
        times.now(),
        events(happened),
        of_pods,
        pods_known,
        _log(kubectl, live[-1:], unread),
        _log(kubectl, ended[-1:], unread),
        tuple(unread),
    )


def local_facts(chosen: options.Options, found: Job) -> Facts:
    return Facts(found, access.read_index(chosen, found), times.now())


def _log(kubectl: Kubectl, of: Iterable[Pod], unread: list[str]) -> tuple[str, ...]:
    for pod in of:
        read = partial(kubectl.logs, pod.name, pod.container, tail=LINES)
        return tuple(access.unless_refused(partial(list, read()), list[str](), unread))
    return ()


_STYLES = {Severity.ERROR: BAD, Severity.WARNING: WARN, Severity.NOTE: GOOD}


def picture(found: Job, findings: Iterable[Finding]) -> Node:
    """The findings as a tree."""
    root = Node(line(Span(found.name, STRONG), Span(f"in {found.namespace}", DIM)))
    for finding in findings:
        node = root.add(Span(f"{finding.severity.value}:", _STYLES[finding.severity]), finding.what)
        for evidence in finding.evidence:
            first, *more = evidence.text.splitlines() or [""]
            branch = node.add(Span(f"{evidence.where}:", DIM), first)
            for text in more:
                branch.add(text)
        if finding.remedy:
            node.add(Span("what to do:", STRONG), finding.remedy)
        if finding.mover is not None and finding.severity is not Severity.NOTE:
            node.add(Span("the next move is", DIM), finding.mover.value)
    return root
