"""A job that runs without Kubernetes: from its folder to a resource as the cluster would have it."""

from __future__ import annotations

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..views.checkpoints import Index, parsed
from ..views.times import written


@dataclass(frozen=True)
class Folder:
    """What `streamjob.runtime --local` leaves.

    :param index: the text of index.json, None if there is none.
    :param epoch: of the last attempt.
    :param status: the driver's status as it was last written; empty if an older version ran.
    :param process: the process that runs the job now; None if none does. 0: one does, but does not say which.
    """

    path: Path
    index: str | None
    epoch: int
    status: dict[str, Any]
    process: int | None


def read(folder: Path) -> Folder | None:
    """The folder of a job; None if it holds none."""
    index = folder / "index.json"
    if not (index.exists() or (folder / "lock").exists()):
        return None
    epoch = folder / "epoch"
    try:
        status = json.loads((folder / "status.json").read_text())
    except (OSError, ValueError):
        status = {}
    return Folder(
        folder,
        index.read_text() if index.exists() else None,
        int(epoch.read_text()) if epoch.exists() else 0,
        status,
        _process(folder / "lock"),
    )


def _process(lock: Path) -> int | None:
    """The process that holds the lock."""
    try:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                text = file.read().strip()
                return int(text) if text.isdigit() else 0
    except OSError:
        return None
    return None


def resource(folder: Folder) -> dict[str, Any]:
    """A StreamJob as the controller would write it for this job."""
    index = parsed(folder.index) if folder.index else Index()
    runs = folder.process is not None
    status = folder.status
    latest, savepoint = index.latest, index.savepoints[0] if index.savepoints else None
    phase = _phase(status, index, runs)
    found: dict[str, Any] = {
        "observedGeneration": 1,
        "phase": phase,
        "epoch": max(folder.epoch, status.get("epoch") or 0),
        "stages": [_stage(s) for s in status.get("stages") or ()],
        "conditions": _conditions(status, phase, runs),
        "warnings": [{"reason": w["reason"], "message": w["message"]} for w in status.get("warnings") or ()],
    }
    if latest is not None:
        found["checkpoint"] = {
            "latest": latest.number,
            "epoch": latest.epoch,
            "completedAt": written(latest.completed),
        }
    if savepoint is not None:
        found["savepoint"] = {
            "latest": savepoint.savepoint,
            "checkpoint": savepoint.number,
            "completedAt": written(savepoint.completed),
            "drained": savepoint.scenario in ("Drain", "EndOfInput"),
        }
    problem = status.get("problem")
    if problem:
        found["lastError"] = {k: problem.get(k, "") for k in ("reason", "message", "remedy")}
    end = status.get("termination")
    if end:
        found["termination"] = {
            "requestId": end["request_id"],
            "mode": end["mode"],
            "step": end["step"],
            "progress": end.get("progress"),
            "finalCheckpoint": end.get("final_checkpoint"),
            "flushedRows": end.get("flushed_rows"),
        }
    if runs:
        found["driver"] = {"pod": f"process {folder.process or ''}".strip(), "phase": "Running"}
    return {
        "kind": "StreamJob",
        "metadata": {
            "name": folder.path.name,
            "namespace": str(folder.path.parent),
            "generation": 1,
            "uid": status.get("job_uid", ""),
        },
        "spec": {"state": "Running", "image": "this machine"},
        "status": found,
    }


def _phase(status: dict[str, Any], index: Index, runs: bool) -> str:
    end = status.get("termination") or {}
    if runs:
        if status.get("phase") == "Terminating":
            return "Draining" if end.get("mode") == "Drain" else "Stopping"
        return {"Running": "Running", "Starting": "Starting"}.get(status.get("phase", "Starting"), "Stopping")
    latest = index.latest
    if status.get("phase") == "Failed" or status.get("problem"):
        return "Failed"
    if latest is None or latest.scenario is None:
        return "Cancelled" if status or latest else "Pending"
    return {"Stop": "Stopped", "Drain": "Drained"}.get(latest.scenario, "Finished")


def _conditions(status: dict[str, Any], phase: str, runs: bool) -> list[dict[str, Any]]:
    problem, dead = status.get("problem"), status.get("degraded")
    reason, message = phase, "The process runs" if runs else "No process runs; start the script to continue"
    failed = phase == "Failed"
    if failed and problem:
        reason, message = problem["reason"], f"{problem['message']}. {problem.get('remedy', '')}".strip()
    busy = phase in ("Starting", "Stopping", "Draining")
    flags = {"Ready": not (failed or busy or dead), "Reconciling": busy, "Stalled": failed}
    found = [
        {"type": kind, "status": str(flag), "reason": reason, "message": message}
        for kind, flag in flags.items()
    ]
    if dead and runs:
        text = f"{dead['message']}. {dead.get('remedy', '')}".strip()
        found.append({"type": "Degraded", "status": "True", "reason": dead["reason"], "message": text})
    return found


def _stage(plain: dict[str, Any]) -> dict[str, Any]:
    figures = plain.get("figures") or {}
    batches = [t["batch"] for t in plain["tasks"] if t.get("batch") is not None]
    sources = [
        {"uid": s["uid"], **{f"lag{k.capitalize()}": v for k, v in (s.get("lag") or {}).items()}}
        for s in figures.get("sources") or ()
    ]
    found = {
        "uid": plain["uid"],
        "tasks": plain["tasks"],
        "operators": plain.get("operators") or [],
        "watermark": plain.get("watermark"),
        "batch": max(batches, default=None),
        "inputRowsPerSecond": plain.get("input_rows_per_second"),
        "processedRowsPerSecond": figures.get("processed_rows_per_second"),
        "batchSeconds": figures.get("batch_seconds"),
        "stateRows": plain.get("state_rows"),
        "stateBytes": figures.get("state_bytes"),
        "watermarkDelaySeconds": figures.get("watermark_delay"),
        "lastCommitAt": figures.get("last_commit"),
        "upstream": plain.get("upstream"),
        "sources": sources,
    }
    return {k: v for k, v in found.items() if v is not None}
