"""`logs`, `events` and `timeline`: what has happened."""

from __future__ import annotations

from collections.abc import Mapping

import click

from .. import options
from ..access import cluster
from ..access.job import read_index, read_job
from ..errors import CommandError, ExitCode
from ..kubectl import Kubectl
from ..printing import screen, times
from ..views.events import Event
from ..views.events import events as view_events
from ..views.events import table as events_table
from ..views.job import TERMINAL, Job
from ..views.pods import Pod, drivers, pods
from ..views.timeline import table as timeline_table
from ..views.timeline import timeline as view_timeline

LAST_WORDS = 20  # lines of the log of an earlier driver


class NoLog(CommandError):
    """The pod is not there any more, and with it its log; or its container has not run yet."""

    reason = "NoLog"


@options.command(
    json=False,
    examples="""
    kubectl streamjob logs orders --follow
    kubectl streamjob logs orders --epoch 3
    kubectl streamjob logs orders --last-words
    """,
)
@options.job_name()
@click.option("--epoch", type=int, metavar="N", help="the driver of this epoch, instead of the newest")
@click.option(
    "--last-words", is_flag=True, help="how earlier drivers ended, with the end of the logs that are left"
)
@click.option("-f", "--follow", is_flag=True, help="go on until the driver ends")
@click.option("--tail", type=int, metavar="LINES", help="only so many lines")
@click.option("--since", metavar="TIME", help="only what is newer, such as 10m")
@click.pass_obj
def logs(
    chosen: options.Options,
    name: str,
    epoch: int | None,
    last_words: bool,
    follow: bool,
    tail: int | None,
    since: str | None,
) -> int:
    """Print the log of a job's driver.

    Pods of failed drivers stay, as many as spec.restart.failedDriversHistoryLimit says; of older ones the
    exit code and the reason are known.
    """
    found = read_job(chosen, name)
    if last_words:
        return _last_words(chosen.kubectl, found)
    there = {p.epoch: p for p in drivers(pods(cluster.pods(chosen.kubectl, found)))}
    number = epoch if epoch is not None else max((e for e in there if e is not None), default=found.epoch)
    pod = there.get(number)
    if pod is None:
        raise NoLog(
            f"the pod of epoch {number} of {name} is not there any more. {_known(found, number)}".rstrip(
                ". "
            ),
            remedy="Logs of epochs that are there: "
            + (", ".join(str(e) for e in there) or "none")
            + ". Raise spec.restart.failedDriversHistoryLimit, or collect the cluster's logs",
        )
    if not pod.started:
        raise _not_started(found, pod, there, chosen.suffix)
    if epoch is None and number < found.epoch:
        screen.note(_instead(found, pod))
    for line in chosen.kubectl.logs(pod.name, pod.container, follow=follow, tail=tail, since=since):
        print(line, flush=follow)
    return ExitCode.DONE


def _not_started(found: Job, pod: Pod, there: Mapping[int | None, Pod], suffix: str) -> NoLog:
    """Say what the pod waits for, and whose log there is meanwhile."""
    reason, message = pod.waiting or ("", "")
    waits = pod.unschedulable or ": ".join(p for p in (reason, " ".join(message.split())) if p)
    waits = waits or f"the pod {pod.name} is {pod.phase}"
    started = [e for e, p in there.items() if p.started and e is not None and e < (pod.epoch or 0)]
    if started:
        remedy = f"`kubectl streamjob logs {found.name}{suffix} --epoch {max(started)}` shows the one before"
    elif found.part("lastExit"):
        remedy = f"`kubectl streamjob logs {found.name}{suffix} --last-words` says how the one before ended"
    else:
        remedy = f"`kubectl streamjob diagnose {found.name}{suffix}` says what to do"
    return NoLog(f"the driver of epoch {pod.epoch} has not started: {waits.rstrip(' .,;:')}", remedy=remedy)


def _known(found: Job, epoch: int) -> str:
    last = found.part("lastExit")
    if last.get("epoch") != epoch:
        return ""
    return f"It ended with exit code {last.get('code')}: {last.get('reason') or 'no reason is known'}."


def _instead(found: Job, pod: Pod) -> str:
    """What is to be said above the log of an earlier epoch, which nobody has asked for."""
    over = found.part("lastExit").get("epoch") == found.epoch or found.phase in TERMINAL
    last = f"The pod of epoch {found.epoch}, the last one, is {'gone' if over else 'not there yet'}"
    how = f", which ended with {_code(pod)} at {times.written(pod.ended)}" if pod.ended else ""
    known = f"{last}. {_known(found, found.epoch)}".rstrip(". ")
    return f"{known}.\nThis is the log of epoch {pod.epoch}{how}:"


def _code(pod: Pod) -> str:
    return f"exit code {pod.code}" + (f" ({pod.killed})" if pod.killed else "")


def _last_words(kubectl: Kubectl, found: Job) -> int:
    ended = [p for p in drivers(pods(cluster.pods(kubectl, found))) if p.ended]
    last = found.part("lastExit")
    if last.get("epoch") not in {p.epoch for p in ended} and last:
        screen.put([f"--- epoch {last['epoch']}: its pod is gone", _known(found, last["epoch"])])
    for pod in ended:
        screen.put([f"--- epoch {pod.epoch}, {pod.name}: {_code(pod)} at {times.written(pod.ended)}"])
        screen.put(kubectl.logs(pod.name, pod.container, tail=LAST_WORDS))
    if not (ended or last):
        screen.note(f"No driver of {found.name} has ended yet")
    return ExitCode.DONE


@options.command(
    examples="""
    kubectl streamjob events orders
    kubectl streamjob events orders --warnings --json
    """
)
@options.job_name()
@click.option("--warnings", is_flag=True, help="warnings only")
@click.pass_obj
def events(chosen: options.Options, name: str, warnings: bool) -> int:
    """List the Events of a job and of its pods.

    Oldest first. Kubernetes keeps Events for an hour, unless the cluster is set up otherwise.
    """
    found = read_job(chosen, name)
    listed = [e for e in view_events(cluster.events(chosen.kubectl, found)) if e.warning or not warnings]
    if chosen.json:
        screen.document(listed)
    elif listed:
        screen.table(events_table(listed, times.now()))
    else:
        screen.note(f"There are no Events of {name}: they are kept for an hour")
    return ExitCode.DONE


@options.command(
    local=True,
    examples="""
    kubectl streamjob timeline orders
    kubectl streamjob timeline orders --json | jq '.[] | select(.kind == "epoch")'
    """,
)
@options.job_name()
@click.pass_obj
def timeline(chosen: options.Options, name: str) -> int:
    """Show a job's life, with durations.

    Epochs, stops, drains, savepoints, upgrades and failures, from the index, the status, the pods and the
    Events. Of what is older than all of these, nothing is known.
    """
    found = read_job(chosen, name)
    index = read_index(chosen, found)
    notes: list[str] = []
    happened: tuple[Event, ...] = ()
    of_pods: list[dict[str, object]] = []
    if not chosen.local:
        happened = view_events(
            cluster.unless_refused(lambda: cluster.events(chosen.kubectl, found), [], notes)
        )
        of_pods = cluster.unless_refused(lambda: cluster.pods(chosen.kubectl, found), [], notes)
    now = times.now()
    entries = view_timeline(found, index, happened, pods(of_pods), now)
    if chosen.json:
        screen.document(entries)
    elif entries:
        screen.table(timeline_table(entries, now))
    else:
        screen.note(f"{found.name} has not begun yet")
    for note in notes:
        screen.note(f"not read: {note}")
    return ExitCode.DONE
