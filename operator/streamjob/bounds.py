"""Bounded input whose end Spark's source cannot report: the script declares it (FLIP-147: "sources run out").

    from streamjob import job

    end = job.KafkaEnd("orders", {0: 1200, 1: 900})                  # partition → first offset not read
    rows = spark.readStream.format("kafka")….load().where(end.rows)
    job.bounded(end, query="orders")

    job.bounded(job.MarkerFile("/data/in/_END"), query="files")      # the input: all files present by then
    job.bounded(lambda offsets: offsets[0]["done"], query="ticks")   # a custom source: its offset says so

At the declared end the query ends as with `availableNow`: its windows fire, its hooks are called, and it
finishes with the next checkpoint. The other queries of the job keep running.
Without the runtime, `python app.py` runs until it is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from .protocol.errors import StreamJobError
from .shards import hadoop_files

# Takes the sources' end offsets of the last committed batch, parsed from Spark's offset log: a list in the
# order of the plan or, if the script names its sources (Spark 4.2), a dict with an offset for each name.
# Returns True once the input has ended.
Bound = Callable[[Any], bool]


class BadBound(StreamJobError):
    """A declared end of input is invalid, or the script's function for it has failed."""

    reason: ClassVar[str] = "BadBound"


@dataclass(frozen=True)
class KafkaEnd:
    """The rows of `topic` before these offsets, by partition. Partitions that are not listed are excluded.

    Spark's source reads past the offsets in the batch that reaches them, so the query must filter with
    `rows`.
    """

    topic: str
    offsets: Mapping[int, int]

    def __post_init__(self) -> None:
        """Check the offsets.

        :raises BadBound: there are none, or a partition or an offset is not an integer of 0 or more.
        """
        numbers = [*self.offsets, *self.offsets.values()]
        if not self.offsets or any(type(n) is not int or n < 0 for n in numbers):
            raise BadBound(
                f"the end of topic {self.topic!r} is said by partition, as {{0: 1200, 1: 900}}, not "
                f"{self.offsets!r}",
                remedy="Give each partition the first offset that is not to be read",
            )

    @property
    def rows(self) -> str:
        """A condition for `where()` on the columns of Spark's Kafka source. Rows of other topics pass."""
        topic = self.topic.replace("\\", "\\\\").replace("'", "\\'")
        each = " OR ".join(f"(partition = {p} AND offset < {end})" for p, end in sorted(self.offsets.items()))
        return f"topic <> '{topic}' OR {each}"

    def __call__(self, offsets: Any) -> bool:
        read: dict[str, int] = {}
        for source in offsets.values() if isinstance(offsets, dict) else offsets:
            if isinstance(source, dict) and isinstance(source.get(self.topic), dict):
                read |= source[self.topic]
        return all(read.get(str(p), 0) >= end for p, end in self.offsets.items())


@dataclass(frozen=True)
class MarkerFile:
    """The input ends when this file exists.

    The query first reads everything that is then in the source's folder, so the marker must be written last.
    Spark's file source ignores names that begin with `_` or `.`.
    """

    uri: str

    def __call__(self, offsets: Any) -> bool:
        return hadoop_files(self.uri).exists(self.uri)


def leaves_rest(bound: Bound) -> bool:
    """Whether the end is reported while input that has already arrived may still be unread."""
    return isinstance(bound, MarkerFile)


_bounds: dict[str, Bound] = {}


def bounded(bound: Bound, query: str) -> None:
    """Declare when the query's input ends.

    :raises BadBound: the query already has a declared end, or `bound` is not callable.
    """
    if not callable(bound) or query in _bounds:
        raise BadBound(
            f"query {query!r} has an end already" if callable(bound) else f"{bound!r} says no end",
            remedy="Call job.bounded() once for a query, with a KafkaEnd, a MarkerFile or a function",
        )
    _bounds[query] = bound


def of(query: str) -> Bound | None:
    """The declared end of the query's input, None if the script declared none."""
    return _bounds.get(query)


def queries() -> list[str]:
    """Names of the queries that have a declared end."""
    return list(_bounds)
