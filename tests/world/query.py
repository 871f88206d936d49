"""A query of a driver: it commits a batch every BATCH seconds, for as long as it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamjob.protocol.records import OperatorRecord

from .storage import Directory, Sink

BATCH = 2.0  # seconds


@dataclass
class Name:
    index: int = 0


@dataclass
class Figures:
    operators: tuple[OperatorRecord, ...]
    batch: int | None = None
    watermark: str | None = None
    rows_per_second: float | None = None
    state_rows: int | None = None


@dataclass(eq=False)
class Query:
    """A run of a stage of one task. `since`: when its query was started, None if it does not run."""

    uid: str
    directory: Directory
    sink: Sink | None
    figures: Figures
    since: float | None = None
    finished: bool = False
    name: Name = field(default_factory=Name)

    @property
    def task(self) -> str:
        return self.uid
