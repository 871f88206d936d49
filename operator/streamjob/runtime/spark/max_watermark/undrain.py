"""Lets a query that was restored from a drained savepoint continue to read (`restoreFrom.allowDrained`).

Its logs end with batches that have a max watermark, so Spark would drop every later row as late. This module
resets the watermark of those batches to the one that the batch before them left. All windows have been
emitted and the state is empty: if later rows belong to such a window, it is emitted a second time, with those
rows only. The user has allowed that.
"""

from __future__ import annotations

import json
from typing import Any

from ..checkpoint_dir import DRAINED, CheckpointDir

LIMIT = 16 << 20  # bytes of a commit log entry


def reopen(directory: CheckpointDir) -> None:
    """Reset the max watermarks in the logs of a restored copy, and remove its mark.

    No query may have started from the copy. After a crash in between, the restore is done again from the
    beginning.
    """
    directory.files.delete(f"{directory.uri}/{DRAINED}")
    batches = directory.drain_batches()
    drained = directory.boundary() if batches else None
    if drained is None:
        return
    first = drained - batches + 1
    commits = directory.batches("commits")
    if first - 1 in commits:
        before = int(_commit(directory, first - 1)[1].get("nextBatchWatermarkMs", 0))
    else:  # a long drain: Spark purged that commit. `drained - 1` has the watermark that it began with
        before = directory.watermark(drained - 1)
    reopened = directory.entry(drained).changed(batchWatermarkMs=before)
    _replace(directory, f"offsets/{drained}", reopened.serialize())
    for batch in range(first, drained + 1):
        if batch in commits:
            version, metadata = _commit(directory, batch)
            changed = _json({**metadata, "nextBatchWatermarkMs": before})
            _replace(directory, f"commits/{batch}", f"{version}\n{changed}".encode())


def _commit(directory: CheckpointDir, batch: int) -> tuple[str, dict[str, Any]]:
    """An entry of the commit log (CommitLog.serialize).

    :returns: the version line and the metadata.
    """
    text = directory.files.read_bytes(f"{directory.uri}/commits/{batch}", LIMIT).decode()
    version, _, body = text.partition("\n")
    return version, json.loads(body or "{}")


def _replace(directory: CheckpointDir, path: str, entry: bytes) -> None:
    directory.files.delete(f"{directory.uri}/{path}")
    directory.files.write_new(f"{directory.uri}/{path}", entry)


def _json(metadata: dict[str, object]) -> str:
    return json.dumps(metadata, separators=(",", ":"))
