"""Does the query fit the state that it goes on with? Asked before Spark writes anything.

Spark compares a query's operators and their schemas with the checkpoint when it plans the first batch. By then the batch stands
in the offset log, and a script that was changed by mistake has to be changed back before anything else can run. Here the batch
is planned once before, in a copy of what the state says about itself: by Spark's own rules, with nothing at stake (ADR 14).
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..protocol.errors import StreamJobError
from .causes import LONGEST, java_causes, one_line
from .checkpointdir import CheckpointDir
from .internals import Internals

log = logging.getLogger("streamjob")

# Error conditions by which Spark refuses; with any other, what could not be planned here is left to the query itself.
_REFUSALS = re.compile(
    r"\[(STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    r"|STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_\w*SCHEMA\w*"
    r"|STATE_STORE_INVALID_(?:CONFIG_AFTER_RESTART|VARIABLE_TYPE_CHANGE))\b[^\]]*\] *"
)
_SOURCES = frozenset({"StreamingRelation", "StreamingRelationV2"})


class QueryChanged(StreamJobError):
    """What the query was is not what it is: its state would be read as something else."""

    reason: ClassVar[str] = "QueryChanged"


def refuse_changed(
    writer: DataStreamWriter, mode: str | None, directory: CheckpointDir, internals: Internals | None
) -> None:
    """:param mode: the query's output mode, None if the script has not said one.
    :raises QueryChanged: other sources, stateful operators or schemas than those of the directory's last batch."""
    latest, committed = directory.latest_offset(), directory.latest_commit()
    if latest is None or internals is None:
        return
    plan: Any = writer._df._jdf.queryExecution().analyzed()
    version, metadata, positions = directory.entry(latest)
    sources = _sources(plan)
    if sources is not None:
        _refuse_sources(directory, sources, positions if version == "v1" else ["-"] * len(positions))
    batch = latest if committed != latest else latest + 1
    with tempfile.TemporaryDirectory(prefix="streamjob-rehearsal-") as scratch:
        described = directory.describes_state()
        if directory.has_state() and not described:
            return  # by a Spark before 3.5, which did not write down what its operators are
        for path in described:
            directory.files.copy(f"{directory.uri}/{path}", f"file:{scratch}/{path}")
        problem = _planned(
            internals, plan, mode or "append", f"file:{scratch}/state", batch, json.dumps(metadata)
        )
        had_none = committed is not None and not described
        if problem is None and had_none and list(Path(scratch).glob("state/*/_metadata")):
            problem = "the query has a stateful operator, and had none"
    if problem is not None:
        raise _changed(directory, problem)


def _planned(internals: Internals, plan: Any, mode: str, state: str, batch: int, metadata: str) -> str | None:
    """Why the batch does not fit, None if it does."""
    try:
        internals.plan_batch(plan, mode, state, batch, metadata)
    except (PySparkException, Py4JError) as e:
        said = _text(e)
        if found := _REFUSALS.search(said):
            return said[found.end() :] or found[1]
        # The query will say it again, and then it is an error of the query.
        log.info("its next batch could not be planned ahead: %s", said)
    return None


def _text(error: PySparkException | Py4JError) -> str:
    """All that Spark says, in one line: the names of the operators stand in the later ones."""
    try:
        said = str(java_causes(error)[-1].getMessage() if isinstance(error, Py4JJavaError) else error)
    except Py4JError:
        said = one_line(error)
    return " ".join(said.partition("SQLSTATE")[0].partition("JVM stacktrace")[0].split())[:LONGEST].rstrip(
        "."
    )


def _refuse_sources(directory: CheckpointDir, sources: Sequence[str], positions: Sequence[str]) -> None:
    if len(sources) != len(positions):
        raise _changed(directory, f"it had {len(positions)} sources and has {len(sources)}")
    for index, (source, position) in enumerate(zip(sources, positions, strict=True)):
        before, now = _kind_of_position(position), _kind_of_source(source)
        if before and now and before != now:
            raise _changed(
                directory, f"source {index} was {before} at {position[:100]} and is {now} ({source[:100]})"
            )


def _changed(directory: CheckpointDir, problem: str) -> QueryChanged:
    return QueryChanged(
        f"the script's query does not fit the state in {directory.uri}: {problem}",
        remedy="Start the script that wrote it, or restore a savepoint of this query; nothing was written",
    )


def _sources(plan: Any) -> list[str] | None:
    """Names of the plan's sources, as many and in the order of the offset log; None if one is not of a kind that is known."""
    leaves: Any = plan.collectLeaves()
    found = [leaf for leaf in (leaves.apply(i) for i in range(leaves.size())) if leaf.isStreaming()]
    if any(str(leaf.getClass().getSimpleName()) not in _SOURCES for leaf in found):
        return None
    return [str(leaf.sourceName()) for leaf in found]


def _kind_of_source(name: str) -> str | None:
    if name.startswith("FileSource"):
        return "files"
    return {"kafka": "Kafka", "rate": "rate"}.get(name.lower())


def _kind_of_position(text: str) -> str | None:
    """Of those that can be told from it, None for others and for none: `{"logOffset":3}`, `{"topic":{"0":17}}`, `17`."""
    try:
        position = json.loads(text)
    except ValueError:
        return None
    if isinstance(position, int):
        return "rate"
    if not isinstance(position, dict) or not position:
        return None
    if position.keys() == {"logOffset"}:
        return "files"
    topics = all(isinstance(p, dict) and all(k.isdigit() for k in p) for p in position.values())
    return "Kafka" if topics else None
