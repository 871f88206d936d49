"""Recognizes the queries of earlier epochs that have neither a name nor a checkpoint location.

Within an epoch two queries are compared by `Likeness`. This module decides between the queries of earlier
epochs, by `LikenessRecord`. A query never continues another one's state unless a warning says that it may.

What each of them is recognized by is in the checkpoint record, which savepoints contain. It is also noted in
the folder of its stage before it starts, because a driver may die before its first checkpoint:

    streamjob-likeness.json     {"format":"streamjob.likeness","version":1,"likeness":{…}}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...job import ONLY_QUERY
from ...protocol.errors import FormatError, StreamJobError
from ...protocol.formats import codec
from ...protocol.formats.manifest import check_version
from ...protocol.formats.records import LikenessRecord
from ...protocol.messages.driver_status import Problem
from ...storage.errors import NotFound, StorageError
from ...storage.hadoop import HadoopFiles
from .restore_point import RestorePoints, root_of, stage_of

NAME = "streamjob-likeness.json"
FORMAT = "streamjob.likeness"
VERSION = 1
LIMIT = 1 << 16  # bytes
UID = re.compile(rf"{re.escape(ONLY_QUERY)}(-\d+)?")  # as `naming` gives them to unnamed queries


class UnnamedStage(StreamJobError):
    reason = "QueryNameMissing"


@dataclass(frozen=True)
class LikenessNote:
    """The contents of the file."""

    format: str
    version: int
    likeness: LikenessRecord


@dataclass(frozen=True)
class Known:
    """A query of an earlier epoch without a name and a checkpoint location.

    :param likeness: None if nothing is noted, as by an older StreamJob.
    :param finished: it has ended for good.
    """

    likeness: LikenessRecord | None
    finished: bool = False


@dataclass(frozen=True)
class Recognized:
    """Which query of an earlier epoch a query is.

    :param uid: None if it is a new one.
    :param warning: what the user has to know about that.
    :param doubtful: another query that the script has yet to start may be the one that is meant. Until it has
        started all its queries, this one must not read.
    """

    uid: str | None = None
    warning: Problem | None = None
    doubtful: bool = False


def recognize(mine: LikenessRecord, known: Mapping[str, Known], *, inside_batch: bool) -> Recognized:
    """Recognize a query.

    A batch may start any number of queries that differ only in what their functions hold, so it starts a new
    one unless the other is certain. Elsewhere a script starts each query once. A query that does not equal
    its predecessor there was probably edited, if only one can be meant.

    :param known: the queries of earlier epochs that the script has not started yet, by uid.
    :param inside_batch: a batch of another query starts it.
    :raises UnnamedStage: a batch starts it, and it may or may not be one of them.
    """
    equal = [u for u, k in known.items() if k.likeness is not None and k.likeness.digest == mine.digest]
    left = [uid for uid, k in known.items() if not k.finished]
    noted = [k.likeness for uid, k in known.items() if uid in equal and k.likeness is not None]
    if len(equal) == 1 and noted[0].certain:
        return Recognized(equal[0])
    if inside_batch:
        doubtful = equal if len(equal) == 1 else [uid for uid in left if known[uid].likeness is None]
        if doubtful:
            raise _doubtful(doubtful[0])
        return Recognized(warning=_new(left) if left else None)
    candidates = equal or left
    if len(candidates) != 1:
        return Recognized(warning=_new(left) if left else None)
    (uid,) = candidates
    edited = not equal and known[uid].likeness is not None
    return Recognized(uid, _edited(uid), doubtful=True) if edited else Recognized(uid)


def refuse_taken(
    mine: LikenessRecord,
    known: Mapping[str, Known],
    started: Mapping[str, LikenessRecord | None],
    deferred: Collection[str],
) -> None:
    """Refuse a query whose predecessor's state an edited query has been given (see `recognize`).

    :param started: the stages that the script has started in this epoch, by uid.
    :param deferred: those of them that have not read anything yet.
    :raises UnnamedStage: it is one of `known`, which another query continues.
    """
    for uid, other in known.items():
        now = started.get(uid)
        if other.likeness is None or now is None or other.likeness.digest != mine.digest:
            continue
        if now.digest != mine.digest:
            raise _taken(uid, deferred=uid in deferred)


class UnnamedQueries:
    """The queries of earlier epochs without a name and a checkpoint location. Not thread-safe."""

    def __init__(self, points: RestorePoints) -> None:
        self._points = points
        self._known: dict[str, Known] | None = None

    def known(self, files: HadoopFiles) -> Mapping[str, Known]:
        """All of them by uid, read once.

        :raises StreamJobError: as `RestorePoints.checkpoint`.
        """
        if self._known is None:
            resumed = self._points.uids(files)
            found = {uid for uid in (*resumed, *self._folders(files)) if UID.fullmatch(uid)}
            places = self._points.locations(files).items()
            elsewhere = {uid for uid, place in places if not self._is_own(files, uid, place)}
            self._known = {uid: self._one(files, uid) for uid in sorted(found - elsewhere, key=_number)}
        return self._known

    def note(self, files: HadoopFiles, uid: str, likeness: LikenessRecord) -> None:
        """Note it for the next epoch. May be repeated. A crash may leave nothing noted."""
        if self._noted(files, uid) == likeness:
            return
        place = f"{root_of(self._points.config, uid)}/{NAME}"
        files.delete(place)
        files.write_new(place, codec.dumps(LikenessNote(FORMAT, VERSION, likeness)).encode())

    def _one(self, files: HadoopFiles, uid: str) -> Known:
        stage = stage_of(self._points.checkpoint(files), uid)
        recorded = stage.likeness if stage is not None else None
        return Known(self._noted(files, uid) or recorded, stage is not None and stage.finished)

    def _noted(self, files: HadoopFiles, uid: str) -> LikenessRecord | None:
        try:
            data = files.read_bytes(f"{root_of(self._points.config, uid)}/{NAME}", LIMIT)
            plain = check_version(data, FORMAT, VERSION, NAME, LIMIT)
            return codec.from_plain(LikenessNote, plain).likeness
        except (NotFound, FormatError):
            return None

    def _folders(self, files: HadoopFiles) -> Collection[str]:
        """The stages that have a folder. A driver may have died before a checkpoint recorded them.

        :raises StorageError: they cannot be listed; it names the field that says where they are.
        """
        try:
            return [f.path for f in files.list(self._points.config.checkpoints.rstrip("/")) if f.is_dir]
        except NotFound:
            return []
        except StorageError as e:
            what = "list the checkpoint directories (spec.storage.checkpoints) in"
            raise type(e)(e.uri, what, e.cause, remedy=e.remedy) from None

    def _is_own(self, files: HadoopFiles, uid: str, location: str) -> bool:
        """Whether StreamJob chose the location, as far as that is known: adopted ones are copied."""
        if self._points.config.restore.latest is None:
            return True
        return location.startswith(f"{files.qualify(root_of(self._points.config, uid)).rstrip('/')}/")


def _number(uid: str) -> int:
    return int(uid.rpartition("-")[2]) if uid != ONLY_QUERY else 1


def _doubtful(uid: str) -> UnnamedStage:
    return UnnamedStage(
        f"a batch starts a query without a name, which may be the one that began as {uid!r} in an earlier "
        "driver or another one: its function holds objects, or an older StreamJob wrote the checkpoint",
        remedy=f"Give it a queryName: {uid!r} if it is the same, else another one",
    )


def _taken(uid: str, *, deferred: bool) -> UnnamedStage:
    found = (
        f"the script starts a query without a name that began as {uid!r} in an earlier driver, and had "
        "started another one, "
    )
    remedy = f"Give each query a queryName, this one {uid!r}"
    if deferred:
        return UnnamedStage(f"{found}which could have been the same query, edited", remedy=remedy)
    return UnnamedStage(
        f"{found}which continues with the state of {uid!r} and has read its input",
        remedy=f"{remedy}, and make a new StreamJob with spec.restoreFrom.savepoint, one from before this "
        "driver: what the other query has read is lost for this one",
    )


def _edited(uid: str) -> Problem:
    return Problem(
        "QueryWithoutName",
        f"a query without a name differs from the one that began as {uid!r} in its plan, its sink or its "
        "function, and continues with that one's state",
        f"Nothing has to be done if the script was edited. Give it the queryName {uid!r}, or another one if "
        "it is another query",
    )


def _new(known: Collection[str]) -> Problem:
    names = ", ".join(map(repr, known))
    return Problem(
        "QueryWithoutName",
        f"a query without a name is none of those that an earlier driver has started ({names}), as far as "
        "can be told: it starts from the beginning",
        "Give it a queryName, so that it continues where it was; it has to be the name in this message to "
        "continue with that state",
    )
