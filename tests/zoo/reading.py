"""What a script has written, read without Spark."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.0+)?(Z|\+00:00)?")


def read(path: Path) -> list[Any]:
    """Rows of a folder, as dictionaries, or lines of a file. Nothing where there is neither."""
    if path.is_file():
        return path.read_text().splitlines()
    if not path.exists():
        return []
    log = path / "_spark_metadata"
    parts = (
        committed(log)
        if log.exists()
        else sorted(p for p in path.rglob("part-*") if "_temporary" not in p.parts)
    )
    return [{**row, **_partition(part, path)} for part in parts for row in _rows(part)]


def committed(log: Path) -> list[Path]:
    """The files that Spark's file sink says are in its output; one that is there twice counts twice."""
    batches = sorted(
        (int(p.name.split(".")[0]), p) for p in log.iterdir() if re.fullmatch(r"\d+(\.compact)?", p.name)
    )
    first = max((i for i, (_, p) in enumerate(batches) if p.suffix == ".compact"), default=0)
    entries = [json.loads(line) for _, p in batches[first:] for line in p.read_text().splitlines()[1:]]
    return [Path(unquote(urlparse(entry["path"]).path)) for entry in entries if entry["action"] == "add"]


def plain(value: Any) -> Any:
    """The same for the same value, whichever format it comes from."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in sorted(value.items()) if v is not None}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S")
    if isinstance(value, str) and (time := _TIME.fullmatch(value)):
        return time[1]
    return value


def text(row: Any) -> str:
    """A row in a form that can be compared and counted."""
    return row if isinstance(row, str) else json.dumps(plain(row), sort_keys=True)


def _rows(part: Path) -> list[dict[str, Any]]:
    if part.suffix == ".parquet":
        return pq.ParquetFile(part).read().to_pylist()
    lines = part.read_text().splitlines()
    return [json.loads(line) if part.suffix == ".json" else {"value": line} for line in lines]


def _partition(part: Path, root: Path) -> dict[str, str]:
    """Columns that are in the names of folders (partitionBy)."""
    folders = part.relative_to(root).parts[:-1]
    return dict(
        folder.split("=", 1) for folder in folders if "=" in folder and not folder.startswith("batch=")
    )
