"""Asks Kafka for the offsets of topics, through the driver's JVM.

If a query reads Kafka, the JVM has the connector's classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SECONDS = 10  # timeout of a request; if no broker answers in time, the query itself reports it
PREFIX = "kafka."  # of the source options that Spark passes on to Kafka
BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_OFFSET = re.compile(r"([A-Za-z0-9._-]+)-([0-9]+)=([0-9]+)")  # a topic's name has no other characters


class Range(NamedTuple):
    """The offsets of a partition.

    :param earliest: the first offset that exists.
    :param latest: the offset that the next record gets.
    """

    earliest: int
    latest: int


def available(jvm: Any, options: Mapping[str, str], topics: Iterable[str]) -> dict[tuple[str, int], Range]:
    """The offsets of all partitions of the topics.

    :param options: those of Spark's Kafka source, keys in lower case.
    :returns: (topic, partition) → range. A topic that does not exist has no partitions.
    :raises Py4JError: Kafka did not answer, or there is no connector.
    """
    settings = jvm.java.util.HashMap()
    for key, value in options.items():
        if key.startswith(PREFIX):
            settings.put(key.removeprefix(PREFIX), value)
    # This only reads metadata. It joins no consumer group, and the request must not create a topic.
    for key, value in {
        "key.deserializer": BYTES,
        "value.deserializer": BYTES,
        "allow.auto.create.topics": "false",
        "enable.auto.commit": "false",
    }.items():
        settings.put(key, value)
    patience = jvm.java.time.Duration.ofSeconds(SECONDS)
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    try:
        partitions = jvm.java.util.ArrayList()
        for topic in topics:
            for found in consumer.partitionsFor(topic, patience) or ():
                partitions.add(jvm.org.apache.kafka.common.TopicPartition(topic, found.partition()))
        # Read the maps as text: py4j would make a call for each key and each value.
        earliest = _offsets(str(consumer.beginningOffsets(partitions, patience).toString()))
        latest = _offsets(str(consumer.endOffsets(partitions, patience).toString()))
    finally:
        consumer.close(jvm.java.time.Duration.ofSeconds(1))
    return {p: Range(first, latest[p]) for p, first in earliest.items() if p in latest}


def _offsets(text: str) -> dict[tuple[str, int], int]:
    return {(topic, int(number)): int(offset) for topic, number, offset in _OFFSET.findall(text)}
