"""What a controller says of a job, held against what has happened."""

from __future__ import annotations

from datetime import datetime, timedelta

from streamjob.api.crd import UNSEEN
from streamjob.api.types import duration
from streamjob.controller.objects.names import LABEL_UID
from streamjob.protocol.times import moment

from .apiserver import Change, Obj
from .ground_truth import Ledger, Truth, wanted

SLACK = timedelta(seconds=100)  # a node that is off keeps its pod that long
SUCCESS = ("Stopped", "Drained", "Finished")


class Jobs(Ledger):
    """V1, V2, V5 to V7, V10 to V13 of a StreamJob's status."""

    def _job(self, change: Change, truth: Truth) -> None:
        old, new = change.old, change.new
        if new is None:
            assert old is not None
            alive = [d.me for d in self.world.drivers() if d.config.job.uid == old["metadata"]["uid"]]
            stripped = change.by == "user" and bool(old["metadata"].get("finalizers"))
            if alive and not stripped:
                self.fail("V2", f"the job is gone while {alive} runs")
            self._let_go(old)
            return
        if new["spec"].get("state") == "Cancelled":
            truth.cancelled = True
        if truth.refused not in (None, wanted(new)):
            truth.refused = None
        was, is_ = (old or {"status": UNSEEN}).get("status") or {}, new.get("status") or {}
        if was == is_:
            return
        if (is_.get("upgrade") or {}).get("step") == "RolledBack" != (was.get("upgrade") or {}).get("step"):
            truth.refused = wanted(new)
            limit = duration(new["spec"]["upgrade"]["startTimeout"]) - timedelta(seconds=1)
            truth.late = truth.prepares is not None and self.world.now() >= truth.prepares + limit
        before, now = was.get("upgrade") or {}, is_.get("upgrade") or {}
        if now.get("step") == "Preparing" and before.get("deadline") != now.get("deadline"):
            truth.prepares = self.world.now()
        unproven = before.get("step") in ("Starting", "RolledBack") and now.get("step") == "Stopping"
        if unproven and before.get("previous") != now.get("previous"):
            self.fail("V13", "what has not come up is what the job would go back to")
        for what in ("epoch", "startedEpoch", "observedGeneration"):
            if is_.get(what, 0) < was.get(what, 0):
                self.fail("V7", f"status.{what} went from {was[what]} back to {is_.get(what)}")
        if is_.get("term", 0) < was.get("term", 0):
            self.fail("V12", f"{change.by} of term {is_.get('term')} writes over term {was['term']}")
        latest = [(s.get("checkpoint") or {}).get("latest", 0) for s in (was, is_)]
        if latest[1] < latest[0]:
            self.fail("V7", f"status.checkpoint.latest went from {latest[0]} back to {latest[1]}")
        if is_.get("termination"):
            truth.asked.setdefault(is_["termination"]["requestId"], self.world.now())
        if asked := is_.get("savepointRequest"):
            self._asked(asked, truth)
        self._rounds(new, was, is_, truth)
        if (is_.get("driver") or {}).get("uid"):
            truth.seen.add(is_["driver"]["uid"])
        if is_.get("phase") != was.get("phase"):
            self.world.note(change.by, f"phase {was.get('phase')} → {is_.get('phase')}")
            if was.get("phase") == "Failed" and is_.get("termination"):  # what waits for a person has time
                truth.asked[is_["termination"]["requestId"]] = self.world.now()
            ended = max((r["epoch"] for r in truth.index.values()), default=0)  # a later run may have ended
            # A cancel may kill a driver before it has said how its script ended.
            heard = was.get("phase") != "Cancelling"
            if is_.get("phase") == "Finished" and heard and (truth.script_failed or 0) >= max(ended, 1):
                self.fail("V10", "it is said to have finished, and its script has failed")
            if is_.get("phase") in SUCCESS:
                self._success(is_["phase"], truth, new["metadata"]["uid"])
            alive = [d.me for d in self.world.drivers() if d.config.job.uid == new["metadata"]["uid"]]
            if is_.get("phase") in ("Suspended", "Cancelled") and alive:
                self.fail("V2", f"phase {is_['phase']} while {alive} runs")
            leaving = [d["metadata"]["name"] for d in self.world.server.drivers() if _leaves(d, new)]
            if is_.get("phase") == "Suspended" and leaving:
                self.fail("V2", f"phase Suspended while a queue cannot have the room of {leaving}")
            if is_.get("phase") in (*SUCCESS, "Suspended", "Cancelled"):
                self._in_time(new, is_, truth)
        for condition in is_.get("conditions") or ():
            if condition["type"] == "Stalled" and condition["status"] == "True" and not condition["message"]:
                self.fail("V10", f"Stalled for {condition['reason']} without a word")

    def _rounds(self, job: Obj, was: Obj, is_: Obj, truth: Truth) -> None:
        """V14: a round begins once for each of its times, or because somebody asks for it; one that has
        succeeded has left its checkpoint.
        """
        spec, before, now = job["spec"].get("schedule"), was.get("rounds") or {}, is_.get("rounds") or {}
        if spec is None:
            return
        if now.get("last") != before.get("last"):
            self._success("Stopped", truth, job["metadata"]["uid"])
            self._round_over(truth)
        busy = (self.world.plan.shape.bounded or 60) > 10
        if self.world.plan.calm and not busy and now.get("missed"):
            self.fail("V14", f"{now['missed']} rounds are missed, and nothing is in their way")
        period = timedelta(minutes=self.world.plan.shape.rounds or 1)
        breaks = {"suspend", "Stopped", "Cancelled"} & {s.do for s in self.world.plan.steps}
        known = truth.round_began or moment(job["metadata"]["creationTimestamp"])
        waits = self.world.plan.calm and not breaks and is_.get("phase") == "Waiting"
        if waits and self.world.now() > known + 2 * period:
            self.fail("V14", f"no round has begun since {known}")
        if now.get("began") in (None, before.get("began")):
            return
        began = moment(now["began"])
        due = began - (began - datetime.min.replace(tzinfo=began.tzinfo)) % period
        since = truth.round_began or moment(job["metadata"]["creationTimestamp"])
        asked = spec["nonce"] != (truth.round_nonce or 1)
        # One whose spec was changed may begin again after its failure, and a live driver is taken into one.
        changed = was.get("phase") == "Failed" or (is_.get("driver") or {}).get("phase") == "Running"
        if not (asked or changed or due > since or any(self.world.plan.skews)):
            self.fail("V14", f"a round begins at {began}, the last one at {since}, and none is due between")
        truth.round_began, truth.round_nonce = began, spec["nonce"]
        truth.round_since = now.get("afterEpoch", 0) + 1

    def _round_over(self, truth: Truth) -> None:
        if max(truth.started, default=0) < truth.round_since:
            self.fail("V14", "a round is said to have succeeded that has had no driver")
        final = [r for r in truth.index.values() if r["scenario"]]
        newest = max(final, key=lambda r: r["checkpoint"], default=None)
        if newest is not None and newest["request_id"] is not None:
            self.fail("V14", f"a round is said to have succeeded that {newest['request_id']} has broken off")

    def _asked(self, asked: Obj, truth: Truth) -> None:
        """A live savepoint: what is said of it is what the index and the storage have."""
        truth.asked.setdefault(asked["requestId"], self.world.now())
        number = asked.get("checkpoint")
        if number is None:
            return
        record = truth.numbers.get(number)
        if record is None or record["request_id"] != asked["requestId"]:
            self.fail(
                "V5", f"{asked['requestId']} is said to be checkpoint {number}, which the index has not"
            )

    def _let_go(self, job: Obj) -> None:
        """V10: within its patience and a little for what has to be done, if nothing keeps the controller from
        it.
        """
        asked = job["metadata"].get("deletionTimestamp")
        plan, spec = self.world.plan, job["spec"]["termination"]
        if asked is None or plan.faults or plan.first or plan.weather.until or any(plan.skews):
            return
        if self.world.server.rights is not self.world.rights:
            return  # somebody has taken its rights away
        took = self.world.now() - max(moment(asked), self.world.user.granted)
        patience = max(duration(spec["stopTimeout"]), duration(spec["drainTimeout"]))
        if took > patience + SLACK:
            self.fail("V10", f"the finalizer went away after {took}")

    def _in_time(self, job: Obj, status: Obj, truth: Truth) -> None:
        """V11: what was escalated is over within the timeouts, and a little for what has to be done."""
        e, plan, spec = status.get("escalation"), self.world.plan, job["spec"]["termination"]
        if not e or plan.faults or plan.first or plan.weather.until or any(plan.skews):
            return
        took = self.world.now() - truth.asked[e["requestId"]]
        if took > duration(spec["drainTimeout"]) + duration(spec["stopTimeout"]) + timedelta(minutes=1):
            self.fail("V11", f"escalated to {e['mode']}, and over only after {took}")

    def _success(self, phase: str, truth: Truth, uid: str) -> None:
        """V2, V7: success is what is in storage, not what somebody says."""
        alive = [d.me for d in self.world.drivers() if d.config.job.uid == uid]
        if alive:
            self.fail("V2", f"phase {phase} while {alive} runs")
        if not truth.started:
            return
        # One that the job ended with, or one by which every stage had finished when its driver died: nothing
        # is left to run.
        final = [r for r in truth.index.values() if r["scenario"] or _finished(r)]
        newest = max(final, key=lambda r: r["checkpoint"], default=None)
        if newest is None:
            if truth.began:
                self.fail("V2", f"phase {phase} without a final checkpoint in the index")
            return
        directories = self.world.storage.of(truth.root)
        for stage in newest["stages"]:
            batch, directory = stage["tasks"][0]["batch"], directories[stage["uid"]]
            if (-1 if batch is None else batch) != directory.committed:
                at = directory.committed
                self.fail("V2", f"phase {phase}: {stage['uid']} is at {at}, the index says {batch}")
            if phase != "Stopped" and not directory.flushed:
                self.fail("V6", f"phase {phase} and {stage['uid']} has not been flushed")
        for (root, task), sink in self.world.storage.sinks.items():
            # What a stage has prepared that its script did not come to, the next start commits.
            carried = phase == "Stopped" and truth.began.get(task, 0) < newest["epoch"]
            if root == truth.root and sink.visible < directories[task].committed and not carried:
                self.fail("V1", f"phase {phase}: {task}'s sink shows batches up to {sink.visible} only")


def _finished(record: Obj) -> bool:
    return all(task["finished"] for stage in record["stages"] for task in stage["tasks"])


def _leaves(pod: Obj, job: Obj) -> bool:
    """Whether this is the pod of one of the job's drivers, and is being deleted."""
    meta = pod["metadata"]
    return "deletionTimestamp" in meta and meta["labels"].get(LABEL_UID) == job["metadata"]["uid"]
