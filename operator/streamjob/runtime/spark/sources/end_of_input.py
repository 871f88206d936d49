"""Whether a run that ends by itself has read everything that its sources held when it began.

Spark ends such a run when a source names no further position, and that alone proves nothing:

- `once` behind a batch that an earlier run has planned runs only that batch;
- `availableNow` does the same, if a source does not take part in it (`SupportsTriggerAvailableNow`): Spark
  then runs a single batch;
- a source with a minimum of rows (`ReadMinRows`, such as Kafka's minOffsetsPerTrigger) names nothing while
  less is left. `once` ignores limits;
- a Python source may hand out what it has in portions, one for each run.

From MicroBatchExecution of org.apache.spark.sql.execution.streaming, and SupportsAdmissionControl and
SupportsTriggerAvailableNow of org.apache.spark.sql.connector.read.streaming.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

ONCE, AVAILABLE_NOW = "OneTimeTrigger", "AvailableNowTrigger"  # as `Execution.trigger`
_READ = "org.apache.spark.sql.connector.read.streaming"
_MINIMUM = "ReadMinRows"
_COMPOSITE = "CompositeReadLimit"
# Without limits, and each position is all there is.
_UNLIMITED = frozenset({"RateStreamMicroBatchStream", "TextSocketMicroBatchStream", "MemoryStream"})


@dataclass(frozen=True)
class SourceTraits:
    """How a source answers a query that asks what there is.

    :param kind: the simple name of its class.
    :param available_now: it takes part in availableNow.
    :param admission: it takes limits, and so can be asked for all that it has.
    :param minimum: its limits have a minimum.
    """

    kind: str
    available_now: bool = False
    admission: bool = False
    minimum: bool = False

    @property
    def read_by_once(self) -> bool:
        """Whether `once` reads all that it has: it is asked for all. A script's class may answer anything."""
        return (self.admission and not self.in_python) or self.kind in _UNLIMITED

    @property
    def read_by_available_now(self) -> bool:
        """Whether `availableNow` reads all that it has at the start. One that takes part promises this."""
        return not self.minimum if self.available_now else self.read_by_once

    @property
    def in_python(self) -> bool:
        return self.kind.startswith("Python")


def read_by(trigger: str, sources: Sequence[SourceTraits], *, pending: bool = False) -> list[bool]:
    """Of which sources a run that has ended by itself must have read all that they held when it began.

    :param trigger: ONCE or AVAILABLE_NOW; any other trigger proves nothing.
    :param sources: those of the query, in the order of the offset log.
    :param pending: a batch was planned and not committed when the run began.
    """
    take_part = all(s.available_now for s in sources)
    if trigger not in (ONCE, AVAILABLE_NOW) or (pending and not (trigger == AVAILABLE_NOW and take_part)):
        return [False] * len(sources)
    if trigger == ONCE:
        return [s.read_by_once for s in sources]
    # If a source does not take part, all are asked for all in one batch, or (Spark 3.5) only that source is.
    return [s.read_by_available_now and (take_part or s.read_by_once) for s in sources]


def traits_of(stream: Any, jvm: Any) -> SourceTraits:
    """The traits of a source.

    :param stream: the JVM's source, a SparkDataStream.
    :raises Py4JError: the JVM does not answer.
    """
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()

    def implements(interface: str) -> bool:
        return bool(loader.loadClass(f"{_READ}.{interface}").isInstance(stream))

    found = SourceTraits(
        kind=str(stream.getClass().getSimpleName()),
        available_now=implements("SupportsTriggerAvailableNow"),
        admission=implements("SupportsAdmissionControl"),
    )
    if not found.admission or found.in_python:  # the Python process of an ended query does not answer
        return found
    return replace(found, minimum=_has_minimum(stream.getDefaultReadLimit()))


def _has_minimum(limit: Any) -> bool:
    kind = str(limit.getClass().getSimpleName())
    if kind == _COMPOSITE:
        return any(_has_minimum(part) for part in limit.getReadLimits())
    return kind == _MINIMUM
