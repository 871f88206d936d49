"""The dry run: checks, before Spark writes anything, that a query fits the state that it resumes from.

Spark compares a query's operators and their schemas with the checkpoint when it plans the first batch. By
then the batch is in the offset log, and a script that was changed by mistake must be changed back before
anything else can run. The dry run plans that batch beforehand, against a copy of the state's metadata:
Spark's own rules apply, and the checkpoint stays untouched (ADR 14).
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ....jvm.causes import schema_difference
from ....jvm.errors import LONGEST, java_causes, one_line
from ....protocol.messages.driver_status import Problem
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.handles import analyzed_plan, jvm, session_of
from ...spark.internals import Internals
from ...spark.sources.plan_sources import sources_of
from .sources import changed, refuse_other_sources

log = logging.getLogger("streamjob")

# Error conditions with which Spark refuses a changed query. Other planning errors are left to the query.
_NO_STATE = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"  # since Spark 4.3
_REFUSALS = re.compile(
    rf"\[({_NO_STATE}|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    r"|STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_\w*SCHEMA\w*"
    r"|STATE_STORE_INVALID_(?:CONFIG_AFTER_RESTART|VARIABLE_TYPE_CHANGE))\b[^\]]*\] *"
)

NEWLY_STATEFUL = "the query has a stateful operator, and had none"


def compare_sources(
    writer: DataStreamWriter,
    directory: CheckpointDir,
    *,
    fed: Callable[[str], bool] | None = lambda was: False,
) -> list[Problem]:
    """Compare the query's sources with those of the directory's last batch. There must be one.

    :param fed: as `refuse_other_sources`.
    :returns: warnings for the user.
    :raises QueryChanged: they differ.
    """
    if (sources := sources_of(writer)) is None:
        return []
    return refuse_other_sources(directory, sources, jvm(session_of(writer)), fed=fed)


def refuse_changed(
    writer: DataStreamWriter,
    mode: str | None,
    directory: CheckpointDir,
    internals: Internals,
    *,
    fed: Callable[[str], bool] | None = lambda was: False,
) -> list[Problem]:
    """Compare the query's sources with its checkpoint, and plan its next batch in a dry run.

    :param mode: the query's output mode, None if the script sets none.
    :param fed: as `refuse_other_sources`.
    :returns: warnings for the user.
    :raises QueryChanged: sources, stateful operators or schemas differ from those of the directory's last
        batch.
    """
    latest, committed = directory.latest_offset(), directory.latest_commit()
    if latest is None:
        return []
    warnings = compare_sources(writer, directory, fed=fed)
    plan = analyzed_plan(writer)
    metadata = directory.entry(latest).metadata
    batch = latest if committed != latest else latest + 1
    with tempfile.TemporaryDirectory(prefix="streamjob-dry-run-") as scratch:
        described = directory.describes_state()
        if directory.has_state() and not described:
            return warnings  # written by Spark before 3.5, which stored no operator metadata
        for path in described:
            directory.files.copy(f"{directory.uri}/{path}", f"file:{scratch}/{path}")
        before = directory.stateful_operators() if committed is not None else None
        problem = _planned(
            internals, plan, mode or "append", f"file:{scratch}/state", batch, json.dumps(metadata), before
        )
        had_none = committed is not None and not described
        if problem is None and had_none and list(Path(scratch).glob("state/*/_metadata")):
            problem = NEWLY_STATEFUL
    if problem is not None:
        raise changed(directory, problem)
    return warnings


def _planned(
    internals: Internals,
    plan: Any,
    mode: str,
    state: str,
    batch: int,
    metadata: str,
    before: frozenset[int] | None,
) -> str | None:
    """Why the batch does not fit the state. None if it does, or if planning failed for another reason.

    :param before: numbers of the stateful operators in the checkpoint, None if they are not known. Compared
        only if Spark does not compare the operators by itself.
    """
    try:
        now = internals.plan_batch(plan, mode, state, batch, metadata)
    except (PySparkException, Py4JError) as e:
        said = _text(e)
        if found := _REFUSALS.search(said):
            if found[1] == _NO_STATE:
                return NEWLY_STATEFUL
            return schema_difference(said) or said[found.end() :][:LONGEST] or found[1]
        # If this is a real error, the query itself fails with it.
        log.info("its next batch could not be planned ahead: %s", said[:LONGEST])
        return None
    if now is None or before is None or now == before:
        return None
    return f"the query had {len(before)} stateful operators and has {len(now)}" if before else NEWLY_STATEFUL


def _text(error: PySparkException | Py4JError) -> str:
    """Spark's whole message in one line: the names of the operators are in its later lines."""
    try:
        said = str(java_causes(error)[-1].getMessage() if isinstance(error, Py4JJavaError) else error)
    except Py4JError:
        said = one_line(error)
    return " ".join(said.partition("SQLSTATE")[0].partition("JVM stacktrace")[0].split()).rstrip(".")
