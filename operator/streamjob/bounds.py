"""Inputs that end although Spark's source does not know it: the script says when (FLIP-147: "sources run out").

    from streamjob import job

    end = job.KafkaEnd("orders", {0: 1200, 1: 900})                  # partition → the first offset that is not read
    rows = spark.readStream.format("kafka")….load().where(end.rows)
    job.bounded(end, query="orders")

    job.bounded(job.MarkerFile("/data/in/_END"), query="files")      # what lies there by then is the input
    job.bounded(lambda offsets: offsets[0]["done"], query="ticks")   # a source of its own says so in its offset

The query then ends as one with `availableNow` does: its windows fire, its hooks are called, it finishes with the next checkpoint,
and the other queries of the job run on. `python app.py` without the runtime runs until somebody stops it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from .protocol.errors import StreamJobError
from .shards import hadoop_files

# The sources' end offsets in the last committed batch, as in Spark's offset log, parsed. True: the input has ended.
Bound = Callable[[Sequence[Any]], bool]


class BadBound(StreamJobError):
    """What is said of an input's end cannot be, or a script's own function for it has failed."""

    reason: ClassVar[str] = "BadBound"


@dataclass(frozen=True)
class KafkaEnd:
    """The rows of `topic` before these offsets, by partition. Partitions that are not named are not read.

    Spark's source goes on beyond them in the batch in which it meets them, so the query has to keep to `rows`.
    """

    topic: str
    offsets: Mapping[int, int]

    def __post_init__(self) -> None:
        """:raises BadBound: not offsets by partition."""
        numbers = [*self.offsets, *self.offsets.values()]
        if not self.offsets or any(type(n) is not int or n < 0 for n in numbers):
            raise BadBound(
                f"the end of topic {self.topic!r} is said by partition, as {{0: 1200, 1: 900}}, not {self.offsets!r}",
                remedy="Give each partition the first offset that is not to be read",
            )

    @property
    def rows(self) -> str:
        """For `where()`: the columns are those of Spark's Kafka source; rows of other topics pass."""
        topic = self.topic.replace("\\", "\\\\").replace("'", "\\'")
        each = " OR ".join(f"(partition = {p} AND offset < {end})" for p, end in sorted(self.offsets.items()))
        return f"topic <> '{topic}' OR {each}"

    def __call__(self, offsets: Sequence[Any]) -> bool:
        read: dict[str, int] = {}
        for source in offsets:
            if isinstance(source, dict) and isinstance(source.get(self.topic), dict):
                read |= source[self.topic]
        return all(read.get(str(p), 0) >= end for p, end in self.offsets.items())


@dataclass(frozen=True)
class MarkerFile:
    """The input has ended when this file is there. What lies in the source's folder then is read to the end first, so whoever
    writes the marker writes it last. Spark's file source does not read names that begin with `_` or `.`."""

    uri: str

    def __call__(self, offsets: Sequence[Any]) -> bool:
        return hadoop_files(self.uri).exists(self.uri)


def leaves_rest(bound: Bound) -> bool:
    """It says that nothing more comes; what has come may not all be read."""
    return isinstance(bound, MarkerFile)


_bounds: dict[str, Bound] = {}


def bounded(bound: Bound, query: str) -> None:
    """:raises BadBound: the query has another one, or `bound` is none."""
    if not callable(bound) or query in _bounds:
        raise BadBound(
            f"query {query!r} has an end already" if callable(bound) else f"{bound!r} says no end",
            remedy="Call job.bounded() once for a query, with a KafkaEnd, a MarkerFile or a function",
        )
    _bounds[query] = bound


def of(query: str) -> Bound | None:
    """None if the script has not said when its input ends."""
    return _bounds.get(query)


def queries() -> list[str]:
    """Of which an end is declared."""
    return list(_bounds)
