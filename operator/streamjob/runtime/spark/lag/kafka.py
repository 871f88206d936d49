"""The lag behind Kafka topics: offsets, and the age of the oldest record that is not committed.

From org.apache.kafka.clients.consumer.KafkaConsumer. The consumer joins no group and commits nothing.
"""

from __future__ import annotations

from typing import Any

from ....protocol.messages.figures import Lag
from ..sources.kafka_offsets import Consumer, Range
from ..sources.plan_sources import Source, kafka_positions

SECONDS = 5.0  # to read one record of each partition that has some left


class KafkaLag:
    """Implements `Meter`. Keeps one connection to the brokers open."""

    def __init__(self, jvm: Any, source: Source) -> None:
        self._jvm = jvm
        self._source = source
        self._consumer: Consumer | None = None

    def measure(self, position: str | None, now: float) -> Lag | None:
        read = kafka_positions(position or "")
        if not read:
            return None  # where it is going to begin is not decided yet
        consumer = self._connected()
        try:
            ranges = consumer.ranges({topic for topic, _ in read} | (self._source.topics or set()))
            left = self._left(ranges, read)
            if not left:
                return Lag(rows=0, seconds=0.0)
            oldest = consumer.first_timestamps({p: begin for p, (begin, _) in left.items()}, SECONDS)
        except Exception:
            self.close()  # a new connection the next time
            raise
        rows = sum(end - begin for begin, end in left.values())
        return Lag(rows=rows, seconds=round(max(now - oldest / 1000, 0.0), 1) if oldest is not None else None)

    def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _connected(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._jvm, self._source.options)
        return self._consumer

    def _left(
        self, ranges: dict[tuple[str, int], Range], read: dict[tuple[str, int], int]
    ) -> dict[tuple[str, int], tuple[int, int]]:
        """The partitions that have something left: first offset, and the offset after the last.

        Spark reads a new partition from its beginning.
        """
        wanted = self._source.subscribed()
        found = {}
        for partition, offsets in ranges.items():
            if partition not in read and (wanted is None or not wanted(*partition)):
                continue
            begin = max(read.get(partition, 0), offsets.earliest)
            if begin < offsets.latest:
                found[partition] = (begin, offsets.latest)
        return found
