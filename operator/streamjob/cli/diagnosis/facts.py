"""What a diagnosis goes by, and what it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from ...protocol.wording import WORDS
from ..views.checkpoints import Index
from ..views.controllers import Controller
from ..views.events import Event
from ..views.job import Job
from ..views.pods import Pod
from ..views.progress import Mover

RECENT = timedelta(minutes=15)  # of an Event that counts


class Severity(str, Enum):
    """ERROR: the job is not what its spec asks for, and somebody has to act. WARNING: it will not stay well,
    or something was lost on the way. NOTE: worth knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Evidence:
    """Where something was seen, and what."""

    where: str
    text: str


@dataclass(frozen=True)
class Finding:
    """What is wrong.

    :param reason: stable, in CamelCase; that of the condition or Event where there is one.
    :param what: a sentence.
    :param remedy: what to do; empty: nothing.
    """

    severity: Severity
    reason: str
    what: str
    evidence: tuple[Evidence, ...] = ()
    remedy: str = ""
    mover: Mover | None = None


@dataclass(frozen=True)
class Log:
    """The last lines of the log of a driver that has failed. They say something of its epoch only."""

    epoch: int | None
    lines: tuple[str, ...]
    ended: datetime | None = None


@dataclass(frozen=True)
class Facts:
    """What was read.

    :param pods_known: the pods have been read. Otherwise that there are none says nothing.
    :param log: the last lines of the running driver's log.
    :param last_log: of the newest failed driver whose pod is there; later epochs may have ended since.
    :param unread: what could not be read, and why.
    :param logs: the command that prints the driver's log; empty: there is none.
    :param local: the job is one without Kubernetes: its reader acts at a terminal.
    :param controllers: of the whole cluster; None: they may not be read, or there is no cluster.
    """

    job: Job
    index: Index
    at: datetime
    events: tuple[Event, ...] = ()
    pods: tuple[Pod, ...] = ()
    pods_known: bool = False
    log: tuple[str, ...] = ()
    last_log: Log | None = None
    unread: tuple[str, ...] = ()
    logs: str = ""
    controllers: tuple[Controller, ...] | None = None
    local: bool = False

    def recent(self, event: Event) -> bool:
        return event.time is not None and self.at - event.time <= RECENT

    def with_command(self, remedy: str, epoch: int | None = None) -> str:
        """The remedy, with the command for the driver's log if it speaks of that.

        :param epoch: whose log it is; None: the newest one's.
        """
        if self.local:
            return remedy.replace(*WORDS["log"])
        if not self.logs or self.logs in remedy:
            return remedy
        which = f" --epoch {epoch}" if epoch is not None else ""
        return remedy.replace("the driver's log", f"the driver's log (`{self.logs}{which}`)", 1)

    @property
    def runs(self) -> bool:
        """A driver of the job runs."""
        return self.job.part("driver").get("phase") == "Running" and self.job.phase in (
            "Running",
            "Stopping",
            "Draining",
        )

    @property
    def failing(self) -> range:
        """The epochs that have failed in a row, up to the newest or the one before a driver that starts.

        The status keeps its count until the next failure, also when a later driver runs or ended in order.
        """
        restarts, last = self.job.part("restarts"), self.job.part("lastExit").get("epoch") or 0
        epoch = restarts.get("epoch") or 0
        starts = self.job.phase in ("Pending", "Starting", "Restarting") and last <= epoch
        if self.job.ready or not (starts or self.job.epoch == epoch):
            return range(0)
        return range(epoch + 1 - (restarts.get("count") or 0), epoch + 1)
