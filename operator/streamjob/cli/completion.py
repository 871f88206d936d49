"""Completion in the shell: names of jobs and of savepoints, as the cluster has them."""

from __future__ import annotations

from click.shell_completion import CompletionItem

from .errors import CommandError
from .kubectl import JOBS, Kubectl
from .views.checkpoints import index


def jobs(kubectl: Kubectl, incomplete: str) -> list[CompletionItem]:
    """The jobs whose names begin like this, each with its phase."""
    return [CompletionItem(name, help=phase) for name, phase in _jobs(kubectl) if name.startswith(incomplete)]


def savepoints(kubectl: Kubectl, job: str | None, incomplete: str) -> list[CompletionItem]:
    """The savepoints of a job, None if none is named."""
    try:
        found = kubectl.find("configmap", f"{job}-checkpoints") if job else None
    except CommandError:
        return []
    names = [c.name or "" for c in index(found).savepoints]
    return [CompletionItem(n) for n in ["latest", *names] if n.startswith(incomplete)]


def _jobs(kubectl: Kubectl) -> list[tuple[str, str]]:
    line = '{range .items[*]}{.metadata.name}{"\\t"}{.status.phase}{"\\n"}{end}'
    try:
        text = kubectl.run("get", JOBS, "-o", f"jsonpath={line}", "--request-timeout=3s")
    except CommandError:
        return []  # while somebody types, nothing is better than an error
    return [(name, phase) for row in text.splitlines() for name, _, phase in [row.partition("\t")] if name]
