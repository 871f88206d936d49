"""Locks for what the clones of a repository and the parts of a parallel `make` share on a machine."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.cluster.console import say


@contextmanager
def locked(lock: Path, waits_for: str) -> Iterator[None]:
    """Hold the lock of this file while the block runs. A process that ends, even by a crash, releases it.

    :param waits_for: describes the holder in the message printed while waiting, such as "another command on
        this cluster".
    """
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"  waiting for {waits_for} to end")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
