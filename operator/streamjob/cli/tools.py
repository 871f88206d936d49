"""Runs the runtime's commands where the storage is: in the running driver's pod, or in a pod of their own."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .errors import CommandError
from .kubectl_errors import KubectlError
from .local import runtime
from .options import Options
from .printing import screen
from .printing.waiting import Waiting
from .views import check_pod, tool_pod
from .views.events import Event, events
from .views.job import Job

ROOM = 400 << 20  # bytes that Java needs beside the driver
START = 180.0  # seconds for which a pod may start
TICK = 2.0  # seconds between two looks at what it waits for
LIKE_THE_DRIVER = (
    "See whether the job's own driver would start: its image, volumes and node selector are used"
)
MEMORY_FILES = [f"/sys/fs/cgroup/memory.{name}" for name in ("max", "current", "stat")]


class ToolPodFailed(CommandError):
    """The pod in which a command should run does not start."""

    reason = "ToolPodFailed"


def run(chosen: Options, job: Job, words: Sequence[str], *, memory: str = tool_pod.MEMORY) -> int:
    """Run `python -m streamjob.runtime WORDS` with the job's storage. What it writes goes to our output.

    Of a job without Kubernetes, in place of this process.

    :param memory: what it needs, if it gets a pod of its own.
    :returns: its exit code.
    :raises ToolPodFailed: the pod does not start.
    :raises KubectlError: kubectl has lost the command.
    """
    words = [*words, *(["--json"] if chosen.json else [])]
    if chosen.local:
        runtime.become(words)
    with _place(chosen, job, memory) as pod:
        command = tool_pod.command(job, words)
        return chosen.kubectl.execute(pod, tool_pod.CONTAINER, command)


def check(chosen: Options, job: Job, words: Sequence[str]) -> int:
    """Run `python -m streamjob.runtime check WORDS` in a pod of its own. Its report goes to our output.

    :param job: as it would be.
    :returns: its exit code.
    :raises ToolPodFailed: the pod does not start.
    :raises KubectlError: kubectl has lost the command.
    """
    words = [*words, *(["--json"] if chosen.json else [])]
    with _own_place(chosen, job, lambda pod: check_pod.pod(job, pod), tool_pod.MEMORY_OF_SPARK) as pod:
        screen.note("The script runs up to its first wait, in that pod")
        return chosen.kubectl.execute(
            pod,
            tool_pod.CONTAINER,
            check_pod.command(job, words, shutil.get_terminal_size((100, 24)).columns),
        )


def output(chosen: Options, job: Job, words: Sequence[str]) -> str:
    """Run `python -m streamjob.runtime WORDS --json` with the job's storage.

    :returns: what it writes. Exit code 1 is a finding, which is in there.
    :raises ToolPodFailed: the pod does not start.
    :raises CommandError: the command has failed.
    """
    if chosen.local:
        return runtime.output([*words, "--json"])
    with _place(chosen, job, tool_pod.MEMORY) as pod:
        command = ["/bin/sh", "-c", '"$@" || [ $? = 1 ]', "sh", *tool_pod.command(job, [*words, "--json"])]
        return chosen.kubectl.run("exec", pod, "-c", tool_pod.CONTAINER, "--", *command)


def savepoints(chosen: Options, job: Job, root: str) -> list[dict[str, Any]]:
    """The savepoints in a folder: `uri`, `problem`, `size` and `own`, the bytes that no other one shares.

    :raises CommandError: they cannot be listed.
    """
    text = output(chosen, job, ["savepoint", "list", root])
    return [{key: s.get(key) for key in ("uri", "problem", "size", "own")} for s in json.loads(text)]


@contextmanager
def _place(chosen: Options, job: Job, memory: str) -> Iterator[str]:
    if memory == tool_pod.MEMORY and _driver_has_room(chosen, job):
        assert job.driver is not None
        yield job.driver
        return
    with _own_place(chosen, job, lambda pod: pod, memory) as name:
        yield name


@contextmanager
def _own_place(
    chosen: Options, job: Job, amended: Callable[[dict[str, Any]], dict[str, Any]], memory: str
) -> Iterator[str]:
    kubectl, name = chosen.kubectl, f"{job.name[:40]}-tool-{uuid.uuid4().hex[:6]}"
    made = kubectl.create(amended(tool_pod.pod(job, name, _runtime(chosen, job), memory=memory)))
    try:
        screen.note(f"The pod {name} is made from the driver's template; it is deleted afterwards")
        _started(chosen, name)
        yield str(made["metadata"]["name"])
    finally:
        kubectl.delete("pod", name, "--wait=false", "--grace-period=0", "--force")


def _driver_has_room(chosen: Options, job: Job) -> bool:
    """Whether the driver runs and its pod has memory for another Java. It must not be killed for our sake."""
    if job.phase != "Running" or job.driver is None or job.part("driver").get("phase") != "Running":
        return False
    try:
        text = chosen.kubectl.run("exec", job.driver, "-c", tool_pod.CONTAINER, "--", "cat", *MEMORY_FILES)
    except KubectlError:
        return False  # another version of cgroups, or no permission
    return free_memory(text) >= ROOM


def free_memory(text: str) -> int:
    """Bytes that a container may still take.

    :param text: the files memory.max, memory.current and memory.stat of its cgroup. What it has of files is
        given up when memory is needed.
    """
    limit, current, *stat = text.split("\n")
    if limit == "max":
        return ROOM
    cached = next((int(row.split()[1]) for row in stat if row.startswith("inactive_file ")), 0)
    return int(limit) - int(current) + cached


def _runtime(chosen: Options, job: Job) -> str | None:
    if not tool_pod.needs_runtime(job):
        return None
    found = tool_pod.newest(chosen.kubectl.list("configmaps", selector=tool_pod.RUNTIMES))
    if found is None:
        raise ToolPodFailed(
            "the namespace has no ConfigMap with StreamJob's runtime",
            remedy="The operator makes it with the first driver of the namespace: start a job, or use "
            "`python -m streamjob.runtime savepoint` where pyspark is",
        )
    return found


def _started(chosen: Options, name: str) -> None:
    """Wait until the pod runs, and say what it waits for.

    :raises ToolPodFailed: it does not, and why.
    """
    ends, said = time.monotonic() + START, ""
    found: dict[str, Any] = {}
    with chosen.kubectl.watch("pods", name) as watch, Waiting() as waiting:
        while (left := ends - time.monotonic()) > 0:
            try:
                event = watch.next(min(left, TICK))
            except EOFError:
                break
            found = event.object if event else found
            status = found.get("status") or {}
            if status.get("phase") == "Running":
                return
            if status.get("phase") in ("Failed", "Succeeded") or (event and event.kind == "DELETED"):
                why = ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))
                raise ToolPodFailed(
                    f"the pod {name} has ended before it could be used" + (f": {why}" if why else ""),
                    remedy=LIKE_THE_DRIVER,
                )
            if waiting.speaks:
                said = tool_pod.waits_for(found, _events(chosen, name))
                waiting.on(f"The pod {name} waits for {said}")
    raise ToolPodFailed(
        f"the pod {name} does not start" + (f"; it waits for {said}" if said else ""), remedy=LIKE_THE_DRIVER
    )


def _events(chosen: Options, name: str) -> Sequence[Event]:
    """The pod's Events; none if the user may not read them. The pod's status then has to do."""
    try:
        return events(chosen.kubectl.list("events", fields=f"involvedObject.name={name}"))
    except KubectlError:
        return ()
