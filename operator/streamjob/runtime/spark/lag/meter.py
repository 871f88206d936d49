"""Which source is measured how."""

from __future__ import annotations

import re
from typing import Any, Protocol

from ....protocol.messages.figures import Lag
from ..checkpoint_dir import CheckpointDir
from ..sources.plan_sources import Source
from .delta import DeltaLag
from .files import FilesLag
from .kafka import KafkaLag

# As org.apache.spark.sql.delta.sources.DeltaSource describes itself.
_DELTA = re.compile(r"DeltaSource\[(.+)\]")


class Meter(Protocol):
    """Measures one source of one run. Used by one thread at a time."""

    def measure(self, position: str | None, now: float) -> Lag | None:
        """The lag behind what the source holds now.

        :param position: up to which the query has committed, as in the offset log; None before its first
            batch.
        :param now: seconds since 1970.
        :returns: None if it cannot be known at the moment.
        """

    def close(self) -> None: ...


def meter_of(
    stream: Any, key: str, source: Source | None, directory: CheckpointDir, jvm: Any
) -> Meter | None:
    """The meter of a source, None for a source of another kind.

    :param stream: the JVM's source, a SparkDataStream of the running query.
    :param key: of the source in the offset log.
    :param source: the source as the query's plan has it, None if that is not known.
    """
    name = str(stream.getClass().getSimpleName())
    if name == "FileStreamSource":
        return FilesLag(stream, key, source, directory)
    if name.startswith("Kafka") and source is not None and source.kind == "Kafka":
        return KafkaLag(jvm, source)
    if (delta := _DELTA.fullmatch(str(stream.toString()))) is not None:
        return DeltaLag(directory.files, delta[1], source)
    return None
