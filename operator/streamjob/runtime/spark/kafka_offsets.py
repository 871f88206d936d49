"""What Kafka has of some topics, asked through the driver's JVM: where a query reads Kafka, the connector's classes are there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

SECONDS = 10  # for an answer; a broker that does not come by then is the query's problem
PREFIX = "kafka."  # of the source's options that are Kafka's own
BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_OFFSET = re.compile(r"([A-Za-z0-9._-]+)-([0-9]+)=([0-9]+)")  # a topic has no other characters


class Range(NamedTuple):
    """`earliest`: the first offset that is there; `latest`: the one that the next record gets."""

    earliest: int
    latest: int


def available(jvm: Any, options: Mapping[str, str], topics: Iterable[str]) -> dict[tuple[str, int], Range]:
    """All partitions of the topics, (topic, number) → its range. A topic that does not exist has none.

    :param options: of Spark's Kafka source, keys in lower case.
    :raises Py4JError: Kafka did not answer, or there is no connector.
    """
    settings = jvm.java.util.HashMap()
    for key, value in options.items():
        if key.startswith(PREFIX):
            settings.put(key.removeprefix(PREFIX), value)
    # Metadata are asked for, nothing is consumed: no group, and no topic made by asking for it.
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
        # As text: py4j would ask for each key and each value.
        earliest = _offsets(str(consumer.beginningOffsets(partitions, patience).toString()))
        latest = _offsets(str(consumer.endOffsets(partitions, patience).toString()))
    finally:
        consumer.close(jvm.java.time.Duration.ofSeconds(1))
    return {p: Range(first, latest[p]) for p, first in earliest.items() if p in latest}


def _offsets(text: str) -> dict[tuple[str, int], int]:
    return {(topic, int(number)): int(offset) for topic, number, offset in _OFFSET.findall(text)}
