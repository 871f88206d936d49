"""What the index says, held against storage and against what it said before."""

from __future__ import annotations

import json

from streamjob.protocol.formats import codec
from streamjob.protocol.formats.index import MAX_RECORDS
from streamjob.protocol.formats.records import CheckpointRecord

from .apiserver import Change, Obj
from .ground_truth import Ledger, Truth


class Index(Ledger):
    """V3, V5 to V7 and V12 of the checkpoints."""

    def _index(self, change: Change, truth: Truth) -> None:
        if change.new is None:
            truth.index = {}
            truth.index_lost = truth.index_lost or (change.by == "user" and bool(truth.numbers))
            return
        document = json.loads(change.new["data"]["index.json"])
        before, truth.index = truth.index, {r["checkpoint"]: r for r in document["checkpoints"]}
        # One that a later epoch has done again, to commit it, is there under another number.
        again = {r["request_id"] for n, r in truth.index.items() if n not in before and r["scenario"]}
        left = {n for n in set(before) - set(truth.index) if before[n]["request_id"] not in again - {None}}
        plain = [n for n, r in before.items() if r["savepoint"] is None]
        if left and not (len(before) == MAX_RECORDS and left == {min(plain)}):
            self.fail("V7", f"checkpoints {sorted(left)} left the index")
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
            if change.old is None and number not in truth.numbers and self._is_whole(record):
                truth.numbers[number] = record
                continue  # a savepoint whose driver died before the index had it (`recover_records.known`)
            was = truth.numbers.get(number)
            if change.old is None and was and _committed(was) == _committed(record):
                continue  # so is this: that its sinks have committed was lost, or is known only now
            if before.get(number) != record:
                self._completed(record, truth, before.get(number))

    def _is_whole(self, record: Obj) -> bool:
        manifest = self.world.storage.savepoints.get(record["savepoint"] or "")
        return manifest is not None and codec.to_plain(manifest) == record

    def _made_anew(self, truth: Truth) -> None:
        """After the user has deleted it: it goes as far as it did, or further, and has every savepoint that
        is there.
        """
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
            elif manifest.checkpoint != number and not _follows(manifest, record):
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


def _committed(record: Obj) -> Obj:
    """The same, with nothing left to commit."""
    stages = [{**s, "tasks": [{**t, "transactions": []} for t in s["tasks"]]} for s in record["stages"]]
    return {**record, "stages": stages}


def _follows(manifest: CheckpointRecord, record: Obj) -> bool:
    """Whether the savepoint is already that of the next final checkpoint of the same request: a query has
    started while this one was being taken. The index has this one until it gets that one.
    """
    same = manifest.request_id is not None and manifest.request_id == record["request_id"]
    return same and manifest.scenario is not None and manifest.checkpoint > record["checkpoint"]
