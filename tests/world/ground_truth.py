"""What really happened to each StreamJob: the models' storage and processes are its source, nothing of the
controller's.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from streamjob.api.types import duration

from .apiserver import Obj, is_a_driver

if TYPE_CHECKING:
    from .world import World


class Violation(AssertionError):
    """An invariant is broken. The message begins with its number."""


@dataclass
class Truth:
    """What really happened to one StreamJob (by uid)."""

    name: str
    root: str = ""
    started: list[int] = field(default_factory=list)  # epochs whose container has run
    began: dict[str, int] = field(default_factory=dict)  # the last epoch that started a query, by task
    cancelled: bool = False  # the user has asked for it since the newest pod was made
    # Request ids that the status has had, and since when.
    asked: dict[str, datetime] = field(default_factory=dict)
    numbers: dict[int, Obj] = field(default_factory=dict)  # records that the index has ever had
    index: dict[int, Obj] = field(default_factory=dict)  # and has now
    index_lost: bool = False
    secret_lost: bool = False
    # Uids of the pods whose container has run, by epoch.
    ran: dict[int, set[str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)  # uids of the pods that some status has had
    tried: Counter[str] = field(default_factory=Counter)  # containers that have run, by `made_from`
    refused: str | None = None  # the spec, with its nonce, that was rolled back
    script_failed: int | None = None  # by itself in this epoch, as the newest driver knows that could say so
    ended_well: str | None = (
        None  # what the driver was made from whose script came to its own end, with nothing left to run
    )
    prepares: datetime | None = None  # since when a driver has been prepared, or was
    late: bool = False  # it had its whole time before it was given up
    prepared: set[int] = field(default_factory=set)  # epochs whose driver has come to its gate
    round_began: datetime | None = None  # the newest round, as the status says
    round_since: int = 0  # its first epoch
    round_nonce: int | None = None  # the newest nonce when it began
    last: tuple[int, str] | None = None  # epoch of the newest container, and what it was made from


class Ledger:
    """The truths of one world, for those who judge by them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.truths: dict[str, Truth] = {}
        self.told: Counter[tuple[str, int, str]] = Counter()
        # Creations and deletions by kind, of what is compared with a calm run.
        self.made: Counter[str] = Counter()

    def fail(self, invariant: str, text: str) -> None:
        self.world.fail(Violation(f"{invariant}: {text}"))

    def truth(self, uid: str, name: str = "") -> Truth:
        return self.truths.setdefault(uid, Truth(name))

    def _escalated(self, job: Obj, truth: Truth) -> bool:
        """It is declared, recorded, and the timeout has passed."""
        e = (job.get("status") or {}).get("escalation")
        declared = job["spec"]["termination"]["escalation"]
        if not e or e["state"] != job["spec"].get("state") or e["mode"] not in declared:
            return False
        timeout = min(duration(job["spec"]["termination"][k]) for k in ("stopTimeout", "drainTimeout"))
        since = truth.asked[e["requestId"]]
        return self.world.now() >= since + timeout - timedelta(seconds=1) - self.world.skew

    def _pods(self, uid: str) -> list[Obj]:
        """Of its drivers."""
        return [p for p in self.world.server.drivers() if p["metadata"]["labels"]["streamjob.dev/uid"] == uid]

    def _over(self, uid: str) -> list[Obj]:
        """Those in which nothing runs any more, as their node says."""
        return [
            p
            for p in self._pods(uid)
            if p["status"]["phase"] in ("Succeeded", "Failed")
            and p["metadata"]["uid"] not in self.world.kubelet.containers
            and "deletionTimestamp" not in p["metadata"]
        ]

    def _left_executors(self, uid: str) -> list[str]:
        """Those of drivers whose pod is over, which is why no garbage collector takes them."""
        over = {p["metadata"]["uid"] for p in self._over(uid)}
        executors = [p["metadata"] for p in self.world.server.of_kind("pods") if not is_a_driver(p)]
        return [meta["name"] for meta in executors if meta["ownerReferences"][0]["uid"] in over]

    def _stored(self, uid: str) -> Obj | None:
        return next((j for j in self.world.server.of_kind("streamjobs") if j["metadata"]["uid"] == uid), None)


def made_from(obj: Obj) -> str:
    """What a pod is made from, or a StreamJob's are to be: as far as plans change it."""
    spec = obj["spec"]
    if "containers" not in spec:
        return f"{spec['image']} {_of_users(spec.get('sparkConf') or {})}"
    (driver,) = [c for c in spec["containers"] if c["name"] == "driver"]
    env = {e["name"]: e.get("value") for e in driver["env"]}
    return f"{driver['image']} {_configured(env['STREAMJOB_CONFIG'])}"


@lru_cache(maxsize=16)
def _configured(config: str) -> list[tuple[str, str]]:
    """A pod's stays what it is, and is looked at after each write."""
    return _of_users(json.loads(config)["spark_conf"])


def _of_users(conf: Obj) -> list[tuple[str, str]]:
    return sorted((k, v) for k, v in conf.items() if not k.startswith("spark."))


def wanted(job: Obj) -> str:
    """With the nonce, which asks for another attempt."""
    return f"{made_from(job)} {job['spec']['restart'].get('nonce')}"


def broken(job: Obj) -> bool:
    """No driver made from this can do its work."""
    spec = job["spec"]
    return spec["image"].startswith("missing") or (spec.get("sparkConf") or {}).get("script") in (
        "broken",
        "throws",
    )


def broken_text(specification: str | None) -> bool:
    """The same of a specification as the status keeps it."""
    return specification is not None and broken({"spec": json.loads(specification)})
