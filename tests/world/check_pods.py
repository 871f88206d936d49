"""When a driver's pod may be made, and when it may be deleted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from streamjob.api.types import duration
from streamjob.controller.drivers.connection import SILENT_AFTER
from streamjob.protocol.times import moment

from .apiserver import Change, Obj
from .ground_truth import Ledger, Truth, made_from

if TYPE_CHECKING:
    from .driver import Driver

KILLED = 1  # seconds of grace
# Seconds from what a driver reports to the deletion of its pod: it is not silent yet, and a call times out.
HEARD = SILENT_AFTER + 15.0


class Pods(Ledger):
    """V2, V8 and V13 of the pods."""

    def _pod(self, change: Change, truth: Truth, uid: str) -> None:
        old, new = change.old, change.new
        ours = change.by.startswith("controller")
        if old is None and new is not None:
            job, over = self._stored(uid), self._over(uid)
            begun = [p for p in self._pods(uid) if p is not new and p not in over and not self._waits(p, job)]
            others = [p["metadata"]["name"] for p in begun]
            alive = [d.me for d in self.world.drivers() if d.config.job.uid == uid and d.may_write]
            if (others or alive) and not self._waits(new, job):
                self.fail("V2", f"{change.key[2]} is made while there are {others or alive}")
            if not self._waits(new, job):  # the running driver of one that waits may have died just now
                self._history(over, uid)
            epoch = int(new["metadata"]["labels"]["streamjob.dev/epoch"])
            status = (job or {}).get("status") or {}
            others = [(status.get(part) or {}).get("epoch") or 0 for part in ("upgrade", "standby")]
            said = max(status.get("epoch", 0), *others)
            if job is not None and said < epoch:
                self.fail("V8", f"{change.key[2]} is made before the status says its epoch")
            if job is not None and truth.refused is not None and made_from(new) == made_from(job):
                self.fail("V13", f"{change.key[2]} is made from what was rolled back")
            if job is not None and job["spec"].get("state") != "Cancelled":
                truth.cancelled = False
        elif ours and old is not None and (new is None or "deletionTimestamp" in new["metadata"]):
            self._teardown(old, truth, uid, (new or old)["metadata"].get("deletionGracePeriodSeconds"))

    def _waits(self, pod: Obj, job: Obj | None) -> bool:
        """It is prepared, and its epoch has not begun."""
        labels = pod["metadata"]["labels"]
        begun = ((job or {}).get("status") or {}).get("epoch", 0)
        return "streamjob.dev/prepared" in labels and int(labels["streamjob.dev/epoch"]) > begun

    def _history(self, over: list[Obj], uid: str) -> None:
        """V9: of earlier drivers, those that have failed may have a pod still, and nothing else."""
        if left := self._left_executors(uid):
            self.fail("V9", f"a driver begins, and executors of one before are left: {left}")
        for pod in over:
            (driver,) = [c for c in pod["status"]["containerStatuses"] if c["name"] == "driver"]
            end = driver["state"]["terminated"]
            said = json.loads(end["message"]) if end["message"] else {}
            record = said.get("completed") or {}
            if end["exitCode"] == 0 and said.get("phase") == "Terminated" and record.get("scenario"):
                self.fail("V9", f"{pod['metadata']['name']} is left, which has not failed")

    def _teardown(self, pod: Obj, truth: Truth, uid: str, grace: int | None) -> None:
        """V2: only what has ended, never began, was cancelled, or is older than the newest epoch."""
        job, meta = self._stored(uid), pod["metadata"]
        if job is None or self._may_cancel(job, truth):
            return
        epoch = int(meta["labels"]["streamjob.dev/epoch"])
        container = self.world.kubelet.containers.get(meta["uid"])
        if epoch < job.get("status", {}).get("epoch", 0):
            handed_over = container is not None and container.driver.closed and max(truth.started) > epoch
            if handed_over and grace == KILLED:
                self.fail("V2", f"{meta['name']} is killed, and has handed over")
            return
        if container is not None and not container.driver.may_write:
            return
        if container is not None and not self._leaves_idle(container.driver, job):
            self.fail("V2", f"{meta['name']} is deleted while its driver runs")
        containers = {c["name"]: c["state"] for c in pod["status"].get("containerStatuses") or ()}
        message = (containers.get("driver", {}).get("terminated") or {}).get("message")
        said = json.loads(message) if message else {}
        record = said.get("completed")
        if (
            record
            and record["scenario"]
            and record["checkpoint"] not in truth.numbers
            and not truth.index_lost
        ):
            self.fail(
                "V2", f"{meta['name']} is deleted, checkpoint {record['checkpoint']} is not in the index"
            )

    def _leaves_idle(self, driver: Driver, job: Obj) -> bool:
        """Its job is deleted, and it had started no query when the controller last heard of it."""
        since = self.world.loop.time() - driver.began if driver.began is not None else 0.0
        return "deletionTimestamp" in job["metadata"] and since <= HEARD

    def _may_cancel(self, job: Obj, truth: Truth) -> bool:
        if truth.cancelled or self._escalated(job, truth):
            return True
        asked = job["metadata"].get("deletionTimestamp")
        if asked is None:
            return False
        patience = min(duration(job["spec"]["termination"][k]) for k in ("stopTimeout", "drainTimeout"))
        late = self.world.now() >= moment(asked) + patience - self.world.skew
        return job["spec"]["termination"]["onDelete"] == "Cancel" or late
