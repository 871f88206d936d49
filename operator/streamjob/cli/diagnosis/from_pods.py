"""Findings from pods, Kubernetes' Events about them, and logs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..printing.times import ago
from ..views.job import Job
from ..views.pods import of_claims
from ..views.progress import Mover
from . import knowledge
from .facts import Evidence, Facts, Finding, Severity

# Events of Kubernetes about a pod that does not start: why it may be, by the event's reason.
KUBERNETES = {
    "FailedScheduling": ("Unschedulable", "no node takes the pod"),
    "FailedMount": ("VolumesNotMounted", "a volume cannot be mounted"),
    "FailedAttachVolume": ("VolumesNotMounted", "a volume cannot be attached"),
    "ErrImagePull": ("ImagePullBackOff", "the image cannot be pulled"),
    "BackOff": ("ImagePullBackOff", "the image cannot be pulled, or the container does not stay"),
    "FailedCreatePodSandBox": ("PodSandbox", "the node cannot make the pod's network or sandbox"),
    "FailedCreate": ("Forbidden", "the pod is refused"),
}
# Events of the same pod that are newer show that it has got further, by the reason of the finding.
_HAS_ITS_IMAGE = {"Pulled", "Created", "Started"}
OVER = {
    "Unschedulable": {"Scheduled"},
    "VolumesNotMounted": {"Pulling", *_HAS_ITS_IMAGE},
    "PodSandbox": {"Pulling", *_HAS_ITS_IMAGE},
    "ImagePullBackOff": _HAS_ITS_IMAGE,
}
# Lines of logs that name a cause: reason, what, remedy. The first that is found counts.
LOGS: Sequence[tuple[str, re.Pattern[str], str, str]] = (
    (
        "OutOfMemory",
        re.compile(r"java\.lang\.OutOfMemoryError|GC overhead limit|Java heap space|std::bad_alloc"),
        "Java ran out of memory.",
        "Raise spec.driver.memory or spec.executor.memory, the heap, or keep less state.",
    ),
    (
        "StorageFull",
        re.compile(r"No space left on device|Disk quota exceeded"),
        "A disk is full.",
        "Make room: on the volume of checkpoints or savepoints, or for Spark's local files in /tmp.",
    ),
    (
        "ConnectorMissing",
        re.compile(
            r"Failed to find data source|ClassNotFoundException: \S*(?:kafka|delta|iceberg|s3a)|No "
            r"FileSystem for scheme"
        ),
        "A connector is not in the image.",
        "Add its jars to the image, or name them in spec.deps.packages.",
    ),
    (
        "SourceGone",
        re.compile(r"UnknownTopicOrPartition|OffsetOutOfRange|Some data may have been lost"),
        "Kafka does not have what the query reads next.",
        "See *Sources* in docs/reasons.md: restore the topic, or set failOnDataLoss to false.",
    ),
    (
        "AccessDenied",
        re.compile(
            r"AccessDenied|Status Code: 403|Permission denied|AccessControlException|SASL authentication "
            r"failed"
        ),
        "A storage or broker refuses the job's identity.",
        "See the credentials (spec.application.env), and on volumes the group that may write.",
    ),
    (
        "Unreachable",
        re.compile(
            r"Connection refused|UnknownHostException|Bootstrap broker \S+ disconnected|connect timed out"
        ),
        "Something that the job talks to does not answer.",
        "See its address in the script, and the NetworkPolicies.",
    ),
    (
        "ModuleMissing",
        re.compile(r"ModuleNotFoundError|ImportError"),
        "The image lacks a Python module that the script imports.",
        "Add it to the image, or to spec.deps.pyFiles.",
    ),
)
SHOWN = 3  # lines of a log
_MORE_MEMORY = (
    "Raise spec.executor.memory: the pod has that for the JVM's heap, and 40 % more for Python and all else "
    "outside of the heap. If it is Python that needs more, set spark.executor.memoryOverhead in "
    "spec.sparkConf, such as 2g, or spark.executor.pyspark.memory, which also tells Python its limit."
)
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)"', re.IGNORECASE)


def events_of_pods(f: Facts) -> Iterator[Finding]:
    """Why a pod that has to start does not."""
    starting = {p.name: p for p in f.pods if p.phase == "Pending"}
    told, newer = set[str](), defaultdict[str, set[str]](set)
    for event in reversed(f.events):
        if event.kind != "Pod" or event.name not in starting or not f.recent(event):
            continue
        newer[event.name].add(event.reason)
        known = KUBERNETES.get(event.reason)
        if known is None:
            continue
        reason, what = known
        has_node = reason == "Unschedulable" and starting[event.name].node is not None
        if reason in told or has_node or newer[event.name] & OVER.get(reason, set()):
            continue
        told.add(reason)
        message = " ".join(event.message.split())
        remedy = knowledge.remedy(reason, "See the message" if not knowledge.what(reason) else "")
        if reason == "Unschedulable" and of_claims(message):
            what, remedy = _claims(f.job, message)
        yield Finding(
            Severity.ERROR,
            reason,
            f"The pod {event.name} does not start: {what}.",
            (Evidence(f"Event {event.reason} of {event.name}", message[:400]),),
            remedy,
            knowledge.mover(reason, message),
        )


def _claims(job: Job, message: str) -> tuple[str, str]:
    """What is wrong with the claims of a pod, and what to do. The scheduler may not name one."""
    named = _CLAIM.findall(message)
    volumes = (job.spec.get("storage") or {}).get("volumes") or ()
    names = named or [
        v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v
    ]
    which = f"its claim {names[0]}" if len(names) == 1 else f"one of its claims ({', '.join(names)})"
    missing = "does not exist" if "not found" in message else "has no volume"
    remedy = (
        f"`kubectl describe pvc {' '.join(names)}` says why. A claim has to exist, and needs a volume or a "
        "StorageClass: without a default one, name it in the claim (storageClassName)."
    )
    return f"{which if names else 'one of its claims'} {missing}", remedy


def killed_pods(f: Facts) -> Iterator[Finding]:
    """Executors that were killed, and drivers that were evicted."""
    for reason, what, remedy in (
        ("OOMKilled", "needed more memory than its pod has, and was killed", _MORE_MEMORY),
        ("Evicted", "was evicted by its node", "See the node: memory or disk pressure."),
    ):
        hit = [p for p in f.pods if p.role == "executor" and reason in (p.killed, p.reason)]
        if hit:
            yield Finding(
                Severity.WARNING,
                f"Executor{reason}",
                f"{len(hit)} of the executors {what}." if len(hit) > 1 else f"An executor {what}.",
                tuple(Evidence(f"pod {p.name}", p.killed or p.reason) for p in hit[:SHOWN]),
                remedy,
                Mover.YOU,
            )


def lost_driver(f: Facts) -> Iterator[Finding]:
    """The status names a driver that runs, and there is no such pod."""
    name = f.job.driver
    if not f.pods_known or not f.runs:
        return
    if name and f.job.part("driver").get("uid") and name not in {p.name for p in f.pods}:
        yield Finding(
            Severity.WARNING,
            "DriverLost",
            f"The pod {name} is gone, and the status does not say so yet.",
            (Evidence("status.driver", f"{name} is {f.job.part('driver').get('phase')}"),),
            knowledge.remedy("DriverLost"),
            Mover.OPERATOR,
        )


def logs(f: Facts) -> Iterator[Finding]:
    """What a log names as a cause: that of a driver that is not well, or of the one that failed last."""
    last = f.last_log
    if f.job.ready:
        return
    if last is not None and last.epoch in (f.job.epoch, *f.failing):
        yield from _causes(f"log of epoch {last.epoch}", last.lines)
    yield from _causes("log of the driver", f.log)
    if last is not None:  # of what is a cause now, there is a finding already
        for finding in _causes(f"log of epoch {last.epoch}", last.lines):
            then = f"in epoch {last.epoch}, which ended {ago(last.ended, f.at)}; a later one has begun"
            what = f"{finding.what.rstrip('.')} ({then})."
            yield replace(finding, severity=Severity.NOTE, what=what, remedy="", mover=None)


def _causes(where: str, lines: Sequence[str]) -> Iterator[Finding]:
    for reason, pattern, what, remedy in LOGS:
        hits = [line for line in lines if pattern.search(line)]
        if hits:
            evidence = tuple(Evidence(where, line.strip()[:300]) for line in hits[-SHOWN:])
            yield Finding(Severity.WARNING, reason, what, evidence, remedy, Mover.YOU)
    raised = _raised(lines)
    if raised:
        what = f"The script raised {raised.partition(':')[0]}."
        yield Finding(Severity.NOTE, "Traceback", what, (Evidence(where, raised[:300]),), "", Mover.YOU)


def _raised(lines: Sequence[str]) -> str | None:
    """The last line of the last traceback."""
    begin = next(
        (i for i in reversed(range(len(lines))) if lines[i].startswith("Traceback (most recent")), None
    )
    if begin is None:
        return None
    return next((line for line in lines[begin + 1 :] if line and not line.startswith((" ", "\t"))), None)
