"""Splits of a source as list state: Kafka's offsets and the file source's log become entries, and entries
what a source reads.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.formats import splits
from streamjob.protocol.restore import finished


def partitions(topic: str, *positions: int | None) -> list[str]:
    return [splits.partition(topic, n, position) for n, position in enumerate(positions)]


def test_row9_kafka_offsets_become_positions_and_positions_starting_offsets() -> None:
    entries = partitions("flights", None, None, None)
    assert splits.kafka_options(entries) == {"assign": '{"flights": [0, 1, 2]}'}, (
        "a new query's own beginning"
    )
    after = splits.left(entries, ['{"flights":{"0":120,"2":7},"other":{"1":9}}'], ())
    assert after == ('["flights",0,120]', '["flights",1,null]', '["flights",2,7]')
    options = splits.kafka_options(after[1:])
    assert json.loads(options["assign"]) == {"flights": [1, 2]}
    assert json.loads(options["startingOffsets"]) == {"flights": {"1": -2, "2": 7}}
    assert splits.left(after, [None], ()) == after, "no batch of its own yet: it begins where it was told to"


def test_row9_a_partition_that_two_sources_read_goes_on_from_the_lower_position() -> None:
    positions = ['{"t":{"0":5}}', '{"t":{"0":3}}', '{"logOffset":4}', None]
    assert splits.left(partitions("t", 1), positions, ()) == ('["t",0,3]',)


@pytest.mark.parametrize(
    ("name", "logged"),
    [
        ("a.json", "file:///in/a.json"),
        ("a b,{c}.json", "file:///in/a%20b,%7Bc%7D.json"),
        ("ü.json", "file:/in/%C3%BC.json"),
    ],
)
def test_row9_files_that_were_read_are_left_no_more(name: str, logged: str) -> None:
    entries = [splits.file(f"file:/in/{name}"), splits.file("file:///in/other.json")]
    assert splits.left(entries, ['{"logOffset":0}'], [logged]) == ('"file:/in/other.json"',)


def test_row9_files_become_one_path_of_the_file_source() -> None:
    entries = [splits.file("s3a://b/in/a,1.json"), splits.file("s3a://b/in/b[2]{3}.json")]
    assert splits.glob("s3a://b/in", entries) == r"s3a://b/in/{a\,1.json,b\[2\]\{3\}.json}"
    nothing = splits.glob("/in/", [])
    assert nothing.startswith("/in/[")
    assert splits.key(entries[0]) == "files"
    assert splits.key(splits.partition("t", 3, 5)) == "kafka:t"


@given(
    st.lists(st.lists(st.integers(0, 50), max_size=6), min_size=1, max_size=5),
    st.integers(1, 6),
    st.data(),
)
def test_row9_however_often_they_are_dealt_every_partition_goes_on_once_where_it_was(
    topics: list[list[int]], parallelism: int, data: st.DataObject
) -> None:
    held = [tuple(partitions(f"t{i}", *positions)) for i, positions in enumerate(topics)]
    moved = {}
    for entry in [e for share in held for e in share]:
        topic, number, position = json.loads(entry)
        moved[topic, number] = position + data.draw(st.integers(0, 9))
    offsets: dict[str, dict[str, int]] = {}
    for (topic, number), position in moved.items():
        offsets.setdefault(topic, {})[str(number)] = position
    after = [splits.left(share, [json.dumps(offsets)], ()) for share in held]
    dealt = finished.redistribute(after, parallelism)
    found = [tuple(json.loads(e)) for share in dealt for e in share]
    assert sorted(found) == sorted((*split, position) for split, position in moved.items())
