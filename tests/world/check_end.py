"""What is missing when all has come to rest."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.times import moment

from .apiserver import Obj
from .ground_truth import Ledger, Truth, broken, broken_text, made_from
from .user import BUSY

if TYPE_CHECKING:
    from .driver import Driver


DUE = timedelta(minutes=2)  # that a round may begin late
TIMEOUT = timedelta(minutes=8)  # of a round, see `user`
UI = {"service": "services", "ingress": "ingresses", "httpRoute": "httproutes"}


def _ui_asked_for(job: Obj) -> set[str]:
    ui = job["spec"].get("ui")
    return set() if ui is None else {"services", *(UI[k] for k, v in ui.items() if v is not None)}


class End(Ledger):
    """V11: the desired state is reached, or a person has to do something and is told so."""

    def missing(self, name: str) -> str | None:
        """V11: what keeps the job from being what its spec asks for, None if it is."""
        job = next(
            (j for j in self.world.server.of_kind("streamjobs") if j["metadata"]["name"] == name), None
        )
        if job is None:
            left = [k for k in self.world.server.objects if k[2].startswith(f"{name}-")]
            if not self.world.server.of_kind("streamjobs"):
                left += [k for k in self.world.server.objects if k[2].startswith("streamjob-runtime-")]
            return f"left behind: {left}" if left else None
        if "deletionTimestamp" in job["metadata"]:
            return "it is still being deleted"
        status, truth = job.get("status") or {}, self.truth(job["metadata"]["uid"])
        if status.get("observedGeneration") != job["metadata"]["generation"]:
            return "the newest spec has not been looked at"
        phase, wanted = status.get("phase"), job["spec"].get("state", "Running")
        if wanted == "Running" and job["spec"].get("suspend"):
            wanted = "Suspended"
        conditions = {c["type"]: c for c in status.get("conditions") or ()}
        if (there := self._ui_of(job)) != (asked_for := _ui_asked_for(job)):
            return f"for Spark's UI there are {there}, and the spec asks for {asked_for}"
        told = conditions.get("UIAvailable", {})
        newest = not there or told.get("observedGeneration") == job["metadata"]["generation"]
        if (told.get("status") == "True") != bool(there) or not newest:
            return f"for Spark's UI there are {there}, and nobody says so"
        if told and not asked_for:
            return f"nobody asks for Spark's UI, and it is still said to be {told.get('reason')}"
        stalled, upgrade = conditions["Stalled"], status.get("upgrade") or {}
        # Where a person has to help a job that is to go on, its prepared driver may still be needed.
        waits = stalled["status"] == "True" and phase in ("Starting", "Stopping", "Draining", "Restarting")
        if phase != "Running" and status.get("standby") and not waits:
            return f"phase {phase}, and its standby has not been deleted"
        alive = [d for d in self.world.drivers() if d.config.job.uid == job["metadata"]["uid"]]
        drivers = [d for d in alive if d.may_write]
        standbys = [d for d in alive if not d.may_write]
        running = [self._pod_of(d) for d in drivers]
        clock = self.world.now() + min(0 * DUE, *(timedelta(seconds=s) for s in self.world.plan.skews))
        rounds = status.get("rounds") or {}
        due, began = rounds.get("next"), rounds.get("began")
        if (phase, wanted) == ("Waiting", "Running") and (due is None or moment(due) + DUE < clock):
            return f"the round of {due} has not begun"
        if began and phase == "Running" and moment(began) + TIMEOUT + DUE < clock:
            return f"the round of {began} goes on"
        if stalled["reason"] == "RolledBack" and phase == "Waiting":
            return None if truth.tried[made_from(job)] or broken(job) else "it was rolled back untried"
        if stalled["reason"] == "RolledBack" and phase == wanted == "Running":
            if any(p is not None and made_from(p) == made_from(job) for p in running):
                return "it is said to be rolled back, and runs with what the spec asks for"
            enough = 1 if job["spec"]["restart"]["policy"] == "Never" else 2
            if not (broken(job) or truth.tried[made_from(job)] >= enough or truth.secret_lost or truth.late):
                return "a specification that has not failed often enough was rolled back"
            return None if len(drivers) == 1 and drivers[0].queries else "no driver runs"
        nothing_behind = upgrade.get("step") not in ("Preparing", "Stopping", "Starting", "RolledBack")
        if broken(job) and wanted != "Cancelled" and (nothing_behind or broken_text(upgrade.get("previous"))):
            return None  # there is nothing to go back to
        if phase == wanted == "Running" and any(p and made_from(p) != made_from(job) for p in running):
            shape = self.world.plan.shape
            pending = shape.upgrade == "NextEpoch" or shape.rounds is not None
            pending = pending and upgrade.get("step") == "Pending"
            return None if pending else "a driver runs that is made from something else"
        if self._excuse(stalled["reason"] if stalled["status"] == "True" else "", phase, job, truth, wanted):
            return None
        if executors_left := self._left_executors(job["metadata"]["uid"]):
            return f"executors of a dead driver are left: {executors_left}"
        over = [p["metadata"]["name"] for p in self._over(job["metadata"]["uid"])]
        if len(over) > self.world.plan.shape.history:
            return f"there are still {over}"
        asked = status.get("savepointRequest") or {"failure": ""}
        if "checkpoint" not in asked and "failure" not in asked:
            return f"nothing has come of {asked['requestId']}"
        if job["spec"]["savepoint"].get("nonce") != status.get("savepointNonce"):
            return "the newest savepoint.nonce has not been answered"
        ends = {
            "Running": "Finished Waiting",
            "Suspended": "Finished Drained Failed",
            "Stopped": "Finished Drained",
            "Drained": "Finished",
            "Cancelled": "Finished Drained",
        }
        if (wanted == "Suspended") != (conditions.get("Suspended", {}).get("status") == "True"):
            return f"phase {phase}, and the condition Suspended is {conditions.get('Suspended')}"
        if phase != wanted and phase not in ends[wanted].split():
            return f"phase {phase}, {wanted} is wanted: {stalled['message']}"
        dead = any(d.status.degraded for d in drivers)
        if conditions["Ready"]["status"] != ("False" if phase == "Running" and dead else "True"):
            return f"phase {phase}, and Ready is {conditions['Ready']}"
        if phase == "Running":
            executors = {d.status.executors.least if d.status.executors else 0 for d in drivers}
            if (why := self._of_standby(job, standbys, drivers, truth)) is not None:
                return why
            if executors - {self._executors_wanted(job)}:
                return f"its driver was asked for {executors} executors"
            if (scaling := status.get("autoscale")) and scaling["desired"] != self._executors_needed(job):
                return f"{self.world.rows_per_second:.0f} rows/s, and it scales so: {scaling}"
            if dead != ("Degraded" in conditions):
                return f"a query of its driver is {'dead' if dead else 'alive'}, and nobody says so"
            for (root, task), sink in self.world.storage.sinks.items():
                if root == truth.root and any(number in truth.index for number, _ in sink.pending.values()):
                    return f"{task}'s sink has not committed what a completed checkpoint has"
            return None if len(drivers) == 1 and drivers[0].queries else "no driver runs"
        pods = self._not_over(job)
        return f"phase {phase}, and there are still {pods}" if pods else None

    @staticmethod
    def _executors_wanted(job: Obj) -> int:
        executor = job["spec"]["executor"]
        if executor.get("autoscale") is None:
            return int(executor["instances"])
        return int(job["status"]["autoscale"]["desired"])

    def _executors_needed(self, job: Obj) -> int:
        """A busy job needs more than it may have, a quiet one less than one."""
        scaling = job["spec"]["executor"]["autoscale"]
        return int(scaling["max" if self.world.rows_per_second == BUSY else "min"])

    def _of_standby(
        self, job: Obj, standbys: list[Driver], drivers: list[Driver], truth: Truth
    ) -> str | None:
        """A job that runs has the standby that it asks for, at its gate; after a rollback of the same."""
        if not job["spec"]["driver"].get("standby"):
            return f"{standbys[0].me} waits, and no standby is asked for" if standbys else None
        said = ((job["status"].get("standby") or {}).get("error") or {}).get("reason")
        if truth.secret_lost and not standbys and said == "CreateContainerConfigError":
            return None  # it was created, and the Secret was deleted before its container: a person is told
        if [d.config.epoch in truth.prepared for d in standbys] != [True]:
            return f"there are {len(standbys)} standbys, and one is asked for"
        made = [made_from(p) for d in (*standbys, *drivers) if (p := self._pod_of(d)) is not None]
        return None if len(set(made)) == 1 else "the standby is made from something else"

    def _excuse(self, reason: str, phase: str | None, job: Obj, truth: Truth, wanted: str) -> bool:
        """It stands still with a word why: what a person has broken, a person mends."""
        if phase == "Failed":
            return bool(job["spec"]["restart"]["policy"] == "Never") or reason == "RoundNotEnded"
        if reason == "Escalated":
            ended = phase in ("Stopped", "Cancelled") and not self._not_over(job)
            return ended and self._escalated(job, truth)
        if reason == "AlreadyDrained":
            drained = [r for r in truth.index.values() if r["scenario"] == Scenario.DRAIN.value]
            return wanted == "Running" and bool(drained)
        if reason in ("DriverUnreachable", "CreateContainerConfigError"):
            return truth.secret_lost
        return reason == "IndexMissing" and truth.index_lost

    def _not_over(self, job: Obj) -> list[str]:
        over = self._over(job["metadata"]["uid"])
        return [p["metadata"]["name"] for p in self._pods(job["metadata"]["uid"]) if p not in over]

    def _ui_of(self, job: Obj) -> set[str]:
        owned = self.world.server.dependents(job["metadata"]["uid"])
        return {plural for (plural, _, _), _ in owned} & set(UI.values())

    def _pod_of(self, driver: Driver) -> Obj | None:
        found = [c.key for c in self.world.kubelet.containers.values() if c.driver is driver]
        return self.world.server.objects.get(found[0]) if found else None
