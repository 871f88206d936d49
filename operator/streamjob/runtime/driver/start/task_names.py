"""Which task a query that starts is, and which queries are about to start."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from ....protocol.formats.records import LikenessRecord
from ....protocol.graph import TaskName
from ....protocol.messages.driver_status import Problem
from ...query.edges import Ends
from ...query.likeness import Likeness
from ...query.task import Stage
from ...spark.engine import Engine
from ...spark.stream_writer import Written
from ...startup import naming
from ...startup.missing_stages import MissingStages
from ...startup.recognition import UnnamedQueries, recognize, refuse_taken
from ...startup.restore_point import RestorePoints
from ...startup.sharding.declared_shards import DeclaredStages
from . import nested

log = logging.getLogger("streamjob")


class TaskNames:
    """Gives each query its task. Thread-safe.

    :param stages: the last run of each task.
    :param warn: adds warnings for the user to the status.
    """

    def __init__(
        self,
        stages: Mapping[str, Stage],
        declared: DeclaredStages,
        points: RestorePoints,
        warn: Callable[..., None],
    ) -> None:
        self._stages = stages
        self._declared = declared
        self._points = points
        self._warn = warn
        self._unnamed = UnnamedQueries(points)
        self._lock = threading.RLock()
        self._starting: set[str] = set()  # tasks that are about to start
        self._doubtful: set[str] = set()  # uids, see `Recognized`

    @property
    def busy(self) -> bool:
        return bool(self._starting)

    @contextmanager
    def named(
        self, said: Written, found: Ends, engine: Engine, likeness: Likeness | None
    ) -> Iterator[TaskName]:
        """The query's task, which no other query can start meanwhile.

        :raises StreamJobError: as `naming.task_name` and `recognition.recognize`.
        """
        location = engine.files.qualify(said.location) if said.location else None
        with self._lock:
            name = naming.task_name(
                said,
                location,
                found,
                dict(self._stages),
                self._declared,
                self._points.locations(engine.files),
                engine,
                likeness,
                lambda: self._earlier(engine, said, found, likeness),
            )
            if name.task in self._starting:
                raise naming.DuplicateStage(
                    f"Cannot start query with name {name.name} as a query with that name is already starting",
                    remedy="Give each query a queryName of its own",
                )
            self._starting.add(name.task)
        try:
            yield name
        finally:
            with self._lock:
                self._starting.discard(name.task)

    def is_doubtful(self, name: TaskName) -> bool:
        """Whether the query continues the stage only if the script starts no other one for that."""
        return name.uid in self._doubtful

    def recognized_by(
        self, said: Written, found: Ends, engine: Engine, likeness: Likeness | None, name: TaskName
    ) -> LikenessRecord | None:
        """What the next epoch recognizes the query by. None if it has a name or a checkpoint location."""
        if likeness is None or said.location is not None:
            return None
        noted = likeness.noted(found)
        with self._lock:
            known = self._unnamed.known(engine.files).get(name.uid)
            proved = known is not None and known.likeness == replace(noted, certain=True)
            again = name.task in self._stages
            return replace(noted, certain=noted.certain or again or proved)

    def note(self, engine: Engine, uid: str, likeness: LikenessRecord | None) -> None:
        """Note what the next epoch recognizes the query by, before it begins.

        :raises StorageError: it cannot be written.
        """
        if likeness is not None:
            with self._lock:
                self._unnamed.note(engine.files, uid, likeness)

    def renamed(self, said: Written, engine: Engine, uid: str, missing: MissingStages) -> list[str]:
        """Missing stages of which the stage `uid`, which is new, may be one under another name.

        An unnamed query is none of the unnamed queries that a batch started or that have read their input:
        `recognize` has compared it with them.
        """
        deferred = [s.uid for s in list(self._stages.values()) if s.is_deferred]
        gone = [m for m in (*missing.uids(engine.files), *deferred) if m != uid]
        if said.name is not None or said.location is not None:
            return gone
        live = () if nested.in_batch() else missing.left(engine.files).live
        with self._lock:
            known = self._unnamed.known(engine.files)
        return [m for m in gone if m not in known or m in live]

    def _earlier(
        self, engine: Engine, said: Written, found: Ends, likeness: Likeness | None
    ) -> tuple[str | None, Collection[str]]:
        """As `naming.task_name` asks for it."""
        known = self._unnamed.known(engine.files)
        if likeness is None:
            return None, known
        mine = likeness.noted(found)
        started = {s.uid: s.noted_likeness for s in self._stages.values()}
        deferred = [s.uid for s in self._stages.values() if s.is_deferred]
        refuse_taken(mine, known, started, deferred)
        left = {uid: k for uid, k in known.items() if uid not in started}
        recognized = recognize(mine, left, inside_batch=nested.in_batch())
        if recognized.uid is not None and recognized.doubtful:
            self._doubtful.add(recognized.uid)
        if recognized.warning is not None:
            self._tell(recognized.warning)
        return recognized.uid, known

    def _tell(self, warning: Problem) -> None:
        log.warning("%s", warning.message)
        self._warn(warning)
