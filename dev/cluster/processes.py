"""Start the cluster's daemons inside its cgroup and namespaces, and tell later whether they still run.

A process is recorded by its id and its start time, because ids are reused. The record only shows which
processes are alive; `down` ends them through the cgroup (see cgroups.py).
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dev.cluster import cgroups
from dev.cluster.commands import PATH, indent, tail
from dev.cluster.layout import ClusterError, Layout

HOLDER = "holder"


@dataclass(frozen=True)
class Process:
    name: str
    pid: int
    started: int

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started


def start_time(pid: int) -> int | None:
    """Return when the process was started, in ticks since boot; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def recorded(layout: Layout) -> list[Process]:
    try:
        entries = json.loads(layout.processes.read_text())
    except (OSError, ValueError):
        return []
    return [Process(name, pid, started) for name, (pid, started) in entries.items()]


def dead(layout: Layout) -> list[str]:
    return [process.name for process in recorded(layout) if not process.alive]


class Daemons:
    """Starts daemons. The first must be the holder, which creates the namespaces that all others enter."""

    def __init__(self, layout: Layout, cgroup: Path) -> None:
        self._layout = layout
        self._cgroup = cgroup
        self._processes: dict[str, Process] = {}

    @staticmethod
    def recall(layout: Layout) -> "Daemons":
        """The daemons of a cluster that is up."""
        daemons = Daemons(layout, cgroups.create(layout))
        daemons._processes = {process.name: process for process in recorded(layout)}
        return daemons

    @property
    def holder(self) -> int:
        return self._processes[HOLDER].pid

    def start(self, name: str, *command: str | Path) -> None:
        """Start a daemon that outlives this program, with its own log file."""
        enter: list[str] = []
        if name != HOLDER:
            # Not `ip netns exec`, which remounts /sys and so hides the cgroups from the kubelet.
            enter = ["nsenter", f"--net=/proc/{self.holder}/ns/net", f"--mount=/proc/{self.holder}/ns/mnt"]
        # The shell joins the cgroup before it becomes the daemon, so that even the daemon's first child is
        # inside.
        script = f'echo $$ > {self._cgroup}/cgroup.procs && exec "$@"'
        words = ["sh", "-c", script, "sh", *enter, *(str(word) for word in command)]
        environment = {
            "PATH": f"{self._layout.bin}:{PATH}",
            "HOME": str(self._layout.root),
            "LANG": "C.UTF-8",
        }
        with self.log(name).open("ab") as log, Path(os.devnull).open("rb") as nothing:
            child = subprocess.Popen(
                words, stdin=nothing, stdout=log, stderr=log, env=environment, cwd="/", start_new_session=True
            )
        started = start_time(child.pid)
        if started is None:
            raise self.failure(name, "ended at once")
        self._processes[name] = Process(name, child.pid, started)
        entries = {process.name: (process.pid, process.started) for process in self._processes.values()}
        self._layout.processes.write_text(json.dumps(entries, indent=1))

    def kill(self, name: str) -> list[str]:
        """Kill a daemon, as a crash does. Return the command that starts it again.

        :raises ClusterError: there is no such daemon, it is the holder, or it cannot be killed.
        """
        process = self._processes.get(name)
        if process is None or not process.alive or name == HOLDER:
            raise ClusterError(
                f"there is no daemon {name} that could be killed: see `python3 -m dev.cluster status`"
            )
        command = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[:-1]
        os.kill(process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 60
        while process.alive:
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} (pid {process.pid}) cannot be killed")
            time.sleep(0.02)
        return command

    def log(self, name: str) -> Path:
        return self._layout.logs / f"{name}.log"

    def failure(self, name: str, what: str) -> ClusterError:
        log = self.log(name)
        return ClusterError(f"{name} {what}, log: {log}\n{indent(tail(log))}")

    def wait(self, name: str, what: str, fact: Callable[[], bool], limit: float = 300.0) -> None:
        """Wait until a fact is true.

        :raises ClusterError: any daemon died in the meantime, or the time ran out; the message has the end of
            its log.
        """
        deadline = time.monotonic() + limit
        while not fact():
            for process in self._processes.values():
                if not process.alive:
                    raise self.failure(process.name, "has ended")
            if time.monotonic() > deadline:
                raise self.failure(name, f"did not get this far within {limit:.0f} s: {what}")
            time.sleep(0.1)
