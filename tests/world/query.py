"""A query of a driver: it commits a batch every BATCH seconds, for as long as it runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from streamjob.protocol.graph import TaskName
from streamjob.runtime.query.figures import Figures

from .storage import Directory, Sink

BATCH = 2.0  # seconds


@dataclass(eq=False)
class Query:
    """A run of a stage of one task, in the place of `query.run.Run`.

    `since`: when its query was started, None if it does not run.
    """

    uid: str
    directory: Directory
    sink: Sink | None
    figures: Figures
    since: float | None = None
    finished: bool = False
    failure: Exception | None = None
    stopped_by_request: bool = False
    takes_over: Query | None = None
    brokers: tuple[str, ...] = ()
    over: threading.Event = field(default_factory=threading.Event)
    name: TaskName = field(init=False)
    task: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = TaskName(self.uid, self.uid)
        self.task = self.name.task

    def continues(self, other: Query) -> bool:
        return self is other or (self.takes_over is not None and self.takes_over.continues(other))

    def cut_short(self) -> None:
        """It catches up in one step."""
