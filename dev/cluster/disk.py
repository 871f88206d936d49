"""A small file system on the node: what a volume is that can be filled."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.cluster import processes
from dev.cluster.commands import run
from dev.cluster.layout import Layout


@contextmanager
def small(layout: Layout, folder: Path, size: str) -> Iterator[Path]:
    """While the block runs, a file system of this size ("4m") is at `folder`, for pods that start meanwhile.

    Yields the path under which this machine sees it: the node has mounts of its own.
    """
    holder = processes.Daemons.recall(layout).holder
    within = ("nsenter", f"--mount=/proc/{holder}/ns/mnt")
    run(*within, "mount", "-n", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", folder)
    try:
        yield Path(f"/proc/{holder}/root") / folder.relative_to("/")
    finally:
        run(*within, "umount", "-n", "--lazy", folder)
