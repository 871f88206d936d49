"""What an executor does when the job's executors copy (`executor_copy`): imported there, so it needs no more than
`local_disk`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import local_disk


@dataclass(frozen=True)
class Order:
    """`size` in bytes, as listed. `source`, `target`: paths, on the driver as on executors."""

    source: str
    target: str
    size: int


@dataclass(frozen=True)
class Done:
    """What became of an order: bytes and SHA-256, or why it has failed."""

    source: str
    target: str
    size: int = 0
    sha256: str = ""
    failed: str = ""


@dataclass(frozen=True)
class Witness:
    """A file that only this savepoint's volume has: an executor may have another folder of the same name."""

    path: str
    content: bytes


Batch = tuple[Order, ...]


def copy_batches(witness: Witness, batches: Iterable[Batch]) -> Iterator[Done]:
    """Spark may run it for the same files again, also while the first one goes on: each writes under a name of its own, and
    what it puts in its place is whole, and always the same."""
    try:
        same = Path(witness.path).read_bytes() == witness.content
    except OSError:
        same = False
    for order in (order for batch in batches for order in batch):
        yield _copy(order) if same else _failed(order, f"an executor does not see {witness.path}")


def _copy(order: Order) -> Done:
    target = Path(order.target)
    # Named as a shared file is: what is left of it, a sweep takes.
    scratch = target.with_name(f"{uuid.uuid4().hex}-0")
    try:
        size, sha256 = local_disk.replace(Path(order.source), target, scratch)
        return Done(order.source, order.target, size, sha256)
    except OSError as e:
        with suppress(OSError):
            scratch.unlink()
        return _failed(order, f"{order.source}: {e.strerror or type(e).__name__}")


def _failed(order: Order, why: str) -> Done:
    return Done(order.source, order.target, failed=why)
