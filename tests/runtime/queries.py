"""A checkpoint directory as a query leaves it, written by hand: savepoints do not look into state files."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any

from streamjob.protocol.formats.manifest import Manifest
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario
from streamjob.runtime.savepoints.restore import restore
from streamjob.runtime.savepoints.write import write_savepoint
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from tests.runtime.disks import Storage

JOB = JobRef("shop", "orders", "uid-1")
STAGE = "per minute"
OPERATORS = (
    OperatorRecord("source-0", OperatorKind.SOURCE, "source-0", False),
    OperatorRecord("state-0", OperatorKind.STATE, "stateStoreSave", False),
    OperatorRecord("sink", OperatorKind.SINK, "sink", False),
)


class Query:
    """`files` is a HadoopFiles, or stands in for one. Savepoints go to HOME/savepoints/NAME."""

    def __init__(
        self, files: Any, home: Path, partitions: int = 2, *, storage: Storage | None = None
    ) -> None:
        self.files, self.home, self.partitions = files, home, partitions
        self.storage = storage or Storage.of_volume(home)
        self.folder = home / "checkpoint"
        self.root = home / "savepoints"
        self.directory = CheckpointDir(files, self.storage.uri(self.folder))
        self._next, self._saved = 0, 0
        self.write("metadata", json.dumps({"id": str(uuid.uuid4())}))
        self.write("state/0/_metadata/metadata", 'v1\n{"operatorInfo":{"operatorName":"stateStoreSave"}}')

    def write(self, path: str, content: str | bytes, age: float = 60) -> Path:
        """A file of the directory that is `age` seconds old."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        when = place.stat().st_mtime - age
        os.utime(place, (when, when))
        return place

    def batch(self, size: int = 1000) -> None:
        """One more, which changes every partition."""
        n = self._next
        self._next += 1
        position = json.dumps({"orders": {"0": n * 100}})
        self.write(f"offsets/{n}", f'v1\n{{"batchWatermarkMs":{n * 60_000}}}\n{position}')
        self.write(f"commits/{n}", 'v1\n{"nextBatchWatermarkMs":0}')
        for p in range(self.partitions):
            self.write(f"state/0/{p}/{n + 1}.delta", os.urandom(size))

    def save(
        self, name: str, request: str | None = None, job: JobRef = JOB, directory: CheckpointDir | None = None
    ) -> Manifest:
        """As a stop does.

        :param request: by default one for each name.
        """
        self._saved += 1
        directory = directory or self.directory
        stage = StageRecord(STAGE, (TaskRecord(0, directory.uri, self._next - 1),), OPERATORS)
        record = CheckpointRecord(
            self._saved,
            1,
            Scenario.STOP,
            request or name,
            self.uri(name),
            f"2026-01-01T00:00:{self._saved:02}Z",
            (stage,),
        )
        return write_savepoint(self.files, job, record, {(STAGE, 0): directory}, self.uri(name))

    def uri(self, name: str) -> str:
        return self.storage.uri(self.root / name)

    def at(self, name: str) -> str:
        """The URI of another place of the storage."""
        return self.storage.uri(self.home / name)

    def restored(self, savepoint: str, name: str) -> dict[str, bytes]:
        restore(self.files, savepoint, STAGE, 0, self.at(name))
        return contents(self.home / name)

    def shared(self) -> set[str]:
        return (
            {p.name for p in (self.root / "shared").iterdir()} if (self.root / "shared").exists() else set()
        )


def contents(folder: Path) -> dict[str, bytes]:
    """All files but those that are other in each restore."""
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {p: c for p, c in found.items() if p not in ("metadata", "streamjob-restore.json")}
