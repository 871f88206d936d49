"""What must hold, told from what really happened and not from what `decide` thinks of it: reliability's V2 to V12, and V13, that
a change of the specification arrives, or is rolled back once, with a savepoint between.

It sees every write that the API server takes, every container that starts and every command that a driver gets. The models'
storage and processes are its truth; it imports nothing of the controller.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from streamjob.api.types import duration, moment
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages import Completed, DriverConfig, SavepointRequest, TerminationRequest

from .apiserver import Change, Obj

if TYPE_CHECKING:
    from .driver import Driver
    from .query import Query
    from .world import World

SLACK = timedelta(seconds=100)  # a node that is off keeps its pod that long
SUCCESS = ("Stopped", "Drained", "Finished")


class Violation(AssertionError):
    """An invariant is broken. The message begins with its number."""


@dataclass
class Truth:
    """What really happened to one StreamJob (by uid)."""

    name: str
    root: str = ""
    started: list[int] = field(default_factory=list)  # epochs whose container has run
    queries_began: bool = False
    cancelled: bool = False  # the user has asked for it since the newest pod was made
    asked: dict[str, datetime] = field(
        default_factory=dict
    )  # request ids that the status has had, and since when
    numbers: dict[int, Obj] = field(default_factory=dict)  # records that the index has ever had
    index: dict[int, Obj] = field(default_factory=dict)  # and has now
    index_lost: bool = False
    secret_lost: bool = False
    ran: dict[int, set[str]] = field(
        default_factory=dict
    )  # uids of the pods whose container has run, by epoch
    seen: set[str] = field(default_factory=set)  # uids of the pods that some status has had
    tried: Counter[str] = field(default_factory=Counter)  # containers that have run, by `made_from`
    refused: str | None = None  # the spec, with its nonce, that was rolled back
    last: tuple[int, str] | None = None  # epoch of the newest container, and what it was made from


class Oracle:
    def __init__(self, world: World) -> None:
        self.world = world
        self.truths: dict[str, Truth] = {}
        self.told: Counter[tuple[str, int, str]] = Counter()
        self.made: Counter[str] = (
            Counter()
        )  # creations and deletions by kind, of what is compared with a calm run

    def fail(self, invariant: str, text: str) -> None:
        self.world.fail(Violation(f"{invariant}: {text}"))

    def truth(self, uid: str, name: str = "") -> Truth:
        return self.truths.setdefault(uid, Truth(name))

    # --- writes -----------------------------------------------------------------------------------------------

    def changed(self, change: Change) -> None:
        plural = change.key[0]
        obj = change.new or change.old
        assert obj is not None
        if plural == "streamjobs":
            self._job(change, self.truth(obj["metadata"]["uid"], change.key[2]))
            return
        owners = obj["metadata"].get("ownerReferences")
        if not owners:
            return
        truth = self.truth(owners[0]["uid"])
        if change.old is None or change.new is None:
            self.made[f"{plural} {'made' if change.old is None else 'gone'}"] += 1
        if plural == "pods":
            self._pod(change, truth, owners[0]["uid"])
        elif plural == "configmaps":
            self._index(change, truth)
        elif change.new is None and change.by == "user":
            truth.secret_lost = True

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
        was, is_ = (old or {}).get("status") or {}, new.get("status") or {}
        if was == is_:
            return
        if (is_.get("upgrade") or {}).get("step") == "RolledBack" != (was.get("upgrade") or {}).get("step"):
            truth.refused = wanted(new)
        before, now = was.get("upgrade") or {}, is_.get("upgrade") or {}
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
        if (is_.get("driver") or {}).get("uid"):
            truth.seen.add(is_["driver"]["uid"])
        if is_.get("phase") != was.get("phase"):
            self.world.note(change.by, f"phase {was.get('phase')} → {is_.get('phase')}")
            if is_.get("phase") in SUCCESS:
                self._success(is_["phase"], truth, new["metadata"]["uid"])
            if is_.get("phase") in (*SUCCESS, "Cancelled"):
                self._in_time(new, is_, truth)
        for condition in is_.get("conditions") or ():
            if condition["type"] == "Stalled" and condition["status"] == "True" and not condition["message"]:
                self.fail("V10", f"Stalled for {condition['reason']} without a word")

    def _asked(self, asked: Obj, truth: Truth) -> None:
        """A savepoint beside the run: what is said of it is what the index and the storage have."""
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
        """V10: within its patience and a little for what has to be done, if nothing keeps the controller from it."""
        asked = job["metadata"].get("deletionTimestamp")
        plan, spec = self.world.plan, job["spec"]["termination"]
        if asked is None or plan.faults or plan.weather.until or any(plan.skews):
            return
        took = self.world.now() - moment(asked)
        patience = max(duration(spec["stopTimeout"]), duration(spec["drainTimeout"]))
        if took > patience + SLACK:
            self.fail("V10", f"the finalizer went away after {took}")

    def _in_time(self, job: Obj, status: Obj, truth: Truth) -> None:
        """V11: what was escalated is over within the timeouts, and a little for what has to be done."""
        e, plan, spec = status.get("escalation"), self.world.plan, job["spec"]["termination"]
        if not e or plan.faults or plan.weather.until or any(plan.skews):
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
        final = [r for r in truth.index.values() if r["scenario"]]
        newest = max(final, key=lambda r: r["checkpoint"], default=None)
        if newest is None:
            if truth.queries_began:
                self.fail("V2", f"phase {phase} without a final checkpoint in the index")
            return
        directories = self.world.storage.of(truth.root)
        for stage in newest["stages"]:
            batch, directory = stage["tasks"][0]["batch"], directories[stage["uid"]]
            if (-1 if batch is None else batch) != directory.batch:
                self.fail(
                    "V2", f"phase {phase}: {stage['uid']} is at {directory.batch}, the index says {batch}"
                )
            if phase != "Stopped" and not directory.flushed:
                self.fail("V6", f"phase {phase} and {stage['uid']} has not been flushed")
        for (root, task), sink in self.world.storage.sinks.items():
            if root == truth.root and sink.visible < directories[task].batch:
                self.fail("V1", f"phase {phase}: {task}'s sink shows batches up to {sink.visible} only")

    def _pod(self, change: Change, truth: Truth, uid: str) -> None:
        old, new = change.old, change.new
        ours = change.by.startswith("controller")
        if old is None and new is not None:
            job = self._stored(uid)
            others = [p["metadata"]["name"] for p in self._pods(uid) if p is not new]
            alive = [d.me for d in self.world.drivers() if d.config.job.uid == uid]
            if others or alive:
                self.fail("V2", f"{change.key[2]} is made while there are {others or alive}")
            epoch = int(new["metadata"]["labels"]["streamjob.dev/epoch"])
            if job is not None and job.get("status", {}).get("epoch", 0) < epoch:
                self.fail("V8", f"{change.key[2]} is made before the status says its epoch")
            if job is not None and truth.refused is not None and made_from(new) == made_from(job):
                self.fail("V13", f"{change.key[2]} is made from what was rolled back")
            if job is not None and job["spec"].get("state") != "Cancelled":
                truth.cancelled = False
        elif ours and old is not None and (new is None or "deletionTimestamp" in new["metadata"]):
            self._teardown(old, truth, uid)

    def _teardown(self, pod: Obj, truth: Truth, uid: str) -> None:
        """V2: only what has ended, never began, was cancelled, or is older than the newest epoch."""
        job, meta = self._stored(uid), pod["metadata"]
        if job is None or self._may_cancel(job, truth):
            return
        epoch = int(meta["labels"]["streamjob.dev/epoch"])
        if epoch < job.get("status", {}).get("epoch", 0):
            return
        container = self.world.kubelet.containers.get(meta["uid"])
        if container is not None:
            self.fail("V2", f"{meta['name']} is deleted while its driver runs")
        status = (pod["status"].get("containerStatuses") or [{}])[0].get("state") or {}
        message = (status.get("terminated") or {}).get("message")
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

    def _may_cancel(self, job: Obj, truth: Truth) -> bool:
        if truth.cancelled or self._escalated(job, truth):
            return True
        asked = job["metadata"].get("deletionTimestamp")
        if asked is None:
            return False
        patience = min(duration(job["spec"]["termination"][k]) for k in ("stopTimeout", "drainTimeout"))
        late = self.world.now() >= moment(asked) + patience - self.world.skew
        return job["spec"]["termination"]["onDelete"] == "Cancel" or late

    def _escalated(self, job: Obj, truth: Truth) -> bool:
        """It is declared, recorded, and the timeout has passed."""
        e = (job.get("status") or {}).get("escalation")
        declared = job["spec"]["termination"]["escalation"]
        if not e or e["state"] != job["spec"].get("state") or e["mode"] not in declared:
            return False
        timeout = min(duration(job["spec"]["termination"][k]) for k in ("stopTimeout", "drainTimeout"))
        since = truth.asked[e["requestId"]]
        return self.world.now() >= since + timeout - timedelta(seconds=1) - self.world.skew

    def _index(self, change: Change, truth: Truth) -> None:
        if change.new is None:
            truth.index = {}
            truth.index_lost = truth.index_lost or (change.by == "user" and bool(truth.numbers))
            return
        document = json.loads(change.new["data"]["index.json"])
        before, truth.index = truth.index, {r["checkpoint"]: r for r in document["checkpoints"]}
        if set(before) - set(truth.index):
            self.fail("V7", f"checkpoints {sorted(set(before) - set(truth.index))} left the index")
        if change.old is None and truth.numbers:
            self._made_anew(truth)
        noted = {d["savepoint"] for d in document.get("deleted", ())}
        for number, record in truth.index.items():
            old = before.get(number)
            if old and record["savepoint"] is None and record == {**old, "savepoint": None} != old:
                if old["savepoint"] not in noted:
                    self.fail("V7", f"checkpoint {number} lost its savepoint, and no note says so")
                continue
            if truth.numbers.get(number) == record:
                continue  # of an index that was made anew
            if before.get(number) != record:
                self._completed(record, truth, before.get(number))

    def _made_anew(self, truth: Truth) -> None:
        """After the user has deleted it: it goes as far as it did, or further, and has every savepoint that is there."""
        there = self.world.storage.savepoints
        lost = [n for n, r in truth.numbers.items() if r["savepoint"] in there and n not in truth.index]
        if max(truth.index, default=0) < max(truth.numbers) or lost:
            self.fail("V7", f"the index is made anew without checkpoints {lost or max(truth.numbers)}")

    def _completed(self, record: Obj, truth: Truth, known: Obj | None) -> None:
        number = record["checkpoint"]
        if truth.started and record["epoch"] < max(truth.started):
            self.fail(
                "V12",
                f"checkpoint {number} of epoch {record['epoch']} after epoch {max(truth.started)} began",
            )
        if known is not None and known["request_id"] != record["request_id"]:
            self.fail("V3", f"checkpoint {number} is overwritten with another one")
        same = [
            n
            for n, r in truth.index.items()
            if record["request_id"] and r["request_id"] == record["request_id"]
        ]
        if len(same) > 1:
            self.fail("V3", f"request {record['request_id']} has final checkpoints {same}")
        if record["savepoint"] is not None and record["scenario"] is None and known is None:
            self.made["savepoints made"] += 1
        if record["savepoint"] is not None:
            manifest = self.world.storage.savepoints.get(record["savepoint"])
            if manifest is None:
                self.fail("V5", f"checkpoint {number}: {record['savepoint']} has no manifest")
            elif manifest.checkpoint != number:
                self.fail("V3", f"{record['savepoint']} is of checkpoint {manifest.checkpoint}, not {number}")
        directories = self.world.storage.of(truth.root)
        for stage in record["stages"]:
            done = all(o["finished"] for o in stage["operators"]) and bool(stage["operators"])
            if done and not directories[stage["uid"]].flushed:
                self.fail("V6", f"checkpoint {number} has {stage['uid']} as finished, and it is not")
            earlier = [r for n, r in truth.numbers.items() if n < number]
            was = any(
                o["finished"]
                for r in earlier
                for s in r["stages"]
                if s["uid"] == stage["uid"]
                for o in s["operators"]
            )
            if was and not done:
                self.fail("V6", f"checkpoint {number}: {stage['uid']} had finished before")
        truth.numbers[number] = record

    # --- drivers ----------------------------------------------------------------------------------------------

    def container_starts(self, config: DriverConfig, pod: Obj) -> None:
        truth = self.truth(config.job.uid)
        alive = [d.me for d in self.world.drivers() if d.config.job.uid == config.job.uid]
        if alive:
            self.fail("V12", f"the driver of epoch {config.epoch} starts beside {alive}")
        # One that nobody saw may be made again under the same name: two controllers must not make two of it.
        if truth.ran.get(config.epoch, set()) & truth.seen:
            self.fail("V12", f"a second driver starts in epoch {config.epoch}")
        if truth.started and config.epoch < max(truth.started):
            self.fail("V12", f"the driver of epoch {config.epoch} starts after epoch {max(truth.started)}")
        if config.next_checkpoint <= max(truth.numbers, default=0):
            self.fail(
                "V8",
                f"epoch {config.epoch} numbers from {config.next_checkpoint}; {max(truth.numbers)} is taken",
            )
        newest = max(truth.index, default=None)
        latest = config.restore.latest.checkpoint if config.restore.latest else None
        if latest is None and truth.numbers:
            self.fail(
                "V1",
                f"epoch {config.epoch} starts from nothing; checkpoint {max(truth.numbers)} has completed",
            )
        if newest != latest:
            self.fail("V1", f"epoch {config.epoch} starts from checkpoint {latest}, the index has {newest}")
        truth.root = config.checkpoints
        record = config.restore.latest
        if config.restore.exact and record is not None:
            directories = self.world.storage.of(truth.root)
            for stage in record.stages:
                batch, at = stage.tasks[0].batch, directories[stage.uid].batch
                if (-1 if batch is None else batch) != at:
                    self.fail(
                        "V1", f"epoch {config.epoch} is told that {stage.uid} is at {batch}; it is at {at}"
                    )
        self._made_way(truth, config, made_from(pod))
        truth.started.append(config.epoch)
        truth.ran.setdefault(config.epoch, set()).add(pod["metadata"]["uid"])

    def _made_way(self, truth: Truth, config: DriverConfig, new: str) -> None:
        """V13: a driver that ended in order, for one with another specification, has left a savepoint."""
        truth.tried[new] += 1
        record = config.restore.latest
        if truth.last is not None and record is not None and record.scenario is not None:
            epoch, before = truth.last
            in_order = record.epoch == epoch and config.restore.exact and record.request_id is not None
            copies = self.world.plan.shape.upgrade == "Savepoint"
            if in_order and before != new and record.savepoint is None and copies:
                self.fail("V13", f"epoch {epoch} made way for another specification without a savepoint")
        truth.last = (config.epoch, new)

    def query_started(self, driver: Driver, query: Query) -> None:
        self.truth(driver.config.job.uid).queries_began = True

    def command(
        self, controller: str, driver: Driver, command: TerminationRequest | SavepointRequest | Completed
    ) -> None:
        if isinstance(command, (TerminationRequest, SavepointRequest)):
            truth = self.truth(driver.config.job.uid)
            told = (controller, driver.config.epoch, command.request_id)
            self.told[told] += 1
            if self.world.plan.calm and self.told[told] > 1:
                self.fail("V8", f"{controller} sends {command.request_id} again, and it was taken")
            if command.request_id not in truth.asked:
                self.fail("V8", f"{controller} sends {command.request_id}, which no status has recorded")

    def deleted(self, driver: Driver, savepoint: str) -> None:
        """Only what the index has no more, and never what somebody who ended the job was promised."""
        truth, record = self.truth(driver.config.job.uid), self.world.storage.savepoints.get(savepoint)
        if any(r["savepoint"] == savepoint for r in truth.index.values()):
            self.fail("V5", f"{savepoint} is deleted, and the index has it")
        if record is not None and record.scenario is not None:
            self.fail("V5", f"{savepoint} of a {record.scenario.value} is deleted")
        newest = max((r.checkpoint for r in self.world.storage.savepoints.values()), default=0)
        if record is not None and record.checkpoint == newest:
            self.fail("V5", f"{savepoint} is deleted, and is the newest")

    def confirmed(self, driver: Driver, number: int) -> None:
        truth = self.truth(driver.config.job.uid)
        if number not in truth.index and not truth.index_lost:
            self.fail("V2", f"{driver.me} is told that the index has checkpoint {number}")

    # --- the end ----------------------------------------------------------------------------------------------

    def missing(self, name: str) -> str | None:
        """V11: what keeps the job from being what its spec asks for, None if it is."""
        job = next(
            (j for j in self.world.server.of_kind("streamjobs") if j["metadata"]["name"] == name), None
        )
        if job is None:
            left = [k for k in self.world.server.objects if k[0] not in ("streamjobs", "leases")]
            return f"left behind: {left}" if left else None
        if "deletionTimestamp" in job["metadata"]:
            return "it is still being deleted"
        status, truth = job.get("status") or {}, self.truth(job["metadata"]["uid"])
        if status.get("observedGeneration") != job["metadata"]["generation"]:
            return "the newest spec has not been looked at"
        phase, wanted = status.get("phase"), job["spec"].get("state", "Running")
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        stalled = conditions["Stalled"]
        drivers = [d for d in self.world.drivers() if d.config.job.uid == job["metadata"]["uid"]]
        running = [self._pod_of(d) for d in drivers]
        if stalled["reason"] == "RolledBack" and phase == wanted == "Running":
            if any(p is not None and made_from(p) == made_from(job) for p in running):
                return "it is said to be rolled back, and runs with what the spec asks for"
            if not (broken(job) or truth.tried[made_from(job)] >= 2 or truth.secret_lost):
                return "a specification that has never failed twice was rolled back"
            return None if len(drivers) == 1 and drivers[0].queries else "no driver runs"
        upgrade = status.get("upgrade") or {}
        nothing_behind = upgrade.get("step") not in ("Stopping", "Starting", "RolledBack")
        if broken(job) and wanted != "Cancelled" and (nothing_behind or broken_text(upgrade.get("previous"))):
            return None  # there is nothing to go back to
        if phase == wanted == "Running" and any(p and made_from(p) != made_from(job) for p in running):
            pending = self.world.plan.shape.upgrade == "NextEpoch" and upgrade.get("step") == "Pending"
            return None if pending else "a driver runs that is made from something else"
        if self._excuse(stalled["reason"] if stalled["status"] == "True" else "", phase, job, truth, wanted):
            return None
        asked = status.get("savepointRequest") or {"failure": ""}
        if "checkpoint" not in asked and "failure" not in asked:
            return f"nothing has come of {asked['requestId']}"
        ends = {
            "Running": "Finished",
            "Stopped": "Finished Drained",
            "Drained": "Finished",
            "Cancelled": "Finished Drained",
        }
        if phase != wanted and phase not in ends[wanted].split():
            return f"phase {phase}, {wanted} is wanted: {stalled['message']}"
        if conditions["Ready"]["status"] != "True":
            return f"phase {phase} is not ready: {conditions['Ready']['message']}"
        if phase == "Running":
            for (root, task), sink in self.world.storage.sinks.items():
                if root == truth.root and any(number in truth.index for number, _ in sink.pending.values()):
                    return f"{task}'s sink has not committed what a completed checkpoint has"
            return None if len(drivers) == 1 and drivers[0].queries else "no driver runs"
        pods = [p["metadata"]["name"] for p in self._pods(job["metadata"]["uid"])]
        return f"phase {phase}, and there are still {pods}" if pods else None

    def _excuse(self, reason: str, phase: str, job: Obj, truth: Truth, wanted: str) -> bool:
        """It stands still with a word why: what a person has broken, a person mends."""
        if phase == "Failed":
            return bool(job["spec"]["restart"]["policy"] == "Never")
        if reason == "Escalated":
            ended = phase in ("Stopped", "Cancelled") and not self._pods(job["metadata"]["uid"])
            return ended and self._escalated(job, truth)
        if reason == "AlreadyDrained":
            drained = [r for r in truth.index.values() if r["scenario"] == Scenario.DRAIN.value]
            return wanted == "Running" and bool(drained)
        if reason in ("DriverUnreachable", "CreateContainerConfigError"):
            return truth.secret_lost
        return reason == "IndexMissing" and truth.index_lost

    def _pod_of(self, driver: Driver) -> Obj | None:
        found = [c.key for c in self.world.kubelet.containers.values() if c.driver is driver]
        return self.world.server.objects.get(found[0]) if found else None

    # --- helpers ----------------------------------------------------------------------------------------------

    def _pods(self, uid: str) -> list[Obj]:
        return [
            p
            for p in self.world.server.of_kind("pods")
            if p["metadata"].get("labels", {}).get("streamjob.dev/uid") == uid
        ]

    def _stored(self, uid: str) -> Obj | None:
        return next((j for j in self.world.server.of_kind("streamjobs") if j["metadata"]["uid"] == uid), None)


def made_from(obj: Obj) -> str:
    """What a pod is made from, or a StreamJob's are to be: as far as plans change it."""
    spec = obj["spec"]
    if "containers" not in spec:
        return f"{spec['image']} {_of_users(spec.get('sparkConf') or {})}"
    env = {e["name"]: e.get("value") for e in spec["containers"][0]["env"]}
    return f"{spec['containers'][0]['image']} {_of_users(json.loads(env['STREAMJOB_CONFIG'])['spark_conf'])}"


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
