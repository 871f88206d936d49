"""Checks for data loss before a query starts: does its next input still exist (Kafka, files, tables)?

Spark detects data loss in the middle of a batch, when the batch's offsets are already in the log. With Kafka,
the batch then fails at each attempt, even after the topic is fixed. A planned file that is missing is skipped
silently. What tables do is in `table_source`. This check runs before anything is written. To continue without
the lost input, the script sets Spark's own options (`failOnDataLoss` of the Kafka and the Delta source,
`ignoreMissingFiles` of the file source or the session); the loss is then only a warning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ....jvm.errors import one_line
from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ....storage.errors import StorageError
from ....storage.parallel import THREADS, each
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.offset_log import Offsets, recovered
from ...spark.sources.delta_log import DeltaLog, DeltaPosition, delta_position
from ...spark.sources.iceberg_history import history_of, is_iceberg, snapshot_of
from ...spark.sources.kafka_offsets import Range, available
from ...spark.sources.plan_sources import Positions, Source, by_key, kafka_positions
from ...spark.sources.source_log import files_ahead
from ...spark.tables.delta import DeltaTable
from .table_source import NEWER, delta_log_lost, iceberg_lost, other_delta_table

log = logging.getLogger("streamjob")

NAMED = 5  # partitions or files that a message lists
COMMITS, FILES = 100, 1000  # of a Delta table, the oldest that are not read: VACUUM removes them first
IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"


class SourceGone(StreamJobError):
    """Input that the query has not processed no longer exists."""

    reason: ClassVar[str] = "SourceGone"


def refuse_gone(
    directory: CheckpointDir,
    sources: Sequence[Source],
    jvm: Any,
    *,
    reads: bool = True,
    later: CheckpointDir | None = None,
) -> list[Problem]:
    """Check that the input of the next batch exists.

    It reads a few entries of the logs, looks up each file that is listed and not yet read, and makes one
    Kafka round trip per topic and two more per Kafka source. Of a Delta table it reads the commits that are
    not read, up to 100, and looks up their files; of an Iceberg table, the metadata.

    :param sources: those of the plan, in its order, which have been found to be those of the offset log.
    :param reads: the query is going to read new data; otherwise only an uncommitted batch is checked.
    :param later: the checkpoint directory in which a query has read on from here, if this one begins with a
        copy. Files that it has read since then may be gone: `cleanSource` deletes or archives them.
    :returns: warnings about data loss that the script allows.
    :raises SourceGone: input of the next batch is lost.
    """
    if directory.latest_offset() == directory.latest_commit() and not reads:
        return []
    start, end = _positions(directory)
    warnings = []
    for key, source in by_key(sources).items():
        if source.kind == "files":
            warnings += _files(directory, key, source, start.get(key), later if reads else None)
        elif source.kind == "Kafka":
            pending = kafka_positions(end.get(key))
            warnings += _kafka(
                directory, source, {**pending, **kafka_positions(start.get(key))}, pending, jvm
            )
        elif source.delta_table is not None:
            warnings += _delta(directory, source, start.get(key), end.get(key), reads=reads)
        elif source.relation is not None and is_iceberg(source.relation):
            _iceberg(directory, source, start.get(key), end.get(key), jvm)
    return warnings


def _positions(directory: CheckpointDir) -> tuple[Offsets, Offsets]:
    """From where the next batch reads, and up to where it reads if it is planned already."""
    if (entries := directory.last_entries()) is None:
        return {}, {}
    latest, before = entries
    if directory.latest_offset() == directory.latest_commit():
        return recovered(latest, before), {}
    return before.offsets if before is not None else {}, latest.offsets


def _kafka(
    directory: CheckpointDir, source: Source, start: Positions, end: Positions, jvm: Any
) -> list[Problem]:
    read = source.subscribed()
    wanted = {p: at for p, at in start.items() if read is None or read(*p)}
    if not wanted:
        return []
    began = time.monotonic()
    try:
        there = available(jvm, source.options, {topic for topic, _ in wanted})
    except (Py4JError, TypeError) as e:  # TypeError: py4j finds no class of the connector
        # Not an error here: the query itself fails with the cause, or succeeds where this check did not.
        log.warning("Kafka was not asked whether it still has what is read next: %s", one_line(e))
        return []
    log.info("Kafka's offsets of %d partitions looked up in %.3f s", len(wanted), time.monotonic() - began)
    lost = [text for p in sorted(wanted) if (text := _lost(p, wanted[p], end.get(p), there))]
    return _refuse_or_tell(
        f"{directory.uri} continues where Kafka ({', '.join(source.brokers)}) has nothing more to read: "
        f"{_named(lost)}",
        lost,
        allowed=not source.flag("failondataloss", default=True),
        how="Restore a savepoint whose offsets Kafka still has; or set the source's option failOnDataLoss to "
        "false: it then continues with what is left, and with a re-created topic from its end",
    )


def _lost(
    partition: tuple[str, int], start: int, end: int | None, there: Mapping[tuple[str, int], Range]
) -> str | None:
    topic, number = partition
    found = there.get(partition)
    if found is None:
        return f"partition {number} of topic {topic}, which is not there"
    if found.earliest > start:
        return f"offsets {start} to {found.earliest - 1} of {topic}-{number}, which were purged"
    if found.latest < max(start, end or 0):
        last = max(start, end or 0)
        return (
            f"offset {last} of {topic}-{number}, which ends at {found.latest}: it was re-created, or has "
            "lost records"
        )
    return None


def _files(
    directory: CheckpointDir, key: str, source: Source, position: str | None, later: CheckpointDir | None
) -> list[Problem]:
    """Check the files that a source's log lists and that no committed batch has read.

    They belong to the planned batch, or were read by another query that ran on from this directory.
    """
    session = directory.files.spark.conf.get(IGNORE_MISSING, "false") == "true"
    listed = files_ahead(directory, key, position)
    since = [path for path in _read_since(later, key, position) if path not in listed]
    paths = [unquote(path) for path in (*listed, *since)]
    there = each(directory.files.exists, paths, THREADS)
    lost = [path for path, found in zip(paths, there, strict=True) if not found]
    by = f", {len(since)} of them in {later.uri}" if since and later else ""
    cleans = source.options.get("cleansource", "off").lower()
    archive = source.options.get("sourcearchivedir", "its archive")
    back = f"Put them back from {archive}" if cleans == "archive" else "Put them back"
    return _refuse_or_tell(
        f"{directory.uri} continues with {len(paths)} files that Spark has listed{by}, and {len(lost)} are "
        f"gone: {_named(lost)}" + (f" (cleanSource is {cleans})" if cleans != "off" else ""),
        lost,
        allowed=source.flag("ignoremissingfiles", default=session),
        how=f"{back}, or continue without them: set {IGNORE_MISSING} to true in <spark-conf>",
    )


def _read_since(later: CheckpointDir | None, key: str, position: str | None) -> list[str]:
    if later is None:
        return []
    try:
        return files_ahead(later, key, position)
    except StreamJobError as e:  # another job's, which this one need not be able to read
        log.warning("%s does not say which files were read since: %s", later.uri, e.message)
        return []


def _delta(
    directory: CheckpointDir, source: Source, start: str | None, end: str | None, *, reads: bool
) -> list[Problem]:
    assert source.delta_table is not None
    position, planned = delta_position(start), delta_position(end)
    if position is None and planned is None:
        return []
    folder = directory.files.qualify(source.delta_table)
    text = f"{directory.uri} continues in the Delta table {folder}, and "
    try:
        table, newest = DeltaTable(directory.files.spark, source.name, folder).newest
        for at in (position, planned):
            if at is not None and (gone := other_delta_table(at, table, newest)) is not None:
                raise SourceGone(text + gone.what, remedy=gone.how)
        if position is None or position.initial:
            return []  # what is read is the table as it was, which Delta alone can tell
        last = newest if planned is None or reads else planned.version
        return _delta_unread(
            directory, source, DeltaLog(directory.files, folder), position, last, newest, text
        )
    except (Py4JError, PySparkException, StorageError, TypeError) as e:
        # As with Kafka. Delta may have other means than this check to reach the files.
        log.warning("%s was not asked whether it still has what is read next: %s", folder, one_line(e))
        return []


def _delta_unread(
    directory: CheckpointDir,
    source: Source,
    delta: DeltaLog,
    position: DeltaPosition,
    last: int,
    newest: int,
    text: str,
) -> list[Problem]:
    """Check the commits that are not read, up to `last`, and their files.

    VACUUM removes files that somebody has deleted or compacted. RESTORE is a commit as any other: Delta reads
    what it has taken back before it comes to that, and then what was written again.
    """
    warnings, first_left = [], delta.first_left(position.version, newest)
    allowed = not source.flag("failondataloss", default=True)
    if (gone := delta_log_lost(position, first_left)) is not None:
        warnings += _refuse_or_tell(text + gone.what, [gone.what], allowed=allowed, how=gone.how)
    if first_left is None or source.reads_changes:
        return warnings
    versions = range(first_left, min(last + 1, first_left + COMMITS))
    commits = dict(zip(versions, each(delta.commit, versions, THREADS), strict=True))
    restored = [str(version) for version, commit in commits.items() if commit.restores]
    warnings += _refuse_or_tell(
        f"{text}RESTORE has taken back commits that it has not read, in version {', '.join(restored)}: it "
        "would read rows that the table does not have, and what was written in their place",
        restored,
        allowed=allowed,
        how="A reader cannot go back with its table: let it begin again, with another name and checkpoints "
        'of its own. To read all of that, set option("failOnDataLoss", "false")',
    )
    skips = source.flag("skipchangecommits", default=False)
    paths: list[str] = []
    for version, commit in commits.items():
        if not (skips and commit.removes):
            after = max(position.index + 1, 0) if version == position.version else 0
            paths += [delta.uri(file.path) for file in commit.files[after:]]
    paths = paths[:FILES]
    there = each(directory.files.exists, paths, THREADS)
    lost = [path for path, found in zip(paths, there, strict=True) if not found]
    return warnings + _refuse_or_tell(
        f"{text}{len(lost)} files that it has not read are gone, as after VACUUM: {_named(lost)}",
        lost,
        allowed=directory.files.spark.conf.get(IGNORE_MISSING, "false") == "true",
        how=f"{NEWER}, or put the files back. To continue without them, set {IGNORE_MISSING} to true in "
        "<spark-conf>",
    )


def _iceberg(directory: CheckpointDir, source: Source, start: str | None, end: str | None, jvm: Any) -> None:
    first, last = snapshot_of(start), snapshot_of(end)
    wanted = {snapshot for snapshot in (first, last) if snapshot is not None}
    if not wanted or "branch" in source.options:
        return
    try:
        name, history = history_of(source.relation, wanted, jvm)
    except (Py4JError, PySparkException, TypeError) as e:
        log.warning("%s was not asked whether it still has what is read next: %s", source.name, one_line(e))
        return
    gone = iceberg_lost(first, last, history, begins_later=bool(source.begins))
    if gone is not None:
        text = f"{directory.uri} continues in the Iceberg table {name}, and {gone.what}"
        raise SourceGone(text, remedy=gone.how)


def _refuse_or_tell(message: str, lost: Sequence[str], *, allowed: bool, how: str) -> list[Problem]:
    if not lost:
        return []
    if not allowed:
        raise SourceGone(message, remedy=how)
    log.warning("%s; the script allows it", message)
    return [Problem(SourceGone.reason, f"{message}. The job continues without, as its script allows")]


def _named(lost: Iterable[str]) -> str:
    names = list(lost)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return "; ".join(names[:NAMED]) + more
