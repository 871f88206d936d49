"""What differs between the versions of Spark: one entry for each major.minor.

Imports nothing of pyspark: a version that is too old is refused before pyspark is touched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ....protocol.errors import StreamJobError

OLDEST = "3.5"
_STREAMING = "org.apache.spark.sql.execution.streaming"


class SparkTooOld(StreamJobError):
    """No option helps: pyspark itself lacks what the runtime imports."""

    reason: ClassVar[str] = "SparkTooOld"


class SparkUnknown(StreamJobError):
    """Nobody has read the code of this Spark that a stop at a boundary and a drain rely on."""

    reason: ClassVar[str] = "SparkUnknown"


@dataclass(frozen=True)
class Traits:
    """How one version of Spark differs from the others. Names are those of Spark's classes and methods.

    :param execution: package of ACTIVE$, TERMINATED$, IncrementalExecution and WatermarkPropagator$.
    :param checkpoint: package of CheckpointFileManager$ and OffsetSeqMetadata$.
    :param stateful: package of StatefulOperator.
    :param one_round: the method of MicroBatchExecution that is on the stack during one round of the loop.
    :param takes_first_batch: IncrementalExecution takes `isFirstBatch`, and has defaults for what follows it.
    :param sets_sql_conf: `OffsetSeqMetadata.setSessionConf` takes a SQLConf, otherwise a RuntimeConfig.
    :param describes_operators: a query writes `state/N/_metadata`, and compares its operators with it.
    :param has_contexts: MicroBatchExecution keeps what it knows of its next batch in an execution context.
    :param drains_in_place: a query may be drained without a restart: the code that this relies on has been
        read, and it is tested.
    :param snapshots_at_rest: the same of a snapshot of the state outside of a batch.
    :param flush_settings: session settings, as pairs, for batches with a max watermark.
    :param offset_log: newest format of entries in `offsets/` that it reads.
    :param forgets_names: unless asked for format 2 of the offset log, it writes format 1, which lacks the
        names of sources.
    :param commit_log: newest format of entries in `commits/` that it reads.
    :param java: oldest Java that it runs on.
    """

    execution: str
    checkpoint: str
    stateful: str
    one_round: str = "executeOneBatch"
    takes_first_batch: bool = True
    sets_sql_conf: bool = True
    describes_operators: bool = True
    has_contexts: bool = True
    drains_in_place: bool = True
    snapshots_at_rest: bool = False
    flush_settings: tuple[tuple[str, str], ...] = ()
    offset_log: int = 1
    forgets_names: bool = False
    commit_log: int = 2
    java: int = 17


_4_0 = Traits(execution=_STREAMING, checkpoint=_STREAMING, stateful=_STREAMING)
_3_5 = replace(
    _4_0,
    one_round="$anonfun$runActivatedStream$1",
    takes_first_batch=False,
    sets_sql_conf=False,
    describes_operators=False,
    has_contexts=False,
    # A batch without input has other nullable columns than one with input, so the state of a join would be
    # refused as of another schema (StateSchemaNotCompatible).
    flush_settings=(("spark.sql.streaming.stateStore.stateSchemaCheck", "false"),),
    commit_log=1,
    java=8,
)
_4_1 = replace(
    _4_0,
    execution=f"{_STREAMING}.runtime",
    checkpoint=f"{_STREAMING}.checkpointing",
    stateful=f"{_STREAMING}.operators.stateful",
    snapshots_at_rest=True,  # before, a store forgets its version after each batch (`RocksDB.rollback`)
)
_4_2 = replace(_4_1, offset_log=2, commit_log=3, forgets_names=True)
_4_3 = replace(_4_2, forgets_names=False)

BY_VERSION = {"3.5": _3_5, "4.0": _4_0, "4.1": _4_1, "4.2": _4_2, "4.3": _4_3}


def line(version: str) -> str:
    """The major.minor of a version such as `4.1.4` or `4.2.0-SNAPSHOT`."""
    return ".".join(version.split(".")[:2])


def order(version: str) -> tuple[int, ...]:
    """A key that sorts versions by major.minor. Empty for a version that does not begin with numbers."""
    parts = line(version).split(".")
    return tuple(map(int, parts)) if all(p.isdigit() for p in parts) else ()


def known(version: str) -> Traits:
    """What is known of a version of Spark or pyspark. A new patch release of a known line is known.

    :raises SparkTooOld: it is older than OLDEST.
    :raises SparkUnknown: it is not in the table.
    """
    if order(version) and order(version) < order(OLDEST):
        raise SparkTooOld(
            f"this is Spark {version}, and StreamJob needs Spark {OLDEST} or newer",
            remedy=f"<Image-with> one of Spark {', '.join(BY_VERSION)}",
        )
    if (traits := BY_VERSION.get(line(version))) is None:
        oldest, *_, newest = BY_VERSION
        raise SparkUnknown(
            f"this is Spark {version}, StreamJob knows {oldest} to {newest}",
            remedy="Use the newest StreamJob, or an older image",
        )
    return traits
