"""The versions of the tables that a job writes to, for the manifest of a savepoint.

Whoever restores an older savepoint first brings the tables back to these versions.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ...jvm.errors import one_line
from ...protocol.formats.manifest import TableVersion
from ...protocol.formats.records import CheckpointRecord
from ..spark.tables.find import MissingTable, OtherTable
from ..spark.tables.table import NEWEST
from .run import Run

log = logging.getLogger("streamjob")


def table_versions(stages: Collection[Run], record: CheckpointRecord) -> tuple[TableVersion, ...]:
    """The version of each task's table that has the task's batch in `record` and none behind it.

    A table that cannot be read is left out: a savepoint does not depend on it.
    """
    batches = {(s.uid, t.index): t.batch for s in record.stages for t in s.tasks}
    found = (_version(run, batches.get((run.uid, run.name.index))) for run in stages)
    return tuple(version for version in found if version is not None)


def _version(run: Run, batch: int | None) -> TableVersion | None:
    try:
        table, query_id = run.find_table(), run.directory.query_id()
        if table is None or isinstance(table, MissingTable | OtherTable) or query_id is None or batch is None:
            return None
        commits = table.commits(query_id, NEWEST)
    except (PySparkException, Py4JError) as e:
        log.warning("stage %s: the version of its table is not known: %s", run.task, one_line(e))
        return None
    version = next((c.version for c in commits if c.batch <= batch), None)
    if version is None:
        return None
    return TableVersion(run.uid, run.name.index, table.format, table.name, version)
