"""`diagnose`: what is wrong, by which evidence, and what to do."""

from __future__ import annotations

from collections.abc import Iterable

import click

from .. import options
from ..access.facts import read_facts
from ..access.job import read_job
from ..diagnosis.diagnose import diagnose as run
from ..diagnosis.facts import Finding, Severity
from ..errors import ExitCode
from ..printing import screen
from ..printing.text import BAD, DIM, GOOD, STRONG, WARN, Node, Span, line
from ..views.job import Job


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
    found = read_job(chosen, name, "--show-managed-fields")  # they say when the spec was changed
    findings = run(read_facts(chosen, found))
    if chosen.json:
        screen.document(findings)
    else:
        screen.tree(picture(found, findings))
    return ExitCode.PROBLEM if any(f.severity is Severity.ERROR for f in findings) else ExitCode.DONE


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
