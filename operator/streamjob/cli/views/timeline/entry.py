"""What a timeline consists of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ..job import TERMINAL

OK, FAILED, GOING, NEUTRAL = "ok", "failed", "going", ""
# Reasons of Events. A change of the phase has the phase as its reason.
PHASES = {"Pending", "Starting", "Running", "Stopping", "Draining", "Cancelling", "Restarting", *TERMINAL}
TOLD_ELSEWHERE = {
    "CheckpointCompleted", "SavepointRequested", "SavepointCompleted", "SavepointAborted", "Upgrading",
    "Upgraded", "RolledBack", "ScriptEnded", "ExecutorsChanged", "Recovered", "UpgradePending", "Escalated",
}  # fmt: skip


@dataclass(frozen=True)
class TimelineEntry:
    """Something that happened.

    :param kind: epoch, stop, drain, upgrade, savepoint, failure, warning, escalation, suspension.
    :param outcome: ok, failed, going, or empty where there is none.
    :param epoch: in which it happened.
    """

    kind: str
    title: str
    begin: datetime | None
    end: datetime | None
    outcome: str
    detail: str = ""
    epoch: int | None = None

    @property
    def seconds(self) -> float | None:
        if self.begin is None or self.end is None:
            return None
        # Events have exact times; those of checkpoints are cut to whole seconds.
        return max((self.end - self.begin).total_seconds(), 0.0)
