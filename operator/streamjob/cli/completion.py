"""Completion in the shell: names of jobs, of savepoints and of contexts, as the cluster has them.

`kubectl streamjob <TAB>` works by the program `kubectl_complete-streamjob`, which kubectl calls with the
words so far; it answers as kubectl's own completion does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from .errors import CommandError
from .kubectl import JOBS, Kubectl

if TYPE_CHECKING:
    from .options import Options

NO_FILES = ":4"  # cobra's ShellCompDirectiveNoFileComp


def jobs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The jobs whose names begin like this, each with its phase."""
    return [
        CompletionItem(name, help=phase)
        for name, phase in _jobs(_kubectl(context))
        if name.startswith(incomplete)
    ]


def savepoints(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The savepoints of the job that is named before."""
    from .views.checkpoints import index  # noqa: PLC0415

    name = context.params.get("name")
    try:
        found = _kubectl(context).find("configmap", f"{name}-checkpoints") if name else None
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


def _kubectl(context: click.Context) -> Kubectl:
    from .options import Options  # noqa: PLC0415

    found: Options = context.find_root().ensure_object(Options)
    return found.kubectl


def for_kubectl() -> int:
    """What `kubectl_complete-streamjob WORD…` prints. The last word is the one to complete, perhaps empty."""
    from click.shell_completion import ShellComplete  # noqa: PLC0415

    from .group import main  # noqa: PLC0415

    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "kubectl streamjob", "_UNUSED").get_completions(words, incomplete)
    for item in found:
        print(f"{item.value}\t{item.help}" if item.help else item.value)
    print(NO_FILES)
    return 0
