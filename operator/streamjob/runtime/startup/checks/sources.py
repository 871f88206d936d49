"""Checks that a query's sources are those that its positions belong to: others would misread the positions.

Spark assigns positions by the sources' names or, if they have none, in the order of the plan, and checks
nothing (see `source_names`). A file source in another folder reads all
files there, including those that it already read from the old folder. If a Kafka topic is no longer
subscribed, each batch fails (`failOnDataLoss`), and the end of the first is already in the log. Spark's own
options allow an intended change: `fileNameOnly` of the file source, a pattern that matches both folders,
`failOnDataLoss` of the Kafka source. Other brokers may belong to the same cluster, so they are only a
warning, and so is an option that says where to begin and may move the position.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

from py4j.protocol import Py4JError

from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ...query.endpoints import Endpoint, RecordedEndpoints, noted
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.offset_log import Offsets, recovered
from ...spark.sources.plan_sources import Source, by_key, kafka_positions, kind_of_position
from ...spark.sources.source_log import newest_files
from .source_names import Changes, OtherSources, compare

log = logging.getLogger("streamjob")

LOOKED_AT = 1000  # files of a source's log, at most
REMEDY = "Start the script that wrote it, or restore a savepoint of this query; nothing was written"


class QueryChanged(StreamJobError):
    """The query did not write the checkpoint: it would misread the state or the positions."""

    reason: ClassVar[str] = "QueryChanged"


def changed(directory: CheckpointDir, problem: str, how: str = "") -> QueryChanged:
    text = f"the script's query does not fit the state in {directory.uri}: {problem}"
    return QueryChanged(text, remedy=f"{REMEDY}. {how}".rstrip(". "))


def refuse_other_sources(
    directory: CheckpointDir,
    sources: Sequence[Source],
    jvm: Any,
    *,
    fed: Callable[[str], bool] | None,
) -> list[Problem]:
    """Compare the query's sources with the positions in its checkpoint, of which there is at least one batch.

    :param fed: called with the folder that the query read before. Returns whether another stage of the job
        wrote there, or writes what the query reads: the folder may have moved with its writer. None if the
        runtime assigns the query's files, whose path differs at each start.
    :returns: warnings for the user.
    :raises QueryChanged: the sources are different ones.
    """
    entries = directory.last_entries()
    assert entries is not None
    latest, positions, before = entries[0], recovered(*entries), noted(directory)
    keyed, places = by_key(sources), before.places if before else {}
    try:
        changes = compare(
            keyed,
            latest,
            positions,
            committed=directory.latest_commit() == directory.latest_offset(),
            noted=places.keys() if before else None,
            was_read=lambda key: _was_read(directory, before, key),
        )
    except OtherSources as e:
        raise changed(directory, str(e), e.how) from None
    warnings = _told(directory, changes, positions)
    for key, source in keyed.items():
        position = positions.get(key)
        was = kind_of_position(position)
        if position and was and source.kind and was != source.kind:
            text = f"source {key} was {was} at {position[:100]} and is {source.kind} ({source.name[:100]})"
            raise changed(directory, text)
        place = places.get(key) if source.given or len(places) == len(keyed) else None
        if was == "Kafka" and source.kind == "Kafka":
            warnings += _topics(directory, key, source, position) + _brokers(directory, key, source, place)
        elif was == "files" and source.path is not None and fed is not None:
            warnings += _folder(directory, key, source, place, jvm, fed=fed)
        elif place is not None and place.begins != source.begins:
            warnings.append(_begins(directory, key, source, place))
    return warnings


def _was_read(directory: CheckpointDir, before: RecordedEndpoints | None, key: str) -> bool:
    """Whether an earlier batch has read a source, as far as the offset log and the note know."""
    if before is not None and key in before.former:
        return True
    return any(directory.entry(n).offsets.get(key) is not None for n in directory.batches("offsets"))


def _told(directory: CheckpointDir, changes: Changes, positions: Offsets) -> list[Problem]:
    found = []
    if changes.added:
        found.append(
            f"the query reads {', '.join(changes.added)} for the first time, from where its options say. If "
            "the job goes back to an earlier script, nobody reads the rest of it"
        )
    for key in changes.removed:
        found.append(
            f"the query no longer reads {key}, of which it had read up to {str(positions[key])[:200]}. The "
            "next batches forget that position: then a script that reads it again is refused, as after a "
            "rollback"
        )
    for text in found:
        log.warning("SourcesChanged: %s: %s", directory.uri, text)
    remedy = "Nothing has to be done if that is meant. Keep a savepoint from before, to be able to go back"
    return [Problem("SourcesChanged", f"{directory.uri}: {text}", remedy) for text in found]


def _begins(directory: CheckpointDir, key: str, source: Source, place: Endpoint) -> Problem:
    differs = sorted(
        k for k in {*place.begins, *source.begins} if place.begins.get(k) != source.begins.get(k)
    )
    now = ", ".join(
        f"{k} is {source.begins.get(k, 'not set')[:100]} and was {place.begins.get(k, 'not set')[:100]}"
        for k in differs
    )
    problem = (
        f"source {key} ({source.name[:100]}) says in another way where it begins: {now}. It has a position "
        "to go on from, but a source such as Iceberg's obeys the option at each start, and skips what lies "
        "between the two"
    )
    return _warning(
        directory, problem, "Give the option a value that stays the same, or remove it: the position is kept"
    )


def _topics(directory: CheckpointDir, key: str, source: Source, position: str | None) -> list[Problem]:
    read = source.subscribed()
    missing = sorted(p for p in kafka_positions(position) if read is not None and not read(*p))
    if not missing:
        return []
    names = ", ".join(dict.fromkeys(f"{t}-{n}" if "assign" in source.options else t for t, n in missing))
    problem = f"source {key} had read from {names} and does not subscribe to it any more"
    if source.flag("failondataloss", default=True):
        how = (
            "Or subscribe to it as before; or set the source's option failOnDataLoss to false: what is left "
            "there is not read"
        )
        raise changed(directory, problem, how)
    return [_warning(directory, f"{problem}; what is left there is not read (failOnDataLoss is false)")]


def _brokers(directory: CheckpointDir, key: str, source: Source, place: Endpoint | None) -> list[Problem]:
    """Warn if the two broker lists share no address. One is enough: a cluster has many addresses."""
    if place is None or not place.brokers or not source.brokers or set(place.brokers) & set(source.brokers):
        return []
    problem = (
        f"source {key} asked {','.join(place.brokers)} and asks {','.join(source.brokers)} now: if that is "
        "another cluster, its offsets mean other records"
    )
    return [_warning(directory, problem)]


def _folder(
    directory: CheckpointDir,
    key: str,
    source: Source,
    place: Endpoint | None,
    jvm: Any,
    *,
    fed: Callable[[str], bool],
) -> list[Problem]:
    assert source.path is not None
    path = directory.files.qualify(source.path).rstrip("/")
    if place is not None and place.at == path:
        return []
    files = [directory.files.qualify(unquote(f)) for f in newest_files(directory, key)[-LOOKED_AT:]]
    if not files or any(_lies_in(jvm, file, path) for file in files):
        return []
    was = place.at if place is not None else files[-1].rpartition("/")[0]
    problem = f"source {key} had read files of {was} and reads {path} now"
    if fed(was):
        moved = (
            f"{problem}, with the query that writes there; what it has not read of the old one it will not "
            "read"
        )
        return [_warning(directory, moved)]
    if source.flag("filenameonly", default=False):
        return [_warning(directory, f"{problem}; it knows files by their names alone (fileNameOnly)")]
    how = (
        f"Or name both folders in a pattern, such as {_both(was, path)}; or, if the same files lie in the "
        "other folder now, set the source's option fileNameOnly to true, by which it does not read them "
        "again"
    )
    raise changed(
        directory, f"{problem}: it would read all that lies there, and nothing more of the other", how
    )


def _lies_in(jvm: Any, file: str, path: str) -> bool:
    """Whether `path`, as a Hadoop glob, matches the file or its folder. True if it is no valid glob."""
    try:
        return bool(jvm.org.apache.hadoop.fs.GlobPattern(f"{path}{{,/*}}").matches(file))
    except Py4JError:
        return True


def _both(was: str, now: str) -> str:
    """`/data/{in,input}` for `/data/in` and `/data/input`."""
    parts = [re.sub(r"^file:/+", "/", p).split("/") for p in (was, now)]
    same = next((i for i, (a, b) in enumerate(zip(*parts, strict=False)) if a != b), min(map(len, parts)))
    old, new = ("/".join(p[same:]) for p in parts)
    return "/".join([*parts[0][:same], f"{{{old},{new}}}"])


def _warning(
    directory: CheckpointDir, problem: str, remedy: str = "Nothing has to be done if that is meant"
) -> Problem:
    log.warning("SourceMoved: %s: %s. %s", directory.uri, problem, remedy)
    return Problem("SourceMoved", f"{directory.uri}: {problem}", remedy)
