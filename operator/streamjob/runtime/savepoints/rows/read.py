"""Reads state. What it reads from is never changed; of a savepoint it reads a copy on the local disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from ....protocol.errors import StreamJobError
from ....storage.hadoop import HadoopFiles
from ...spark.checkpoint_dir import CheckpointDir
from ..layout import SavepointIncomplete, read_manifest
from ..restore import restore


class StateUnreadable(StreamJobError):
    """The state cannot be shown, or what was asked for is not there."""

    reason: ClassVar[str] = "StateUnreadable"


@dataclass(frozen=True)
class StateLocation:
    """A checkpoint directory whose state is read.

    :param batch: the batch after which the state is shown.
    """

    directory: str
    batch: int


@dataclass(frozen=True)
class Store:
    """A state store of an operator, as `state-metadata` lists it."""

    operator: int
    name: str
    store: str
    partitions: int
    first_batch: int
    last_batch: int


def refuse_old_spark() -> None:
    """:raises StateUnreadable: this Spark has no state data source."""
    if int(pyspark.__version__.split(".")[0]) < 4:
        raise StateUnreadable(
            f"Spark {pyspark.__version__} cannot read state as rows",
            remedy="Spark 4.0 and newer can, also what 3.5 has written: run the command with such an image",
        )


def locate(
    files: HadoopFiles, uri: str, stage: str | None, task: int, batch: int | None, scratch: str
) -> StateLocation:
    """The checkpoint directory of one task.

    :param uri: a savepoint, or a checkpoint directory.
    :param stage: of a savepoint; None: the only one that has state.
    :param batch: of a checkpoint directory; None: the last committed one.
    :param scratch: an empty folder for the copy of a savepoint's files.
    :raises StateUnreadable: the savepoint has no such stage, or the directory no such batch.
    """
    try:
        record = read_manifest(files, uri).checkpoint
    except SavepointIncomplete:
        return _in_directory(files, uri, batch)
    stateful = {s.uid: s for s in record.stages if any(o.kind.value == "State" for o in s.operators)}
    if stage is None and len(stateful) == 1:
        stage = next(iter(stateful))
    found = stateful.get(stage or "")
    if found is None:
        raise StateUnreadable(
            f"stage {stage} of {uri} has no state"
            if stage
            else f"{uri} has {len(stateful)} stages with state",
            remedy=f"Choose one with --stage: {', '.join(stateful)}" if stateful else "",
        )
    chosen = next((t for t in found.tasks if t.index == task), None)
    if chosen is None or chosen.batch is None:
        raise StateUnreadable(f"task {task} of stage {found.uid} has no batch in {uri}")
    target = f"{scratch}/{found.uid}-{task}"
    restore(files, uri, found.uid, task, target)
    return StateLocation(target, chosen.batch)


def _in_directory(files: HadoopFiles, uri: str, batch: int | None) -> StateLocation:
    newest = CheckpointDir(files, uri).latest_commit()
    if newest is None:
        raise StateUnreadable(
            f"{uri} is neither a savepoint nor a checkpoint directory with a committed batch",
            remedy="Name a folder that has manifest.json, or one that has commits/",
        )
    return StateLocation(uri, newest if batch is None else batch)


def stores(spark: SparkSession, place: StateLocation) -> list[Store]:
    """The state stores of all operators."""
    rows = _collected(spark.read.format("state-metadata").load(place.directory))
    return [
        Store(
            row["operatorId"],
            row["operatorName"],
            row["stateStoreName"],
            row["numPartitions"],
            row["minBatchId"],
            row["maxBatchId"],
        )
        for row in rows
    ]


def rows(
    spark: SparkSession,
    place: StateLocation,
    operator: int,
    store: str,
    keys: Sequence[tuple[str, str]],
    limit: int,
    variable: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Rows of a state store: each has `key` and `value`, or what the operator's kind has in their place.

    :param keys: fields of the key and their values, as text; all have to be equal.
    :param variable: of transformWithState: the state variable.
    :raises StateUnreadable: Spark cannot read it, in Spark's words.
    """
    reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", place.batch)
    reader = reader.option("stateVarName", variable) if variable else reader.option("storeName", store)
    try:
        found = reader.load(place.directory)
        for field, value in keys:
            found = found.where(F.col(f"key.{field}").cast("string") == value)
    except PySparkException as e:
        raise _unreadable(e) from None
    for row in _collected(found.drop("partition_id").limit(limit).select(F.to_json(F.struct("*")))):
        yield json.loads(row[0])


def _collected(found: DataFrame) -> list[Any]:
    try:
        return found.collect()
    except (PySparkException, Py4JJavaError) as e:
        raise _unreadable(e) from None


def _unreadable(error: PySparkException | Py4JJavaError) -> StateUnreadable:
    text = str(error.java_exception if isinstance(error, Py4JJavaError) else error)
    first = text.strip().splitlines()[0]
    return StateUnreadable(
        f"Spark cannot read this state: {first[:500]}",
        remedy="See `state stores` for operators, stores and batches that are there",
    )
