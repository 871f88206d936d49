"""Pure: parts of a job's page as the page gets them, from views and findings. Both sources use them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from ..diagnosis.facts import Finding
from ..views import checkpoints, events, pods
from ..views.timeline import TimelineEntry
from .requests import Request

Obj = dict[str, Any]
EVENTS = 200  # the newest


def index(text: str | None) -> Obj:
    """The index as it was written; empty before the first checkpoint.

    :param text: `index.json`.
    """
    if text is None:
        return {"checkpoints": [], "deleted": []}
    found = checkpoints.parsed(text)
    if found.problem:
        return {"problem": f"The index: {found.problem}"}
    plain: Obj = json.loads(text)
    return {"checkpoints": plain["checkpoints"], "deleted": plain.get("deleted", [])}


def event_list(found: Iterable[events.Event]) -> list[Obj]:
    """The newest Events of the job and its pods, newest first."""
    return [
        {
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "message": event.message,
            "about": event.name if event.kind == "Pod" else "",
            "time": time_text(event.time),
            "count": event.count,
        }
        for event in reversed(list(found)[-EVENTS:])
    ]


def timeline(found: Iterable[TimelineEntry]) -> list[Obj]:
    """What is known of the job's life, in order."""
    return [
        {
            "kind": entry.kind,
            "title": entry.title,
            "text": entry.detail,
            "outcome": entry.outcome,
            "from": time_text(entry.begin),
            "until": time_text(entry.end),
            "epoch": entry.epoch,
        }
        for entry in found
    ]


def pod(found: pods.Pod) -> Obj:
    waits = found.waiting[0] if found.waiting else "Unschedulable" if found.unschedulable else ""
    return {
        "name": found.name,
        "component": found.role,
        "epoch": found.epoch,
        "phase": "Terminating" if found.deleting else found.phase,
        "reason": waits or found.killed or found.reason,
        "node": found.node or "",
        "startedAt": time_text(found.began),
        "endedAt": time_text(found.ended),
        "code": found.code,
    }


def diagnosis(at: datetime, findings: Iterable[Finding], command: str) -> Obj:
    """Findings, the worst first.

    :param command: which says the same in a terminal.
    """
    found = [
        {
            "severity": finding.severity.value,
            "reason": finding.reason,
            "what": finding.what,
            "evidence": [{"where": e.where, "text": e.text} for e in finding.evidence],
            "remedy": finding.remedy,
            "mover": finding.mover.value if finding.mover else "",
        }
        for finding in findings
    ]
    return {"at": time_text(at), "findings": found, "command": command}


def permissions(note: str, refused: Mapping[Request, str], commands: Mapping[Request, str]) -> Obj:
    """What may be asked of a job.

    :param note: what there is to say about it in general; may be empty.
    :param refused: what may not, and why.
    :param commands: which ask for the same in a terminal.
    """
    return {
        "note": note,
        "requests": {
            request.value: {"why": refused.get(request, ""), "command": commands.get(request, "")}
            for request in Request
        },
    }


def time_text(time: datetime | None) -> str | None:
    return time.isoformat() if time else None
