"""Which columns of a query a Delta table does not take.

From what DeltaSink does (`tests/spark/test_table_schemas.py` shows each case with the real sink): it casts
between numbers, times and strings, and fails if a column is missing in the table or if a type has another
shape. Only what fails in every version counts here. Whether a value can be cast is known when it is written.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

SHAPES = (StructType, ArrayType, MapType)
FAMILIES = ((NumericType,), (BooleanType,), (DateType, TimestampType, TimestampNTZType))


def unfit(query: DataType, table: DataType, column: str = "") -> Iterator[str]:
    """What of a query's columns the table does not take, in words.

    :param column: the name of the column that has these types; none for the rows themselves.
    """
    if isinstance(query, StructType) and isinstance(table, StructType):
        there = {field.name.casefold(): field.dataType for field in table.fields}
        for field in query.fields:
            name = f"{column}.{field.name}" if column else field.name
            if field.name.casefold() not in there:
                yield f"the table has no column {name}"
            else:
                yield from unfit(field.dataType, there[field.name.casefold()], name)
    elif isinstance(query, ArrayType) and isinstance(table, ArrayType):
        yield from unfit(query.elementType, table.elementType, f"{column}.element")
    elif isinstance(query, MapType) and isinstance(table, MapType):
        yield from unfit(query.keyType, table.keyType, f"{column}.key")
        yield from unfit(query.valueType, table.valueType, f"{column}.value")
    elif isinstance(query, SHAPES) or isinstance(table, SHAPES) or _are_apart(query, table):
        yield f"{column} is {query.simpleString()} in the query and {table.simpleString()} in the table"


def _are_apart(query: DataType, table: DataType) -> bool:
    families = [next((f for f in FAMILIES if isinstance(t, f)), None) for t in (query, table)]
    return None not in families and families[0] is not families[1]
