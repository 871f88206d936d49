"""A start that is only checked. What would be copied into its directory is read from a copy on the local
disk, without the state itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from ....protocol.restore.recovery import Start
from ...savepoints.shared_files import is_state
from ...spark.checkpoint_dir import CheckpointDir, describes_operator
from ...startup.begin_from import copy_foreign
from ...startup.query_start import QueryStart
from ...startup.restore_point import RestorePoint


@dataclass(eq=False)
class CheckedStart(QueryStart):
    """For the rules of `admission.CHECK`. Nothing is written for it but below `scratch`.

    :param scratch: the URI of a folder on the local disk that is not there yet.
    """

    scratch: str = ""

    @classmethod
    def of(cls, start: QueryStart, scratch: str) -> CheckedStart:
        given = {field.name: getattr(start, field.name) for field in fields(start)}
        return cls(**{**given, "warnings": [], "scratch": scratch})

    @cached_property
    def directory(self) -> CheckpointDir:
        place, sharded = self.place, self.sharded
        if place.query_id() is not None:
            return place
        if (copied := self._copied) is not None:
            copy_foreign(copied, self.name.index, self.scratch, _is_needed)
            return CheckpointDir(self.files, self.scratch)
        if self.plan.start is Start.REDISTRIBUTED and sharded is not None and sharded.like is not None:
            return sharded.like
        return place

    @property
    def origin(self) -> str:
        """The URI of what `scratch` is a copy of."""
        return self.restored.uri if self.restored is not None else self.place.uri

    @property
    def _copied(self) -> RestorePoint | None:
        """What a real start would copy into the directory, None if it copies nothing."""
        point, record, ended = self.point, self.plan.record, self.point.checkpoint
        if self.restored is not None:
            return point
        started = self.before is None and record is not None and record.batch is not None
        if started and point.exact and ended is not None and ended.savepoint is not None:
            return replace(point, savepoint=ended.savepoint)  # the directory is gone: see `begin_from`
        return None


def _is_needed(path: str) -> bool:
    return describes_operator(path) or not is_state(path)
