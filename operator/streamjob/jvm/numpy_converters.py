"""PySpark's converters of NumPy values, without what they import for every other value.

py4j asks each converter about each argument of each call. From Spark 4.0 on, the converters of NumPy values
look for NumPy in `pyspark.testing.utils`, which imports unittest and pandas: a second of every start.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

from pyspark.sql import types

NAMES = ("NumpyScalarConverter", "NumpyArrayConverter")
COSTLY = "pyspark.testing.utils"
Ask = Callable[[Any, object], bool]


def ask_of_numpy_values_only() -> None:
    """Let the converters answer for NumPy values as before, and say no to any other value at once.

    Has no effect where they import nothing (Spark 3.5), and when it is repeated.
    """
    for name in NAMES:
        converter = getattr(types, name, None)
        ask = getattr(converter, "can_convert", None)
        if isinstance(ask, FunctionType) and COSTLY in ask.__code__.co_names:
            converter.can_convert = _only_of_numpy(ask)  # type: ignore[union-attr]


def _only_of_numpy(original: Ask) -> Ask:
    @functools.wraps(original)
    def can_convert(converter: Any, value: object) -> bool:
        return isinstance(value, _classes()) and original(converter, value)

    return can_convert


def _classes() -> tuple[Any, ...]:
    """NumPy's classes of values; none if nobody has imported NumPy, because then there is no value either."""
    numpy = sys.modules.get("numpy")
    return getattr(numpy, "generic", ()), getattr(numpy, "ndarray", ())
