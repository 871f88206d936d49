"""Both formats of the offset log, without Spark."""

from __future__ import annotations

import pytest

from streamjob.runtime.spark.offset_log import NAMES_SOURCES, BadEntry, parse, recovered

CONF = f'{{"spark.sql.shuffle.partitions":"2","{NAMES_SOURCES}":"true"}}'
METADATA = f'{{"batchWatermarkMs":7,"batchTimestampMs":1,"conf":{CONF}}}'
ONE = 'v1\n{"batchWatermarkMs":7}\n{"logOffset":3}\n-'
TWO = f'v2\n{METADATA}\nreturns:-\norders:{{"orders":{{"0":17}}}}\nticks:5'


def test_the_keys_of_format_1_are_numbers() -> None:
    entry = parse(ONE)
    assert (entry.format, entry.watermark, entry.names_sources) == (1, 7, False)
    assert entry.offsets == {"0": '{"logOffset":3}', "1": None}
    assert entry.serialize() == ONE.encode()


def test_the_keys_of_format_2_are_the_names_that_the_script_gave() -> None:
    entry = parse(TWO)
    assert (entry.format, entry.names_sources) == (2, True)
    assert entry.settings["spark.sql.shuffle.partitions"] == "2"
    assert dict(entry.offsets) == {"orders": '{"orders":{"0":17}}', "returns": None, "ticks": "5"}
    assert parse(entry.serialize().decode()) == entry


def test_format_2_without_names_has_numbers_in_any_order() -> None:
    entry = parse('v2\n{"batchWatermarkMs":0}\n10:{"logOffset":0}\n9:{"logOffset":1}')
    assert list(entry.offsets.items()) == [("9", '{"logOffset":1}'), ("10", '{"logOffset":0}')]
    assert not entry.names_sources


def test_a_change_of_the_metadata_leaves_the_rest() -> None:
    entry = parse(TWO).changed(batchWatermarkMs=9)
    assert (entry.watermark, entry.metadata["batchTimestampMs"], entry.offsets) == (9, 1, parse(TWO).offsets)
    assert set(entry.without_offsets().offsets.items()) == {(k, None) for k in ("orders", "returns", "ticks")}


def test_spark_takes_what_the_last_entry_lacks_from_the_one_before() -> None:
    before = parse('v2\n{"batchWatermarkMs":0}\na:1\nb:1\nc:1')
    latest = parse('v2\n{"batchWatermarkMs":0}\na:2\nb:-')
    assert recovered(latest, before) == {"a": "2", "b": "1", "c": "1"}
    assert recovered(latest, None) == {"a": "2"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no offset log entry"),
        ("v1", "no offset log entry"),
        ('v3\n{"batchWatermarkMs":0}', "no offset log entry of format 1 or 2"),
        ('v1\n{"batchWatermarkMs":', "cut off"),
        ("v1\n[]", "cut off or not JSON"),
        ('v1\n{"conf":{}}\n-', "no watermark"),
        ('v2\n{"batchWatermarkMs":0}\n17', "without its source's key"),
    ],
)
def test_what_is_no_entry(text: str, why: str) -> None:
    with pytest.raises(BadEntry, match=why):
        parse(text)
