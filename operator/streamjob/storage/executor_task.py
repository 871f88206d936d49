"""The copying that runs on the job's executors, for `executor_copy`.

Executors import this module, so it imports only `local_disk` from this project.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import local_disk


@dataclass(frozen=True)
class CopyOrder:
    """One file to copy.

    :param source: a path, the same on the driver and on executors, as is `target`.
    :param size: bytes, as listed.
    """

    source: str
    target: str
    size: int


@dataclass(frozen=True)
class Done:
    """The result of an order.

    :param size: bytes copied.
    :param sha256: hash of what was copied, in hexadecimal.
    :param failed: why it failed, empty if it did not.
    """

    source: str
    target: str
    size: int = 0
    sha256: str = ""
    failed: str = ""


@dataclass(frozen=True)
class Witness:
    """A file that exists only on this savepoint's volume.

    It proves that the executor has mounted that volume: an executor may have another folder of the same name.
    """

    path: str
    content: bytes


Batch = tuple[CopyOrder, ...]


def copy_batches(witness: Witness, batches: Iterable[Batch]) -> Iterator[Done]:
    """Copy the files of the batches.

    Spark may run this again for the same files, even while the first run is still copying. So each run writes
    under a name of its own and moves only complete files into place. All runs produce the same contents.

    :returns: a result for each order; failures are results, not exceptions.
    """
    try:
        same = Path(witness.path).read_bytes() == witness.content
    except OSError:
        same = False
    for order in (order for batch in batches for order in batch):
        yield _copy(order) if same else _failed(order, f"an executor does not see {witness.path}")


def _copy(order: CopyOrder) -> Done:
    target = Path(order.target)
    # Named as a shared file is, so that a sweep deletes it if it is left over.
    scratch = target.with_name(f"{uuid.uuid4().hex}-0")
    try:
        size, sha256 = local_disk.replace(Path(order.source), target, scratch)
        return Done(order.source, order.target, size, sha256)
    except OSError as e:
        with suppress(OSError):
            scratch.unlink()
        return _failed(order, f"{order.source}: {e.strerror or type(e).__name__}")


def _failed(order: CopyOrder, why: str) -> Done:
    return Done(order.source, order.target, failed=why)
