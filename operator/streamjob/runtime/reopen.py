"""Lets a query read on that was restored from a drained savepoint (`restoreFrom.allowDrained`).

Its log ends with a batch whose watermark is the end of time, so Spark would drop every row from then on as late. Here that
batch gets the watermark back that the one before it left. Its windows are out and its state is empty: rows that belong to
one of them make it come out a second time, with what came after the drain. That is what the user has allowed.
"""

from __future__ import annotations

import json

from .checkpointdir import CheckpointDir

LIMIT = 16 << 20  # bytes of a commit log entry


def reopen(directory: CheckpointDir) -> None:
    """Only on a copy that no query has started from; a crash in between leaves a restore that is done again."""
    if not directory.is_drained():
        return
    drained = directory.boundary()
    if drained is None:
        return
    before, _, _ = _commit(directory, drained - 1)
    version, metadata, sources = directory.entry(drained)
    _replace(
        directory, f"offsets/{drained}", [version, _json({**metadata, "batchWatermarkMs": before}), *sources]
    )
    _, version, metadata = _commit(directory, drained)
    _replace(directory, f"commits/{drained}", [version, _json({**metadata, "nextBatchWatermarkMs": before})])


def _commit(directory: CheckpointDir, batch: int) -> tuple[int, str, dict[str, object]]:
    """An entry of the commit log (CommitLog.serialize): the watermark that it leaves (ms), version line, metadata."""
    text = directory.files.read_bytes(f"{directory.uri}/commits/{batch}", LIMIT).decode()
    version, _, body = text.partition("\n")
    metadata = json.loads(body or "{}")
    return int(metadata.get("nextBatchWatermarkMs", 0)), version, metadata


def _replace(directory: CheckpointDir, path: str, lines: list[str]) -> None:
    directory.files.delete(f"{directory.uri}/{path}")
    directory.files.write_new(f"{directory.uri}/{path}", "\n".join(lines).encode())


def _json(metadata: dict[str, object]) -> str:
    return json.dumps(metadata, separators=(",", ":"))
