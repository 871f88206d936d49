"""What outlives every driver: the queries' checkpoint directories, savepoints, and what transactional sinks
hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.messages.driver_config import DriverConfig


@dataclass
class Directory:
    """One task's.

    `batch`: the last one committed, -1 if none. `drained`: the max watermark is in the offset log, `flushed`:
    and its batch is committed.
    """

    batch: int = -1
    drained: bool = False
    flushed: bool = False

    @property
    def committed(self) -> int:
        """`batch`, but the one of the max watermark counts when it is committed."""
        return self.batch - (self.drained and not self.flushed)


@dataclass
class Sink:
    """A transactional one: transactions by name, each with the batch that it reaches to."""

    pending: dict[str, tuple[int, int]] = field(default_factory=dict)  # name: checkpoint, batch
    visible: int = -1

    def pre_commit(self, name: str, number: int, batch: int) -> None:
        self.pending[name] = (number, batch)

    def commit(self, until: int) -> None:
        for name in [n for n, (number, _) in self.pending.items() if number <= until]:
            self.visible = max(self.visible, self.pending.pop(name)[1])

    def recover(self, names: tuple[str, ...]) -> None:
        """Those of the checkpoint are committed; of the others nothing becomes visible."""
        for name in names:
            if name in self.pending:
                self.visible = max(self.visible, self.pending.pop(name)[1])
        self.pending.clear()


@dataclass
class Storage:
    """Directories and sinks by job folder and task; savepoints by URI: those whose manifest is written.

    `full`: where savepoints go there is no room.
    """

    directories: dict[tuple[str, str], Directory] = field(default_factory=dict)
    sinks: dict[tuple[str, str], Sink] = field(default_factory=dict)
    savepoints: dict[str, CheckpointRecord] = field(default_factory=dict)
    full: bool = False

    def directory(self, root: str, task: str) -> Directory:
        return self.directories.setdefault((root, task), Directory())

    def sink(self, root: str, task: str) -> Sink:
        return self.sinks.setdefault((root, task), Sink())

    def of(self, root: str) -> dict[str, Directory]:
        return {task: d for (where, task), d in self.directories.items() if where == root}

    def with_record(self, config: DriverConfig) -> DriverConfig:
        """As runtime/startup/index_recovery.py does it: of a lost index the savepoint's manifest has the
        newest record.
        """
        record = self.savepoints.get(config.restore.recorded or "")
        if record is None:
            return config
        exact = config.restore.exact and record.scenario is not None
        return replace(config, restore=replace(config.restore, latest=record, exact=exact, recorded=None))
