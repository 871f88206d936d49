"""Driver-side state of one task, stored in its checkpoint directory: a file `streamjob/state/N.json` for each
batch N that changed the state.

The state after batch N is in the newest file numbered N or lower. A file above the last committed batch
belongs to an uncommitted batch: nothing reads it, and the rerun of that batch replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import FormatError
from . import codec
from .manifest import check_version

FOLDER = "streamjob/state"
FORMAT = "streamjob.state"
VERSION = 1
# Bytes of all entries of a job: they are part of the checkpoint record, and the index holds the records.
SIZE_LIMIT = 64 << 10
READ_LIMIT = 1 << 20  # bytes of a file

Entries = dict[str, tuple[str, ...]]  # by name of the state


@dataclass(frozen=True)
class StateFile:
    format: str
    version: int
    batch: int
    states: dict[str, tuple[str, ...]]


def dumps(batch: int, entries: Entries) -> bytes:
    return codec.dumps(StateFile(FORMAT, VERSION, batch, entries)).encode() + b"\n"


def loads(data: bytes, where: str) -> Entries:
    """Parse a state file found at `where` (for messages only).

    :raises UnknownVersion: written by a newer StreamJob.
    :raises FormatError: cut off, foreign or malformed.
    """
    plain = check_version(data, FORMAT, VERSION, where, READ_LIMIT)
    try:
        return codec.from_plain(StateFile, plain).states
    except FormatError as e:
        raise FormatError(f"{where}: {e.message}") from None


def size(entries: Entries) -> int:
    """The size of the entries in a record, in bytes."""
    return len(codec.dumps(entries))


def file_name(batch: int) -> str:
    return f"{batch}.json"


def batches(names: Iterable[str]) -> set[int]:
    """The batch numbers of the state files among `names`. Temporary files have other names."""
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return {int(stem) for stem in stems if stem.isdecimal()}


def newest(files: Iterable[int], batch: int) -> int | None:
    """The number of the file that has the state after `batch`; None if no batch had changed it by then."""
    return max((n for n in files if n <= batch), default=None)


def superfluous(files: Iterable[int], batch: int, retained: int) -> list[int]:
    """The files that no batch needs from which the query can still be resumed: the last `retained` batches up
    to `batch`.

    :returns: file numbers, ascending.
    """
    found = sorted(files)
    needed = newest(found, batch - retained)
    return [n for n in found if needed is not None and n < needed]
