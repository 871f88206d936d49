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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.messages import Problem
from ..jvm.errors import LONGEST, java_causes, one_line
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.handles import analyzed_plan, jvm, session_of
from ..spark.internals import Internals
from ..spark.plan_sources import sources_of_plan
from .check_sources import changed, refuse_other_sources

log = logging.getLogger("streamjob")

# Error conditions by which Spark refuses; with any other, what could not be planned here is left to the query itself.
_REFUSALS = re.compile(
    r"\[(STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    r"|STATE_STORE_(?:KEY|VALUE)_SCHEMA_NOT_COMPATIBLE|STATE_STORE_\w*SCHEMA\w*"
    r"|STATE_STORE_INVALID_(?:CONFIG_AFTER_RESTART|VARIABLE_TYPE_CHANGE))\b[^\]]*\] *"
)


def refuse_changed(
    writer: DataStreamWriter,
    mode: str | None,
    directory: CheckpointDir,
    internals: Internals | None,
    *,
    fed: Callable[[str], bool] | None = lambda was: False,
) -> list[Problem]:
    """:param mode: the query's output mode, None if the script has not said one. :param fed: as `refuse_other_sources`.
    :returns: what should be told.
    :raises QueryChanged: other sources, stateful operators or schemas than those of the directory's last batch."""
    latest, committed = directory.latest_offset(), directory.latest_commit()
    if latest is None:
        return []
    plan = analyzed_plan(writer)
    version, metadata, positions = directory.entry(latest)
    told: list[Problem] = []
    if (sources := sources_of_plan(plan)) is not None:
        known = positions if version == "v1" else ["-"] * len(positions)
        told = refuse_other_sources(directory, sources, known, jvm(session_of(writer)), fed=fed)
    if internals is None:
        return told
    batch = latest if committed != latest else latest + 1
    with tempfile.TemporaryDirectory(prefix="streamjob-rehearsal-") as scratch:
        described = directory.describes_state()
        if directory.has_state() and not described:
            return told  # by a Spark before 3.5, which did not write down what its operators are
        for path in described:
            directory.files.copy(f"{directory.uri}/{path}", f"file:{scratch}/{path}")
        problem = _planned(
            internals, plan, mode or "append", f"file:{scratch}/state", batch, json.dumps(metadata)
        )
        had_none = committed is not None and not described
        if problem is None and had_none and list(Path(scratch).glob("state/*/_metadata")):
            problem = "the query has a stateful operator, and had none"
    if problem is not None:
        raise changed(directory, problem)
    return told


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
