"""The root cause in what Spark says of a query that has failed: `data/` has its texts, with fewer frames."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.jvm.causes import root_cause, schema_difference

CASES = Path(__file__).parent / "data"  # the expected line; below it, what Spark says


@pytest.mark.parametrize("case", sorted(CASES.glob("*.txt")), ids=lambda case: case.stem)
def test_the_root_cause_is_said_first(case: Path) -> None:
    said, _, text = case.read_text().partition("\n---\n")
    assert root_cause([text]) == said


@pytest.mark.parametrize("text", ["first\nsecond", "\n first ", "first", "first: of all\n"])
def test_a_message_without_causes_is_its_first_line(text: str) -> None:
    assert root_cause([text]) == text.strip().splitlines()[0]


def test_nothing_is_said_of_nothing() -> None:
    assert root_cause(["", "\tat org.apache.spark.Foo.bar(Foo.scala:1)"]) == ""


OLD_SPARK = """Provided schema doesn't match to the schema for existing state! Please note that Spark allow \
difference of field name: check count of fields and data type of each field.
- Provided key schema: StructType(StructField(k,StringType,true))
- Provided value schema: StructType(StructField(n,LongType,false),StructField(at,StructType(StructField(a,\
DateType,true)),true))
- Existing key schema: StructType(StructField(k,StringType,true))
- Existing value schema: StructType(StructField(n,IntegerType,false))
- State schema checks: keep"""


def test_the_difference_of_several_schemas_is_said_for_each() -> None:
    said = schema_difference(OLD_SPARK)
    assert said == (
        "value: at (StructType(StructField(a,DateType,true))) is new, n was integer and is long"
    ), "what is equal is left out"


def test_schemas_that_differ_only_in_what_may_be_null() -> None:
    text = "Existing value_schema=StructType(StructField(n,LongType,false)) and new value_schema=" + (
        "StructType(StructField(n,LongType,true))"
    )
    assert schema_difference(text) == "only their order, or whether they may be null, differs"


def test_a_schema_that_was_cut_is_compared_as_far_as_it_goes() -> None:
    text = (
        "Existing key_schema=StructType(StructField(a,LongType,true)) new key_schema=StructType(StructField(b"
    )
    assert schema_difference(text) == "key: b () is new, a (long) is gone"


def test_there_is_no_difference_without_two_schemas() -> None:
    assert schema_difference("Existing key_schema=StructType(StructField(a,LongType,true))") is None
