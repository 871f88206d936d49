"""Asks Kafka for the offsets of topics, through the driver's JVM.

If a query reads Kafka, the JVM has the connector's classes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SECONDS = 10  # timeout of a request; if no broker answers in time, the query itself reports it
PREFIX = "kafka."  # of the source options that Spark passes on to Kafka
BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
# It joins no group, and a request must not create a topic. A fetch brings one batch of records.
SETTINGS = {
    "key.deserializer": BYTES,
    "value.deserializer": BYTES,
    "allow.auto.create.topics": "false",
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "fetch.max.bytes": "1",
    "max.partition.fetch.bytes": "1",
}
_OFFSET = re.compile(r"([A-Za-z0-9._-]+)-([0-9]+)=([0-9]+)")  # a topic's name has no other characters


class Range(NamedTuple):
    """The offsets of a partition.

    :param earliest: the first offset that exists.
    :param latest: the offset that the next record gets.
    """

    earliest: int
    latest: int


class Consumer:
    """A KafkaConsumer that reads without a group. Used by one thread at a time.

    Every method raises Py4JError if Kafka does not answer, or there is no connector.

    :param options: those of Spark's Kafka source, keys in lower case.
    """

    def __init__(self, jvm: Any, options: Mapping[str, str]) -> None:
        self._jvm = jvm
        settings = jvm.java.util.HashMap()
        for key, value in options.items():
            if key.startswith(PREFIX):
                settings.put(key.removeprefix(PREFIX), value)
        for key, value in SETTINGS.items():
            settings.put(key, value)
        self._patience = jvm.java.time.Duration.ofSeconds(SECONDS)
        self._consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)

    def ranges(self, topics: Iterable[str]) -> dict[tuple[str, int], Range]:
        """The offsets of all partitions of the topics. A topic that does not exist has no partitions."""
        partitions = self._jvm.java.util.ArrayList()
        for topic in topics:
            for found in self._consumer.partitionsFor(topic, self._patience) or ():
                partitions.add(self._partition(topic, found.partition()))
        # Read the maps as text: py4j would make a call for each key and each value.
        earliest = _offsets(str(self._consumer.beginningOffsets(partitions, self._patience).toString()))
        latest = _offsets(str(self._consumer.endOffsets(partitions, self._patience).toString()))
        return {p: Range(first, latest[p]) for p, first in earliest.items() if p in latest}

    def first_timestamps(self, begin: Mapping[tuple[str, int], int], seconds: float) -> int | None:
        """The oldest timestamp of the first records of partitions, in milliseconds since 1970.

        Reads one batch of records of each partition.

        :param begin: (topic, partition) → the offset from which on a record is looked for.
        :param seconds: to wait for all partitions.
        :returns: None if no record came.
        """
        partitions = [self._partition(*p) for p in begin]
        self._consumer.assign(partitions)
        self._consumer.resume(partitions)  # those that the last call has paused
        for partition, offset in zip(partitions, begin.values(), strict=True):
            self._consumer.seek(partition, offset)
        deadline, oldest = time.monotonic() + seconds, None
        missing = len(partitions)
        while missing and (rest := deadline - time.monotonic()) > 0:
            records = self._consumer.poll(self._jvm.java.time.Duration.ofMillis(int(rest * 1000)))
            arrived = list(records.partitions())
            for partition in arrived:
                at = int(records.records(partition).get(0).timestamp())
                if at >= 0:  # records of Kafka before 0.10 have none
                    oldest = at if oldest is None else min(oldest, at)
            self._consumer.pause(arrived)
            missing -= len(arrived)
        return oldest

    def close(self) -> None:
        self._consumer.close(self._jvm.java.time.Duration.ofSeconds(1))

    def _partition(self, topic: str, number: int) -> Any:
        return self._jvm.org.apache.kafka.common.TopicPartition(topic, number)


def available(jvm: Any, options: Mapping[str, str], topics: Iterable[str]) -> dict[tuple[str, int], Range]:
    """As `Consumer.ranges`, with a connection of its own."""
    consumer = Consumer(jvm, options)
    try:
        return consumer.ranges(topics)
    finally:
        consumer.close()


def _offsets(text: str) -> dict[tuple[str, int], int]:
    return {(topic, int(number)): int(offset) for topic, number, offset in _OFFSET.findall(text)}
