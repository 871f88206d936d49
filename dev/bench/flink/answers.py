"""What Flink's REST API answers. Times are seconds since 1970, by the clock of this machine."""

from __future__ import annotations

from typing import Any, NamedTuple

Answer = dict[str, Any]


class JobFailed(Exception):
    """Flink's job failed, or its stop."""


class Savepoint(NamedTuple):
    id: int
    folder: str
    triggered: float


def submitted(job: Answer) -> float:
    """When the job manager received the job."""
    return float(job["timestamps"]["INITIALIZING"]) / 1000


def checked(job: Answer) -> Answer:
    """The same answer.

    :raises JobFailed: the job failed or was cancelled.
    """
    if job["state"] in {"FAILING", "FAILED", "CANCELLING", "CANCELED", "SUSPENDED"}:
        raise JobFailed(f"Flink's job {job['jid']} is {job['state']}")
    return job


def finished(job: Answer) -> float | None:
    """When the job was FINISHED, or None if it still runs."""
    return float(job["timestamps"]["FINISHED"]) / 1000 if job["state"] == "FINISHED" else None


def failure(stop: Answer) -> str | None:
    """Why a stop has failed, or None if it goes on or has succeeded. Flink calls both ends COMPLETED.

    :param stop: the answer of `savepoints/…`, which reports stops as well.
    """
    cause = (stop.get("operation") or {}).get("failure-cause")
    return None if cause is None else str(cause["stack-trace"]).splitlines()[0]


def windows(job: Answer) -> str:
    """The id of the vertex that counts: the one behind the exchange. A sink that writes has further ones."""
    (found,) = [vertex["id"] for vertex in job["vertices"] if "WindowAggregate" in vertex["name"]]
    return str(found)


def read(job: Answer) -> int:
    """Records that the windows' tasks have read, since this job was submitted."""
    counts = windows(job)
    return sum(int(v["metrics"]["read-records"]) for v in job["vertices"] if v["id"] == counts)


def running(vertices: list[Answer]) -> float | None:
    """When the last task was running, its state loaded, or None if one is not yet running. Flink's job itself
    is RUNNING earlier, before its tasks are deployed.

    :param vertices: the answer `subtasktimes` of each vertex.
    """
    times = [task["timestamps"]["RUNNING"] for vertex in vertices for task in vertex["subtasks"]]
    return max(times) / 1000 if times and min(times) > 0 else None


def completed(checkpoints: Answer, since: float = 0) -> float | None:
    """When the first periodic checkpoint was complete that was triggered after `since`, or None."""
    ends = [
        (c["trigger_timestamp"] + c["end_to_end_duration"]) / 1000
        for c in checkpoints["history"]
        if c["status"] == "COMPLETED" and not c["is_savepoint"] and c["trigger_timestamp"] / 1000 > since
    ]
    return min(ends, default=None)


def savepoint(checkpoints: Answer) -> Savepoint:
    """The job's last savepoint."""
    latest = checkpoints["latest"]["savepoint"]
    folder = str(latest["external_path"]).removeprefix("file:")
    return Savepoint(int(latest["id"]), folder, latest["trigger_timestamp"] / 1000)


def barrier(triggered: float, subtasks: Answer) -> float:
    """When the last task of a vertex had the savepoint's barrier from all its inputs. In a drain, a task has
    fired its windows by then, because the maximum watermark comes before the barrier.

    :param subtasks: the answer of `checkpoints/details/…/subtasks/…`.
    """
    delays: list[int] = [task["start_delay"] + task["alignment"]["duration"] for task in subtasks["subtasks"]]
    return triggered + max(delays) / 1000
