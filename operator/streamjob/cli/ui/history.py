"""Figures of jobs over time, as their status changes. They live as long as the server: nothing is stored."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]
SECONDS = 2 * 3600.0
LIMIT = 2000  # samples of a stage

FIGURES = (
    "inputRowsPerSecond",
    "processedRowsPerSecond",
    "stateRows",
    "stateBytes",
    "watermarkDelaySeconds",
)
LAGS = ("lagRows", "lagFiles", "lagBytes")


def sample(stage: Obj) -> Obj:
    """The figures of a stage that are known. Of several sources: the sum, and the oldest."""
    found: Obj = {name: stage[name] for name in FIGURES if stage.get(name) is not None}
    sources = stage.get("sources") or []
    for name in LAGS:
        known = [s[name] for s in sources if s.get(name) is not None]
        if known:
            found[name] = sum(known)
    ages = [s["lagSeconds"] for s in sources if s.get("lagSeconds") is not None]
    if ages:
        found["lagSeconds"] = max(ages)
    if parts := stage.get("batchSeconds"):
        found["batchSeconds"] = parts
    return found


@dataclass
class History:
    """Samples by job and stage: (time, figures). No figures: the job had no running driver then."""

    _samples: dict[str, dict[str, deque[tuple[float, Obj]]]] = field(default_factory=dict)

    def add(self, job: Obj, now: float) -> None:
        """Note what the status says, if it differs from what it said before.

        :param now: seconds since 1970.
        """
        stages = self._samples.setdefault(job["metadata"]["uid"], {})
        status = job.get("status") or {}
        runs = status.get("phase") in ("Running", "Stopping", "Draining")
        for stage in status.get("stages") or []:
            known = stages.setdefault(stage["uid"], deque(maxlen=LIMIT))
            figures = sample(stage) if runs else {}
            if (known or figures) and (not known or known[-1][1] != figures):
                known.append((round(now, 1), figures))
            while known and known[0][0] < now - SECONDS:
                known.popleft()

    def forget(self, uid: str) -> None:
        self._samples.pop(uid, None)

    def of(self, uid: str, after: float = 0.0) -> dict[str, list[tuple[float, Obj]]]:
        """The samples of a job since a time, by stage, oldest first."""
        stages = self._samples.get(uid, {})
        return {stage: [s for s in known if s[0] > after] for stage, known in stages.items()}
