"""Uploads a snapshot of each state whose changelog is long, when a job stops.

Spark makes a snapshot at every tenth commit, and uploads it within a minute. What came after it is in the
changelog. The first batch of the next driver would apply that row by row, 0.4 s for each MB. A snapshot takes
a fifth of that.

The stores have to be in this JVM. Python cannot reach those of executors.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from ....jvm.errors import one_line
from ....storage.hadoop import NotFound
from ..checkpoint_dir import CheckpointDir
from ..internals import Internals
from .stores import Store, StoreKey, Stores

log = logging.getLogger("streamjob")

LONG = 256 << 10  # bytes of the changelog of one store; they take about 0.1 s
SECONDS = 5.0  # to wait for the snapshots of one query
THREADS = 4
_FILE = re.compile(r"(\d+)/(\d+)/(?:([^/]+)/)?(\d+)\.(changelog|zip)")


def upload_snapshots(
    query: StreamingQuery, directory: CheckpointDir, internals: Internals, seconds: float = SECONDS
) -> None:
    """Upload the snapshots of a query that has ended at a boundary.

    Never fails, and waits no longer than `seconds`. Without a snapshot, the next driver starts slower.
    """
    if not internals.traits.snapshots_at_rest:
        return
    until = time.monotonic() + seconds
    thread = _start(lambda: _upload(query, directory, internals, until), directory)
    thread.join(seconds)
    if thread.is_alive():
        log.warning(
            "%s: the snapshot of the state takes too long, the next start takes longer", directory.uri
        )


def _upload(query: StreamingQuery, directory: CheckpointDir, internals: Internals, until: float) -> None:
    stores = Stores(internals)
    if stores.are_none():
        return
    batch = directory.latest_commit()
    progress: Any = query.lastProgress
    # Another run has committed the last batch? What this one has loaded may be what it had before it failed.
    if batch is None or progress is None or int(progress["batchId"]) != batch:
        return
    long = long_changelogs(directory)
    if not long:
        return
    begun = time.monotonic()
    stores.end_maintenance()
    loaded = stores.of_run(str(query.runId))
    due = deque(loaded[key] for key in long if key in loaded and loaded[key].version == batch + 1)
    done: list[Store] = []

    def upload() -> None:
        while time.monotonic() < until:
            try:
                store = due.popleft()
            except IndexError:
                return
            store.upload_snapshot()
            done.append(store)

    for thread in [_start(upload, directory) for _ in range(min(THREADS, len(due)))]:
        thread.join()
    took = time.monotonic() - begun
    closed = sum(key not in loaded for key in long)
    log.info(
        "%s: %d of %d long changelogs end in a snapshot, %.2f s%s",
        directory.uri,
        len(done),
        len(long),
        took,
        f"; Spark has closed {closed} of the stores already" if closed else "",
    )


def _start(work: Callable[[], None], directory: CheckpointDir) -> threading.Thread:
    """In a thread that the process does not wait for when it ends, as it does for those of a pool."""

    def run() -> None:
        try:
            work()
        except Exception as e:  # whatever private classes raise
            log.warning(
                "%s: no snapshot of the state, the next start takes longer: %s", directory.uri, one_line(e)
            )

    thread = threading.Thread(target=run, name="streamjob-snapshots", daemon=True)
    thread.start()
    return thread


def long_changelogs(directory: CheckpointDir) -> Collection[StoreKey]:
    """The stores for which a query would apply more than `LONG` bytes of changelog."""
    try:
        found = directory.files.list(f"{directory.uri}/state", recursive=True)
    except NotFound:
        return []
    changelogs: dict[StoreKey, dict[int, int]] = {}
    snapshots: dict[StoreKey, int] = {}
    for file in found:
        if match := _FILE.fullmatch(file.path):
            operator, partition, name, version, kind = match.groups()
            key = StoreKey(int(operator), int(partition), name or "")
            if kind == "zip":
                snapshots[key] = max(snapshots.get(key, 0), int(version))
            else:
                changelogs.setdefault(key, {})[int(version)] = file.size
    return [
        key
        for key, sizes in changelogs.items()
        if sum(size for version, size in sizes.items() if version > snapshots.get(key, 0)) > LONG
    ]
