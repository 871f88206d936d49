"""What a driver is started with, and what it is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamjob.controller.objects import names
from streamjob.protocol.messages.commands import (
    Completed,
    ExecutorsRequest,
    SavepointRequest,
    TerminationRequest,
)
from streamjob.protocol.messages.driver_config import DriverConfig, Gate

from .apiserver import Obj
from .ground_truth import Ledger, Truth, made_from
from .plan import Mishap

if TYPE_CHECKING:
    from .driver import Driver
    from .query import Query


class Drivers(Ledger):
    """V1, V2, V5, V8, V12 and V13 of what reaches a driver."""

    def container_starts(self, config: DriverConfig, pod: Obj) -> None:
        truth, config = self.truth(config.job.uid), self.world.storage.with_record(config)
        if config.prepared:
            truth.tried[made_from(pod)] += 1
            return
        alive = [d.me for d in self.world.drivers() if d.config.job.uid == config.job.uid and d.may_write]
        if alive:
            self.fail("V12", f"the driver of epoch {config.epoch} starts beside {alive}")
        truth.tried[made_from(pod)] += 1
        self._begins(truth, config, pod)

    def deleted_by_force(self, pod: Obj, grace: int | None) -> None:
        """The controller cannot know whether its container has run: it counts as tried."""
        uid = pod["metadata"]["labels"].get(names.LABEL_UID, "")
        if grace == 0 and pod["metadata"]["uid"] not in self.world.kubelet.containers:
            self.truth(uid).tried[made_from(pod)] += 1

    def gate_opens(self, driver: Driver, pod: Obj) -> None:
        """As if its container started now, but that the driver before it may still be exiting."""
        config = driver.config
        others = [d for d in self.world.drivers() if d.config.job.uid == config.job.uid and d is not driver]
        if writing := [d.me for d in others if d.may_write and not d.closed]:
            self.fail("V12", f"the gate of epoch {config.epoch} opens beside {writing}")
        job, truth = self._stored(config.job.uid), self.truth(config.job.uid)
        status = (job or {}).get("status") or {}
        if job is not None and status.get("epoch", 0) < config.epoch:
            self.fail("V8", f"the gate of epoch {config.epoch} opens before the status says its epoch")
        failed = status.get("restarts") or {}
        for_good = "nextAt" not in failed and failed.get("epoch") in truth.started[-1:]
        if job is not None and for_good and failed["generation"] == job["metadata"]["generation"]:
            self.fail("V11", f"the gate of epoch {config.epoch} opens, and the job has failed for good")
        if config.restore.recorded is not None:
            self.fail("V1", f"the gate of epoch {config.epoch} names a record that is only found at a start")
        self._begins(truth, config, pod)

    def _begins(self, truth: Truth, config: DriverConfig, pod: Obj) -> None:
        """From here on it may write."""
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
        # Of a lost index it is known what was in it, and the driver is told the savepoint that has it.
        known = truth.numbers if truth.index_lost and not truth.index else truth.index
        newest = max(known, default=None)
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
                batch, at = stage.tasks[0].batch, directories[stage.uid].committed
                if (-1 if batch is None else batch) != at:
                    self.fail(
                        "V1", f"epoch {config.epoch} is told that {stage.uid} is at {batch}; it is at {at}"
                    )
        self._made_way(truth, config, made_from(pod))
        truth.started.append(config.epoch)
        truth.ran.setdefault(config.epoch, set()).add(pod["metadata"]["uid"])

    def _made_way(self, truth: Truth, config: DriverConfig, new: str) -> None:
        """V13: a driver that ended in order, for one with another specification, has left a savepoint."""
        if config.round and self._stored(config.job.uid) is not None:
            self._of_a_round(truth, config)
        elif truth.ended_well == new and self._undisturbed and self.world.server.rights is self.world.rights:
            self.fail("V11", f"epoch {config.epoch} starts, and the script has come to its own end")
        record = config.restore.latest
        if truth.last is not None and record is not None and record.scenario is not None:
            epoch, before = truth.last
            in_order = record.epoch == epoch and config.restore.exact and record.request_id is not None
            copies = self.world.plan.shape.upgrade in ("Savepoint", "Handover")
            overdue = (record.request_id or "").startswith("round-")
            if in_order and before != new and record.savepoint is None and copies and not overdue:
                self.fail("V13", f"epoch {epoch} made way for another specification without a savepoint")
        truth.last = (config.epoch, new)

    def _of_a_round(self, truth: Truth, config: DriverConfig) -> None:
        """V14: a driver that only runs belongs to a round, and the round has not ended by itself before."""
        record = config.restore.latest
        ended = record is not None and record.request_id is None and record.scenario is not None
        if config.termination is not None or not ended or record is None:
            return
        if record.epoch >= truth.round_since and config.restore.exact and truth.last is not None:
            self.fail(
                "V14", f"epoch {config.epoch} runs a round again that has ended with {record.checkpoint}"
            )

    @property
    def _undisturbed(self) -> bool:
        """Nothing keeps the controller from what a driver's pod says in the end."""
        plan = self.world.plan
        lost = {Mishap.NODE_LOST, Mishap.EVICTED} & {m for _, _, m in plan.mishaps}
        taken = {"kill pod", "delete pod", "delete index", "delete namespace"} & {s.do for s in plan.steps}
        return not (plan.faults or plan.first or plan.weather.until or plan.deaf or lost or taken)

    def query_started(self, driver: Driver, query: Query) -> None:
        self.truth(driver.config.job.uid).began[query.task] = driver.config.epoch

    def fires(self, driver: Driver) -> None:
        """The max watermark of a query. What a drain has begun before it was cancelled, with all that reads
        from it, is ended by whichever driver comes next.
        """
        drained = any(d.drained for d in self.world.storage.of(driver.config.checkpoints).values())
        if driver.config.round and not driver.requests.drains and not drained:
            self.fail("V14", f"{driver.me} flushes, and its round is not the last one")

    def command(
        self,
        controller: str,
        driver: Driver,
        command: TerminationRequest | SavepointRequest | ExecutorsRequest | Completed | Gate,
    ) -> None:
        if isinstance(command, Gate) and self.world.plan.calm:
            self.told[controller, command.epoch, command.token] += 1
            if self.told[controller, command.epoch, command.token] > 1:
                self.fail("V8", f"{controller} sends {command.token} again, and it was taken")
        if isinstance(command, ExecutorsRequest) and self.world.plan.calm:
            has = driver.status.executors
            if has is None or (has.least, has.most) == (command.least, command.most):
                self.fail("V8", f"{controller} asks for {command.least} executors, and {driver.me} has {has}")
        if isinstance(command, (TerminationRequest, SavepointRequest)):
            truth = self.truth(driver.config.job.uid)
            told = (controller, driver.config.epoch, command.request_id)
            self.told[told] += 1
            if self.world.plan.calm and self.told[told] > 1:
                self.fail("V8", f"{controller} sends {command.request_id} again, and it was taken")
            if command.request_id not in truth.asked:
                self.fail("V8", f"{controller} sends {command.request_id}, which no status has recorded")
            if command.request_id.startswith("upgrade-"):
                self._has_a_successor(driver, truth)

    def _has_a_successor(self, driver: Driver, truth: Truth) -> None:
        """V13: with hand-overs, a driver makes way for one that has come to its gate, or after a rollback."""
        job = self._stored(driver.config.job.uid)
        status = (job or {}).get("status") or {}
        upgrade, standby = status.get("upgrade") or {}, status.get("standby") or {}
        if self.world.plan.shape.upgrade != "Handover" or upgrade.get("step") != "Stopping":
            return
        if not {upgrade.get("epoch"), standby.get("epoch")} & truth.prepared:
            self.fail("V13", f"{driver.me} is asked to make way, and no driver waits at its gate")

    def deleted(self, driver: Driver, savepoint: str) -> None:
        """Only what the index has no more, and never what somebody who ended the job was promised."""
        truth, record = self.truth(driver.config.job.uid), self.world.storage.savepoints.get(savepoint)
        if any(r["savepoint"] == savepoint for r in truth.index.values()):
            self.fail("V5", f"{savepoint} is deleted, and the index has it")
        if record is not None and record.scenario is not None:
            self.fail("V5", f"{savepoint} of a {record.scenario.value} is deleted")
        folder = savepoint.rpartition("/")[0]
        there = self.world.storage.savepoints.items()
        newest = max((r.checkpoint for uri, r in there if uri.startswith(f"{folder}/")), default=0)
        if record is not None and record.checkpoint == newest:
            self.fail("V5", f"{savepoint} is deleted, and is the newest")

    def confirmed(self, driver: Driver, number: int) -> None:
        truth = self.truth(driver.config.job.uid)
        if number not in truth.index and not truth.index_lost:
            self.fail("V2", f"{driver.me} is told that the index has checkpoint {number}")
