"""Findings from the controllers: nobody acts on the job, because none is there, watches it, or leads."""

from __future__ import annotations

from collections.abc import Iterator

from ..printing.times import span
from ..views.controllers import SELECTOR, Controller
from ..views.progress import Mover
from .facts import Evidence, Facts, Finding, Severity


def nobody_acts(f: Facts) -> Iterator[Finding]:
    """No controller acts on the job, whatever is asked of it. A driver that runs goes on.

    A controller may run without the chart. So that there is none counts only if nobody has seen the spec.
    """
    if f.controllers is None:
        return
    serving = [c for c in f.controllers if c.serves(f.job.namespace)]
    if not serving and f.job.seen:
        return
    if not f.controllers:
        yield Finding(
            Severity.ERROR,
            "NoController",
            "No controller acts on this job: none is installed in this cluster.",
            (Evidence("deployments", f"none has the label {SELECTOR}"),),
            "Install the operator's chart, or choose another --context.",
            Mover.YOU,
        )
    elif not serving:
        yield Finding(
            Severity.ERROR,
            "NamespaceNotWatched",
            f"No controller acts on this job: none watches the namespace {f.job.namespace}.",
            tuple(Evidence(f"deployment {c.name} in {c.namespace}", _watches(c)) for c in f.controllers),
            "Add the namespace to `watch.namespaces` of the chart (`helm upgrade`), or make the job in a "
            "namespace that is watched.",
            Mover.YOU,
        )
    elif all(c.is_away(f.at) for c in serving):
        first = serving[0]
        runs = "; its driver runs on meanwhile" if f.runs else ""
        yield Finding(
            Severity.WARNING if f.job.ready else Severity.ERROR,
            "ControllerAway",
            f"No controller acts on this job: that of {first.namespace}/{first.name} is away{runs}.",
            tuple(Evidence(f"deployment {c.name} in {c.namespace}", _leads(c, f)) for c in serving),
            f"See its pods and their log: `kubectl get pods -n {first.namespace} -l {SELECTOR}`, `kubectl "
            f"logs -n {first.namespace} deployment/{first.name}`.",
            Mover.YOU,
        )


def is_nobody(f: Facts) -> bool:
    return any(True for _ in nobody_acts(f))


def _watches(controller: Controller) -> str:
    return f"watches {', '.join(sorted(controller.watches or ())) or 'no namespace'}"


def _leads(controller: Controller, f: Facts) -> str:
    ready = f"{controller.ready} of {controller.wanted} replicas are ready"
    if not controller.lease_is_known:
        return ready
    if controller.renewed is None:
        return f"{ready}, and its Lease has never been held"
    held = f"held by {controller.holder}" if controller.holder else "held by nobody"
    return f"{ready}; its Lease is {held}, and was last renewed {span(f.at - controller.renewed)} ago"
