"""Lets a query read on that was restored from a drained savepoint (`restoreFrom.allowDrained`).

Its logs end with batches whose watermark is the end of time, so Spark would drop every row from then on as late. Here those
get the watermark back that the one before them left. Its windows are out and its state is empty: rows that belong to
one of them make it come out a second time, with what came after the drain. That is what the user has allowed.
"""

from __future__ import annotations

import json
from typing import Any

from .checkpoint_dir import CheckpointDir

LIMIT = 16 << 20  # bytes of a commit log entry


def reopen(directory: CheckpointDir) -> None:
    """Only on a copy that no query has started from; a crash in between leaves a restore that is done again."""
    batches = directory.drain_batches()
    drained = directory.boundary() if batches else None
    if drained is None:
        return
    first = drained - batches + 1
    commits = directory.batches("commits")
    if first - 1 in commits:
        before = int(_commit(directory, first - 1)[1].get("nextBatchWatermarkMs", 0))
    else:  # Spark has cleaned up behind a long drain; the drain has kept that batch's own watermark
        before = directory.watermark(drained - 1)
    version, metadata, sources = directory.entry(drained)
    _replace(
        directory, f"offsets/{drained}", [version, _json({**metadata, "batchWatermarkMs": before}), *sources]
    )
    for batch in range(first, drained + 1):
        if batch in commits:
            version, metadata = _commit(directory, batch)
            changed = _json({**metadata, "nextBatchWatermarkMs": before})
            _replace(directory, f"commits/{batch}", [version, changed])


def _commit(directory: CheckpointDir, batch: int) -> tuple[str, dict[str, Any]]:
    """An entry of the commit log (CommitLog.serialize): version line, metadata."""
    text = directory.files.read_bytes(f"{directory.uri}/commits/{batch}", LIMIT).decode()
    version, _, body = text.partition("\n")
    return version, json.loads(body or "{}")


def _replace(directory: CheckpointDir, path: str, lines: list[str]) -> None:
    directory.files.delete(f"{directory.uri}/{path}")
    directory.files.write_new(f"{directory.uri}/{path}", "\n".join(lines).encode())


def _json(metadata: dict[str, object]) -> str:
    return json.dumps(metadata, separators=(",", ":"))
