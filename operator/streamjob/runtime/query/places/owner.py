"""The record of the query that has a place to itself, kept beside what it has.

    CHECKPOINT/streamjob-owner.json               a checkpoint directory that a script chose
    FOLDER/_spark_metadata/streamjob-owner.json   a folder that Spark's file sink writes to

Spark's own files there (`metadata`, the entries of the log) name no job, and the log no query. Spark reads
neither file. A savepoint does not contain them: what is restored has another owner.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....protocol.errors import FormatError, UnknownVersion
from ....protocol.formats import codec
from ....protocol.formats.manifest import check_version
from ....protocol.formats.records import JobRef
from ....storage.hadoop import FileExists, HadoopFiles, NotFound

NAME = "streamjob-owner.json"
FORMAT = "streamjob.owner"
VERSION = 1


@dataclass(frozen=True)
class Owner:
    """The contents of the file.

    :param job: namespace and name, for people.
    :param uid: of the job.
    :param home: the folder of the checkpoint directories that StreamJob chooses for the job. A job that is
        created again has the same one.
    :param query: the name of the task.
    :param checkpoint: the checkpoint directory of the query. By it, and by no name, a savepoint of the query
        is known for one.
    """

    format: str
    version: int
    job: str
    uid: str
    home: str
    query: str
    checkpoint: str

    def __str__(self) -> str:
        return f"query {self.query!r} of job {self.job}"

    def same_job(self, other: Owner) -> bool:
        return self.uid == other.uid or self.home == other.home

    def same_query(self, other: Owner) -> bool:
        """Whether both are one query of one job, or continue one line of batches."""
        return self.checkpoint == other.checkpoint or (self.same_job(other) and self.query == other.query)


def owner(files: HadoopFiles, job: JobRef, home: str, query: str, checkpoint: str) -> Owner:
    """The record of a query of this job."""
    name = f"{job.namespace}/{job.name}"
    return Owner(FORMAT, VERSION, name, job.uid, files.canonical(home), query, files.canonical(checkpoint))


def owner_of(files: HadoopFiles, place: str) -> Owner | None:
    """The owner of a place; None if it has none, or its record is damaged.

    :raises UnknownVersion: a newer StreamJob wrote the record.
    """
    try:
        data = files.read_bytes(f"{place}/{NAME}")
        return codec.from_plain(Owner, check_version(data, FORMAT, VERSION, NAME, 1 << 20))
    except UnknownVersion:
        raise
    except (NotFound, FormatError):
        return None


@contextmanager
def taken(files: HadoopFiles, place: str, mine: Owner, before: Owner | None) -> Iterator[Owner | None]:
    """Own the place of a sink's log while the query starts in the block.

    If the query does not start, a place that was not there is gone again: as soon as a folder has a log,
    readers see only the files that it names.

    :param before: as in `take`.
    :returns: as `take`.
    """
    was_there = files.exists(place)
    faster = take(files, place, mine, before)
    try:
        yield faster
    except BaseException:
        if not was_there and faster is None:
            files.delete(place)
        raise


def take(files: HadoopFiles, place: str, mine: Owner, before: Owner | None) -> Owner | None:
    """Write the record of a place.

    :param before: the owner that was found there, and may be replaced.
    :returns: the owner of the place if another one was faster, else None.
    """
    if before == mine:
        return None
    if before is not None:
        files.delete(f"{place}/{NAME}")
    try:
        files.write_new(f"{place}/{NAME}", codec.dumps(mine).encode())
    except FileExists:
        return owner_of(files, place)
    return None
