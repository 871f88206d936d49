"""The splits of a stage's input as list state: what each task has left to read (FLIP-147, list state of
sources).

An entry is a JSON text that only this module interprets:

    ["orders",3,1200]           partition 3 of topic orders, from offset 1200 on; null: where the query begins
    "file:/data/in/a.json"      a file that has not been read

A finished task keeps its entries; no other task gets them.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

OPERATOR = "splits"  # uid of the list state in records
EARLIEST = -2  # the number for "earliest" in startingOffsets
_GLOB = re.compile(r"([\\{}\[\],*?])")
_NO_FILE = "[n]o-file-left-for-this-shard"  # a pattern: Spark refuses a plain path that does not exist


def partition(topic: str, number: int, position: int | None = None) -> str:
    return json.dumps([topic, number, position], separators=(",", ":"))


def file(path: str) -> str:
    """The entry of a file.

    :param path: a qualified URI, not percent-encoded. The number of slashes after the scheme makes no
        difference.
    """
    return json.dumps(_plain(path), ensure_ascii=False)


def left(entries: Iterable[str], offsets: Iterable[str | None], read: Iterable[str]) -> tuple[str, ...]:
    """The entries of a task that are left after a batch.

    :param offsets: the JSON of each source of the batch, as in the offset log: `{"orders":{"3":1200}}` from
        Kafka; None for a source of which nothing has been read.
    :param read: the paths in the logs of file sources up to the batch, percent-encoded as they are there.
    """
    positions = _positions(offsets)
    gone = {_plain(unquote(path)) for path in read}
    found = []
    for entry in entries:
        split = json.loads(entry)
        if isinstance(split, str):
            found += [] if split in gone else [entry]
        else:
            topic, number, position = split
            found.append(partition(topic, number, positions.get((topic, number), position)))
    return tuple(found)


def kafka_options(entries: Iterable[str]) -> dict[str, str]:
    """Options of Spark's Kafka source for these entries: `assign`, and `startingOffsets` if a position is
    known.
    """
    assign: dict[str, list[int]] = {}
    start: dict[str, dict[str, int]] = {}
    known = False
    for topic, number, position in map(json.loads, entries):
        assign.setdefault(topic, []).append(number)
        start.setdefault(topic, {})[str(number)] = EARLIEST if position is None else position
        known = known or position is not None
    options = {"assign": json.dumps(assign)}
    # Spark requires all partitions there, or none. A task without a batch has read nothing, so it begins at
    # the earliest offset.
    return {**options, "startingOffsets": json.dumps(start)} if known else options


def glob(folder: str, entries: Iterable[str]) -> str:
    """One path for Spark's file source that matches these files, all of one folder, and nothing else."""
    paths = [json.loads(entry) for entry in entries]
    if not paths:
        return f"{_escaped(folder.rstrip('/'))}/{_NO_FILE}"
    (parent,) = {posixpath.dirname(path) for path in paths}
    names = ",".join(_escaped(posixpath.basename(path)) for path in paths)
    return f"{_escaped(parent)}/{{{names}}}"


def identity(entry: str) -> str:
    """Which split an entry describes, wherever the split is read from."""
    split = json.loads(entry)
    return str(split) if isinstance(split, str) else partition(split[0], split[1])


def key(entry: str) -> str:
    """Which call of a script takes the entry: `kafka:TOPIC` or `files`."""
    split = json.loads(entry)
    return "files" if isinstance(split, str) else f"kafka:{split[0]}"


def _positions(offsets: Iterable[str | None]) -> dict[tuple[str, int], int]:
    """The positions of all Kafka sources. If two of them read the same partition, the lower one counts."""
    found: dict[tuple[str, int], int] = {}
    for position in offsets:
        for topic, partitions in _object(position).items():
            if not isinstance(partitions, dict):
                continue
            for number, offset in partitions.items():
                if number.isdigit() and isinstance(offset, int):
                    at = (topic, int(number))
                    found[at] = min(offset, found.get(at, offset))
    return found


def _object(position: str | None) -> Mapping[str, Any]:
    """The JSON object of a position, empty if it is none."""
    try:
        plain = json.loads(position or "")
    except ValueError:
        return {}
    return plain if isinstance(plain, dict) else {}


def _plain(path: str) -> str:
    return re.sub(r"^file:/+", "file:/", path)


def _escaped(path: str) -> str:
    return _GLOB.sub(r"\\\1", path)
