"""Resume with another version of Spark: what it certainly cannot read is refused, the rest is Spark's to try.

Spark reads what an older version wrote. It does not promise to read what a newer one wrote, but often does.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ...query import endpoints
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.engine import Engine
from ...spark.versions.table import line, order

log = logging.getLogger("streamjob")


class CheckpointOfNewerSpark(StreamJobError):
    """Spark refuses it, too, but only when the query has started, and names no version."""

    reason: ClassVar[str] = "CheckpointOfNewerSpark"


def refuse_newer(directory: CheckpointDir, engine: Engine) -> list[Problem]:
    """Check a checkpoint directory before its query starts. Writes nothing.

    :param directory: it need not exist.
    :returns: a warning if a newer version of Spark wrote it.
    :raises CheckpointOfNewerSpark: it has a log in a format that this Spark cannot read.
    """
    spark = engine.files.spark.version
    noted = endpoints.noted(directory)
    writer = noted.spark if noted is not None else None
    traits = engine.internals.traits
    for name, readable in (("offsets", traits.offset_log), ("commits", traits.commit_log)):
        newest = max(directory.batches(name), default=None)
        found = directory.log_version(name, newest) if newest is not None else 0
        if found > readable:
            who = f"Spark {writer}" if writer else "a newer Spark"
            raise CheckpointOfNewerSpark(
                f"{who} wrote {directory.uri}: its log `{name}` has format {found}, and Spark {spark} reads "
                f"format {readable} and older ones",
                remedy=f"Use {f'Spark {line(writer)}' if writer else 'the Spark that wrote it'} again, or "
                "restore a savepoint that is older than the change",
            )
    if writer is None or order(line(writer)) <= order(line(spark)):
        return []
    text = (
        f"Spark {writer} wrote {directory.uri}, and this is Spark {spark}: Spark does not promise to read "
        "what a newer version wrote"
    )
    log.warning("%s", text)
    return [Problem("SparkIsOlder", text, f"Use Spark {line(writer)} again if the query fails")]
