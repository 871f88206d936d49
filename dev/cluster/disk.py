"""A small file system on the node: a volume that tests can fill up."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.cluster import processes
from dev.cluster.commands import run
from dev.cluster.layout import Layout


@contextmanager
def small(layout: Layout, folder: Path, size: str) -> Iterator[Path]:
    """Mount a small file system at `folder` while the block runs, for pods that start in the meantime.

    Yields the path under which this machine sees it, because the node has its own mounts.

    :param size: in tmpfs' notation, such as "4m".
    """
    holder = processes.Daemons.recall(layout).holder
    within = ("nsenter", f"--mount=/proc/{holder}/ns/mnt")
    run(*within, "mount", "-n", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", folder)
    try:
        yield Path(f"/proc/{holder}/root") / folder.relative_to("/")
    finally:
        run(*within, "umount", "-n", "--lazy", folder)
