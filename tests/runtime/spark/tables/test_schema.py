"""Which columns of a query a Delta table does not take. `tests/spark/test_table_schemas.py` asks Delta."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
)

from streamjob.runtime.spark.tables.schema import unfit


def rows(**columns: DataType) -> StructType:
    made = StructType()
    for name, of in columns.items():
        made.add(name, of)
    return made


PAIR, ONE = rows(a=LongType(), b=LongType()), rows(a=LongType())


@pytest.mark.parametrize(
    ("query", "table", "expected"),
    [
        (rows(v=LongType()), rows(V=IntegerType(), k=StringType()), []),
        (rows(v=StringType()), rows(v=DateType()), []),
        (rows(v=LongType(), k=StringType()), rows(v=LongType()), ["the table has no column k"]),
        (rows(v=LongType()), rows(v=DateType()), ["v is bigint in the query and date in the table"]),
        (rows(v=PAIR), rows(v=ONE), ["the table has no column v.b"]),
        (rows(v=ArrayType(PAIR)), rows(v=ArrayType(ONE)), ["the table has no column v.element.b"]),
        (
            rows(v=MapType(StringType(), PAIR)),
            rows(v=MapType(StringType(), ONE)),
            ["the table has no column v.value.b"],
        ),
        (rows(v=ONE), rows(v=StringType()), ["v is struct<a:bigint> in the query and string in the table"]),
    ],
)
def test_what_the_table_does_not_take(query: StructType, table: StructType, expected: list[str]) -> None:
    assert list(unfit(query, table)) == expected
