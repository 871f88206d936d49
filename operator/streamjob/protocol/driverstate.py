"""Driver-side state of one task as files in its checkpoint directory: `streamjob/state/N.json` for each batch N that changed it.

The state after batch N is in the newest file at or below N. A file above the last committed batch was left by a batch that was
not committed: nothing reads it, and the same batch, run again, replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import codec
from .errors import FormatError
from .manifest import check_version

FOLDER = "streamjob/state"
FORMAT = "streamjob.state"
VERSION = 1
# Bytes of all entries of a job: the next driver gets its record in an environment variable, which has 128 KiB.
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
    """:raises UnknownVersion: of a newer StreamJob. :raises FormatError: cut off, foreign or malformed."""
    plain = check_version(data, FORMAT, VERSION, where, READ_LIMIT)
    try:
        return codec.from_plain(StateFile, plain).states
    except FormatError as e:
        raise FormatError(f"{where}: {e.message}") from None


def size(entries: Entries) -> int:
    """Bytes that they take in a record."""
    return len(codec.dumps(entries))


def file_name(batch: int) -> str:
    return f"{batch}.json"


def batches(names: Iterable[str]) -> set[int]:
    """Of the files in the folder; temporary ones have other names."""
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return {int(stem) for stem in stems if stem.isdecimal()}


def newest(files: Iterable[int], batch: int) -> int | None:
    """The file that has the state after `batch`; None if nothing had changed it until then."""
    return max((n for n in files if n <= batch), default=None)


def superfluous(files: Iterable[int], batch: int, retained: int) -> list[int]:
    """Files that no batch needs from which the query can still be resumed: the last `retained` up to `batch`."""
    found = sorted(files)
    needed = newest(found, batch - retained)
    return [n for n in found if needed is not None and n < needed]
