"""Jobs as the API server has them: a job of four stages in the middle of a drain, and others around it.

Every status is checked against the CRD's schema by test_recorded.py, so none can drift from the resource.
"""

from __future__ import annotations

import copy
import json
import math
from datetime import datetime, timedelta, timezone
from typing import Any

from ..cli.recorded import situations

Obj = dict[str, Any]
NAMESPACE = "streams"
UID = "7c1b9a52-8b41-4a35-a9b4-0e3a0c6f7d10"


def at(now: datetime, **ago: float) -> str:
    return (now - timedelta(**ago)).astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def orders(now: datetime, moment: float = 0.0) -> Obj:
    """A job that runs, `moment` seconds after `now`."""
    wave = math.sin(moment / 300)
    stages = [
        stage("orders", [], ["Kafka[orders]"], None, "orders_clean", 4820 + 900 * wave, 1.9 + 0.4 * wave, 3),
        stage("payments", [], ["Kafka[payments]"], "dedup", "payments_clean", 1310 + 200 * wave, 1.2, 1),
        stage(
            "joined", ["orders", "payments"], ["files", "files"], "join", "joined", 5980 + 700 * wave, 6.4, 1
        ),
        stage(
            "windows",
            ["joined"],
            ["files"],
            "windows",
            "Iceberg[lake.revenue]",
            5975 + 650 * wave,
            7.2 + wave,
            1,
        ),
    ]
    for found in stages:
        found["lastCommitAt"] = at(now, seconds=2)
    spec = {
        "state": "Running",
        "image": "registry.example/orders:1.4.2",
        "application": {"file": "/app/orders.py", "args": ["--watermark", "10 minutes"]},
        "sparkConf": {
            "spark.sql.shuffle.partitions": "64",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        },
        "driver": {"cores": 1, "memory": "2Gi"},
        "executor": {"instances": 4, "cores": 2, "memory": "4Gi"},
        "storage": {"checkpoints": "s3a://streams/checkpoints", "savepoints": "s3a://streams/savepoints"},
        "checkpoint": {"interval": "1m"},
        "savepoint": {"schedule": "0 */6 * * *", "retained": {"count": 5}},
        "termination": {"drainTimeout": "30m", "escalation": ["Stop"]},
        "upgrade": {"mode": "Savepoint"},
        "restart": {"policy": "OnFailure"},
    }
    status = {
        "observedGeneration": 7,
        "phase": "Running",
        "conditions": conditions(now, ready=("True", "Running", "Every query runs")),
        "term": 2,
        "epoch": 5,
        "startedEpoch": 5,
        "driver": {
            "pod": "orders-driver-5",
            "uid": "p5",
            "phase": "Running",
            "startedAt": at(now, hours=7, minutes=2),
        },
        "executors": {"wanted": 4, "running": 4, "min": 4, "max": 4},
        "lastExit": {
            "epoch": 4,
            "code": 0,
            "phase": "Terminated",
            "reason": "the script has ended after a stop",
            "time": at(now, hours=7, minutes=4),
        },
        "stages": stages,
        "checkpoint": {"latest": 412, "epoch": 5, "completedAt": at(now, seconds=41)},
        "savepoint": {
            "latest": savepoint("savepoint-schedule-1764115200"),
            "checkpoint": 380,
            "completedAt": at(now, minutes=48),
            "drained": False,
        },
        "nextSavepointAt": at(now, hours=-5, minutes=-12),
        "upgrade": {
            "step": "Completed",
            "generation": 7,
            "target": "1f0a7e9b2c3d4e5f",
            "epoch": 5,
            "savepoint": savepoint("upgrade-4-7"),
        },
        "warnings": [
            {
                "reason": "SinkNotChecked",
                "message": "the table that joined writes to cannot be checked",
            }
        ],
    }
    return {"metadata": meta("orders", now, days=12, uid=UID, generation=7), "spec": spec, "status": status}


def draining(now: datetime) -> Obj:
    """The same job 94 seconds after it was asked to drain: the first stages wait for the last ones."""
    job = orders(now)
    job["metadata"]["generation"] = 8
    job["spec"]["state"] = "Drained"
    status = job["status"]
    status["observedGeneration"] = 8
    status["phase"] = "Draining"
    status["conditions"] = conditions(
        now,
        ready=("False", "Draining", "The driver drains: windows fires its timers"),
        reconciling=True,
        seconds=94,
    )
    states = {
        "orders": ("WaitingForFinalCheckpoint", "WritingSavepoint"),
        "payments": ("WaitingForFinalCheckpoint", "WritingSavepoint"),
        "joined": ("Running", "FiringTimers"),
        "windows": ("Running", None),
    }
    for found in status["stages"]:
        state, step = states[found["uid"]]
        for task in found["tasks"]:
            task["state"] = state
            if step:
                task["step"] = step
        for operator in found["operators"]:
            operator["finished"] = state != "Running"
        if state != "Running":
            found["inputRowsPerSecond"] = 0.0
            found["sources"] = [{**s, "lagRows": 0, "lagSeconds": 0.0} for s in found["sources"]]
    status["termination"] = {
        "requestId": "drain-5-8",
        "mode": "Drain",
        "requestedAt": at(now, seconds=94),
        "deadline": at(now, seconds=94 - 1800),
        "savepoint": savepoint("drain-5-8"),
        "step": "WaitingForBoundary",
        "progress": "windows: reads what joined has left, 2 of 3 batches",
        "flushedRows": 18204,
    }
    return job


def drained(now: datetime) -> Obj:
    job = draining(now)
    status = job["status"]
    status["phase"] = "Drained"
    status["conditions"] = conditions(
        now, ready=("True", "Drained", "Every window is flushed, the savepoint is written")
    )
    for found in status["stages"]:
        for task in found["tasks"]:
            task["state"], task["step"] = "Closed", "Closed"
        for operator in found["operators"]:
            operator["finished"] = True
    status["checkpoint"] = {"latest": 413, "epoch": 5, "completedAt": at(now, seconds=3)}
    status["termination"] |= {
        "step": "Closed",
        "progress": "",
        "finalCheckpoint": 413,
        "flushedRows": 20411,
        "stateRowsLeft": 0,
    }
    return job


def failed(now: datetime) -> Obj:
    """The same job after a query of its fifth epoch has died and four restarts have not helped."""
    job = orders(now)
    status = job["status"]
    message = (
        "The query windows died: org.apache.iceberg.exceptions.RESTException: Unable to process: "
        "java.net.ConnectException: Connection refused (catalog.lake.svc:8181)"
    )
    remedy = "Make the catalog reachable, then raise spec.restart.nonce"
    error = {"reason": "QueryFailed", "message": message, "remedy": remedy, "time": at(now, minutes=6)}
    status |= {
        "phase": "Failed",
        "conditions": [
            *conditions(now, ready=("False", "QueryFailed", message), seconds=360)[:2],
            condition(now, "Stalled", "True", "QueryFailed", message, seconds=360),
        ],
        "driver": {**status["driver"], "phase": "Failed"},
        "lastExit": {
            "epoch": 5,
            "code": 1,
            "phase": "Failed",
            "reason": "the query windows died",
            "time": at(now, minutes=6),
        },
        "restarts": {"count": 4, "epoch": 5, "generation": 7},
        "lastError": error,
    }
    status.pop("executors")
    return job


FAILED_LOG = """\
2026-11-26 02:53:58,120 WARN  RESTSessionCatalog: retrying, 3 of 3
java.net.ConnectException: Connection refused (catalog.lake.svc:8181)
Traceback (most recent call last):
  File "/app/orders.py", line 71, in <module>
    spark.streams.awaitAnyTermination()
pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query windows terminated
"""


def failed_pods(now: datetime) -> list[Obj]:
    """The driver that has failed last, and one that had no memory left before."""
    driver, killed, *_ = pods(now)
    ended = {
        "exitCode": 1,
        "reason": "Error",
        "startedAt": at(now, minutes=40),
        "finishedAt": at(now, minutes=6),
    }
    driver["status"] = {
        "phase": "Failed",
        "containerStatuses": [{"name": "driver", "state": {"terminated": ended}}],
    }
    return [driver, killed]


def rolled_back(now: datetime) -> Obj:
    """A job whose new image could not be pulled."""
    job = orders(now)
    meta_, status = job["metadata"], job["status"]
    meta_ |= {"name": "sessions", "uid": "5e55", "generation": 3}
    job["spec"]["image"] = "registry.example/sessions:2.0.0-rc1"
    message = (
        "The driver's container does not start: ErrImagePull: registry.example/sessions:2.0.0-rc1: not found"
    )
    remedy = "Set spec.image to an image that exists, or back to the previous one"
    error = {"reason": "ImagePullFailed", "message": message, "remedy": remedy, "time": at(now, minutes=3)}
    status |= {
        "observedGeneration": 3,
        "conditions": [
            *conditions(now, ready=("True", "RolledBack", "The job runs with the previous specification")),
            condition(
                now,
                "Upgraded",
                "False",
                "RolledBack",
                f"The upgrade was rolled back: {message}",
                generation=3,
            ),
        ],
        "upgrade": {
            "step": "RolledBack",
            "generation": 3,
            "target": "9d",
            "previous": "{}",
            "epoch": 6,
            "error": error,
        },
        "lastError": error,
        "warnings": [],
    }
    return job


def others(now: datetime) -> list[Obj]:
    """One job for each situation of tests/gitops."""
    names = [
        "clicks",
        "inventory",
        "fraud",
        "ads",
        "metering",
        "audit",
        "returns",
        "search",
        "telemetry",
        "billing",
        "shipping",
        "refunds",
        "catalog",
        "geo",
        "mail",
        "quotes",
        "ratings",
    ]
    found = []
    for i, (name, (case, obj)) in enumerate(zip(names, sorted(situations().items()), strict=False)):
        if case == "progressing_noStatus":
            continue
        job = copy.deepcopy(obj)
        job["metadata"] |= meta(
            name, now, days=i + 1, uid=f"u-{name}", generation=job["metadata"].get("generation", 1)
        )
        job["spec"]["image"] = f"registry.example/{name}:1.{i}"
        for part in job.get("status", {}).get("conditions", ()):
            part["lastTransitionTime"] = at(now, minutes=17 * i + 2)
        if "checkpoint" in job.get("status", {}):
            job["status"]["checkpoint"]["completedAt"] = at(now, minutes=2 * i + 1)
        if job.get("status", {}).get("phase") == "Running":
            job["status"]["stages"] = [
                stage(
                    "events", [], ["Kafka[events]"], "windows", "Delta[events]", 900.0 * (i + 1), 0.8 * i, 1
                )
            ]
        found.append(job)
    return found


def many(now: datetime, n: int) -> list[Obj]:
    """So many jobs that run, in several namespaces."""
    found = []
    for i in range(n):
        job = orders(now, i * 13.0)
        job["metadata"] |= {"name": f"job-{i:04}", "namespace": f"team-{i % 7}", "uid": f"many-{i}"}
        job["status"]["phase"] = ["Running", "Running", "Running", "Stopped", "Failed"][i % 5]
        found.append(job)
    return found


def index(now: datetime) -> Obj:
    """The ConfigMap of `orders`."""
    uids = ["orders", "payments", "joined", "windows"]

    def record(
        number: int, epoch: int, ago: float, scenario: str | None = None, request: str | None = None
    ) -> Obj:
        stages = [
            {
                "uid": uid,
                "tasks": [
                    {
                        "index": i,
                        "location": f"s3a://streams/checkpoints/{uid}/{i}",
                        "batch": number * 4 + i + n,
                    }
                    for i in range(3 if uid == "orders" else 1)
                ],
                "operators": [],
            }
            for n, uid in enumerate(uids)
        ]
        completed = at(now, minutes=ago)
        where = savepoint(request) if request else None
        return {
            "checkpoint": number,
            "epoch": epoch,
            "scenario": scenario,
            "request_id": request,
            "savepoint": where,
            "completed_at": completed,
            "stages": stages,
        }

    records = [
        record(61, 2, 60 * 31, "Stop", "stop-2-3"),
        record(190, 3, 60 * 13, None, "savepoint-schedule-1764072000"),
        record(288, 4, 60 * 7 + 5, "Stop", "upgrade-4-7"),
        record(380, 5, 48, None, "savepoint-schedule-1764115200"),
        *(record(380 + i, 5, 33 - i) for i in range(1, 33)),
    ]
    gone = [{"savepoint": savepoint("savepoint-manual-2"), "checkpoint": 22, "at": at(now, hours=6)}]
    content = {
        "format": "streamjob.index",
        "version": 3,
        "job_uid": UID,
        "checkpoints": records,
        "deleted": gone,
    }
    return {
        "metadata": {"name": "orders-checkpoints", "namespace": NAMESPACE},
        "data": {"index.json": json.dumps(content)},
    }


def pods(now: datetime, running: Obj | None = None) -> list[Obj]:
    """The driver of `orders` with its specification, four executors, and a driver that failed."""
    spec = running or {
        k: v
        for k, v in orders(now)["spec"].items()
        if k in ("image", "application", "sparkConf", "driver", "executor")
    }

    def pod(name: str, component: str, epoch: int, ago: float, **status: Any) -> Obj:
        labels = {
            "streamjob.dev/job": "orders",
            "streamjob.dev/uid": UID,
            "streamjob.dev/component": component,
            "streamjob.dev/epoch": str(epoch),
        }
        began = {"startedAt": at(now, minutes=ago)}
        container = {
            "name": "driver" if component == "driver" else "spark-kubernetes-executor",
            "state": {"running": began},
        }
        return {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": labels,
                "annotations": {},
                "creationTimestamp": at(now, minutes=ago + 1),
            },
            "spec": {"nodeName": f"worker-{len(name) % 3 + 1}", "containers": [{"name": container["name"]}]},
            "status": {"phase": "Running", "containerStatuses": [container], **status},
        }

    driver = pod("orders-driver-5", "driver", 5, 422)
    driver["metadata"]["annotations"]["streamjob.dev/specification"] = json.dumps(spec)
    ended = {
        "terminated": {
            "exitCode": 137,
            "reason": "OOMKilled",
            "startedAt": at(now, hours=37),
            "finishedAt": at(now, hours=33),
        }
    }
    failed = pod(
        "orders-driver-1",
        "driver",
        1,
        2220,
        phase="Failed",
        containerStatuses=[{"name": "driver", "state": ended}],
    )
    return [driver, failed, *(pod(f"orders-7c1b9a52-5-exec-{i}", "executor", 5, 421) for i in range(1, 5))]


def events(now: datetime) -> list[Obj]:
    told = [
        ("Normal", "Draining", "The driver of epoch 5 is asked to drain", 1.6),
        ("Normal", "SavepointCompleted", savepoint("savepoint-schedule-1764115200"), 48),
        ("Normal", "Upgraded", "The driver of epoch 5 runs with the new specification", 60 * 7),
        ("Normal", "Starting", "The driver of epoch 5 starts", 60 * 7 + 3),
        ("Normal", "Upgrading", "The driver of epoch 4 stops for an upgrade", 60 * 7 + 6),
        (
            "Warning",
            "CheckpointAborted",
            "Checkpoint 301 of epoch 5 was aborted, the job continues: windows took longer than 10m",
            60 * 5,
        ),
        (
            "Warning",
            "OutOfMemory",
            "The driver of epoch 1 was killed: its container has exceeded 2Gi. Raise driver.memory",
            60 * 33,
        ),
    ]
    return [
        {
            "metadata": {
                "name": f"orders.{i}",
                "namespace": NAMESPACE,
                "uid": f"e{i}",
                "creationTimestamp": at(now, minutes=ago),
            },
            "involvedObject": {"kind": "StreamJob", "name": "orders", "namespace": NAMESPACE, "uid": UID},
            "type": kind,
            "reason": reason,
            "message": text,
            "eventTime": at(now, minutes=ago),
        }
        for i, (kind, reason, text, ago) in enumerate(told)
    ]


def stage(
    uid: str,
    upstream: list[str],
    sources: list[str],
    state: str | None,
    sink: str,
    rate: float,
    lag: float,
    tasks: int,
) -> Obj:
    batch = 1648 + len(uid)
    operators = [
        *(
            {"uid": f"source-{i}", "kind": "Source", "name": name, "finished": False}
            for i, name in enumerate(sources)
        ),
        *([{"uid": "state-0", "kind": "State", "name": state, "finished": False}] if state else []),
        {"uid": "sink", "kind": "Sink", "name": sink, "finished": False},
    ]
    whole = 0.8 + lag / 3
    found: Obj = {
        "uid": uid,
        "tasks": [{"index": i, "state": "Running", "batch": batch + i} for i in range(tasks)],
        "operators": operators,
        "batch": batch + tasks - 1,
        "inputRowsPerSecond": round(rate, 1),
        "processedRowsPerSecond": round(rate * 1.6, 1),
        "batchSeconds": {
            "triggerExecution": round(whole, 3),
            "latestOffset": 0.05,
            "getBatch": 0.01,
            "queryPlanning": 0.09,
            "walCommit": 0.07,
            "addBatch": round(whole * 0.7, 3),
            "commitOffsets": 0.06,
        },
        "lastCommitAt": "2026-11-26T03:00:00Z",
        "sources": [{"uid": "source-0", "lagRows": int(rate * lag), "lagSeconds": round(lag, 1)}],
    }
    if upstream:
        found["upstream"] = upstream
    if state:
        found |= {
            "stateRows": int(120_000 + rate * 9),
            "stateBytes": int(180e6 + rate * 4000),
            "watermark": "2026-11-26T02:48:30Z",
            "watermarkDelaySeconds": round(620 + lag, 1),
        }
    return found


def conditions(
    now: datetime, ready: tuple[str, str, str], *, reconciling: bool = False, seconds: float = 25_320
) -> list[Obj]:
    status, reason, message = ready
    found = [condition(now, "Ready", status, reason, message, seconds=seconds)]
    found.append(condition(now, "Reconciling", str(reconciling), reason, message, seconds=seconds))
    return [*found, condition(now, "Stalled", "False", reason, message, seconds=seconds)]


def condition(
    now: datetime,
    kind: str,
    status: str,
    reason: str,
    message: str,
    *,
    seconds: float = 180,
    generation: int = 7,
) -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": at(now, seconds=seconds),
    }


def meta(name: str, now: datetime, *, days: float, uid: str, generation: int) -> Obj:
    return {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid,
        "generation": generation,
        "creationTimestamp": at(now, days=days),
    }


def savepoint(request: str) -> str:
    return f"s3a://streams/savepoints/streams-orders-7c1b9a52/{request}"
