"""A job that runs without Kubernetes: from its folder to a resource as the cluster would have it."""

from __future__ import annotations

import fcntl
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...protocol.messages.driver_status import JVM_NOT_RESPONDING
from ..errors import CommandError
from ..printing.times import written
from ..views.checkpoints import Index, parsed


class NoSuchFolder(CommandError):
    """The folder holds no job."""

    reason = "NoJobHere"


@dataclass(frozen=True)
class Folder:
    """What `streamjob.runtime --local` leaves.

    :param index: the text of index.json, None if there is none.
    :param epoch: of the last attempt.
    :param status: the driver's status as it was last written; empty if an older version ran.
    :param process: the process that runs the job now; None if none does. 0: one does, but does not say which.
    :param config: the configuration of the last attempt; empty if an older version ran.
    :param began: when the last attempt began.
    :param changed: when status or index were written last.
    """

    path: Path
    index: str | None
    epoch: int
    status: dict[str, Any]
    process: int | None
    config: dict[str, Any]
    began: datetime | None
    changed: datetime | None


FILES = ("lock", "index.json", "epoch", "status.json", "config.json")


def is_job(folder: Path) -> bool:
    """Whether a job has run in this folder."""
    return any(_written(folder / name) is not None for name in ("index.json", "lock"))


def jobs(folder: Path) -> list[Path]:
    """The folders of jobs: this one, or those in it. By absolute paths."""
    folder = folder.absolute()
    if is_job(folder):
        return [folder]
    try:
        return sorted(f for f in folder.iterdir() if is_job(f))
    except OSError:
        return []


def state(folder: Path) -> tuple[object, ...]:
    """Differs if the folder says something else. Costs no more than a look at the files' times."""
    return process(folder), *(_written(folder / name) for name in FILES)


def read(folder: Path) -> Folder | None:
    """The folder of a job; None if it holds none."""
    if not is_job(folder):
        return None
    index, epoch = folder / "index.json", folder / "epoch"
    return Folder(
        folder,
        index.read_text() if index.exists() else None,
        int(epoch.read_text()) if epoch.exists() else 0,
        _json(folder / "status.json"),
        process(folder),
        _json(folder / "config.json"),
        _time(folder / "lock"),
        max(filter(None, (_time(folder / "status.json"), _time(index))), default=None),
    )


def read_folder(folder: Path) -> Folder:
    """The folder of a job.

    :raises NoSuchFolder: it holds none.
    """
    found = read(folder)
    if found is None:
        raise NoSuchFolder(
            f"{folder} holds no job",
            remedy="Name the folder that `python -m streamjob.runtime --local` prints when it starts, by "
            "default .streamjob/SCRIPT",
        )
    return found


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _written(file: Path) -> int | None:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None


def _time(file: Path) -> datetime | None:
    written = _written(file)
    return None if written is None else datetime.fromtimestamp(written / 1e9, timezone.utc)


def process(folder: Path) -> int | None:
    """The process that runs the job now, as in `Folder`."""
    try:
        with (folder / "lock").open() as file:
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
        "conditions": _conditions(folder, phase),
        "warnings": [
            {"reason": w["reason"], "message": w["message"]}
            for w in status.get("warnings") or ()
            if runs or w["reason"] != JVM_NOT_RESPONDING
        ],
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
    problem = status.get("problem") or _frozen(folder)
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
            "stateRowsLeft": end.get("state_rows_left"),
        }
        if latest is not None and latest.request == end["request_id"]:
            found["termination"]["savepoint"] = latest.savepoint
    found["driver"] = {"startedAt": written(folder.began)}
    if runs:
        found["driver"] |= {"pod": f"process {folder.process or ''}".strip(), "phase": "Running"}
    elif status:
        found["lastExit"] = {
            "epoch": found["epoch"],
            "code": status.get("exit_code"),
            "phase": status.get("phase"),
            "reason": status.get("exit_reason"),
            "time": written(folder.changed),
        }
    return {
        "kind": "StreamJob",
        "metadata": {
            "name": folder.path.name,
            "namespace": str(folder.path.parent),
            "generation": 1,
            "uid": status.get("job_uid", ""),
        },
        "spec": _spec(folder, phase),
        "status": found,
    }


_STATES = {
    "Stopping": "Stopped", "Stopped": "Stopped", "Draining": "Drained", "Drained": "Drained",
    "Cancelled": "Cancelled",
}  # fmt: skip


def _spec(folder: Folder, phase: str) -> dict[str, Any]:
    """What the process was asked for last, and what it was started with."""
    found: dict[str, Any] = {"state": _STATES.get(phase, "Running"), "image": "this machine"}
    config = folder.config
    if config:
        application = config.get("application") or {}
        found["application"] = {k: v for k, v in application.items() if v}
        found["sparkConf"] = config.get("spark_conf") or {}
        interval = (config.get("checkpointing") or {}).get("interval")
        found["checkpoint"] = {"interval": f"{interval:g}s"} if interval else {}
        found["storage"] = {"checkpoints": config.get("checkpoints"), "savepoints": savepoints(folder.path)}
    return found


def savepoints(folder: Path) -> str:
    """Where the savepoints of the job in this folder are."""
    return str(folder / "savepoints")


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


def _conditions(folder: Folder, phase: str) -> list[dict[str, Any]]:
    status, runs = folder.status, folder.process is not None
    problem, dead = status.get("problem"), status.get("degraded")
    # When an end was asked for, and since when a job that starts runs, the folder does not say.
    since = written(folder.changed if not runs else folder.began if not _busy(phase) else None)
    reason, message = phase, "The process runs" if runs else "No process runs; start the script to continue"
    failed = phase == "Failed"
    if failed and problem:
        reason, message = problem["reason"], _sentence(problem)
    frozen = _frozen(folder)
    if frozen:
        reason, message = frozen["reason"], _sentence(frozen)
    ready = not (failed or _busy(phase) or dead or frozen)
    flags = {"Ready": ready, "Reconciling": _busy(phase), "Stalled": failed}
    found = [
        {
            "type": kind,
            "status": str(flag),
            "reason": reason,
            "message": message,
            **({"lastTransitionTime": since} if since else {}),
        }
        for kind, flag in flags.items()
    ]
    if dead and runs:
        told = {"reason": dead["reason"], "message": _sentence(dead)}
        found.append({"type": "Degraded", "status": "True", **told})
    return found


def _sentence(problem: dict[str, Any]) -> str:
    return f"{problem['message']}. {problem.get('remedy', '')}".strip()


def _frozen(folder: Folder) -> dict[str, Any] | None:
    """What the process says of its JVM while that does not answer it."""
    warnings = folder.status.get("warnings") or () if folder.process is not None else ()
    return next((w for w in warnings if w["reason"] == JVM_NOT_RESPONDING), None)


def _busy(phase: str) -> bool:
    """Whether the job is on its way from one phase to another."""
    return phase in ("Starting", "Stopping", "Draining")


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
