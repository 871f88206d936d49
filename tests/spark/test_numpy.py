"""NumPy values in a script. What only they need is not imported for a script that has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver

from .scripts import Script

VALUES = {
    "int64": [7], "float64": [0.5], "bool": [True], "array": [[1, 2, 3]], "words": [["a", "b"]],
    "nested": [[7, 0]], "matrix": [[1, 2], [3, 4]], "literal": [14],
}  # fmt: skip

APP = """
import json

query = start("first", read("in"))
say("imported:", *[name for name in ("pandas", "unittest") if name in sys.modules])

import numpy as np

one = spark.range(1)
def first(column):
    return [one.select(column.alias("x")).head().x]

values = {
    "int64": first(F.lit(np.int64(7))),
    "float64": first(F.lit(np.float64(0.5))),
    "bool": first(F.lit(np.bool_(True))),
    "array": first(F.lit(np.array([1, 2, 3]))),
    "words": first(F.lit(np.array(["a", "b"]))),
    "nested": first(F.array(F.lit(np.int32(7)), F.lit(0))),
    "matrix": [list(r) for r in spark.createDataFrame(np.array([[1, 2], [3, 4]])).collect()],
    "literal": [one.select((F.lit(2) * np.int64(7)).alias("x")).head().x],
}
say("values:", json.dumps(values))
query.awaitTermination()
"""


def said(driver: LocalDriver, what: str) -> str:
    (line,) = [line for line in driver.log.read_text().splitlines() if line.startswith(f"script: {what}:")]
    return line.removeprefix(f"script: {what}:").strip()


@pytest.mark.slow
def test_numpy_values_are_spark_s_and_nothing_is_imported_for_others(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    script = Script(tmp_path, APP)
    with script.driver() as driver:
        driver.wait_for(lambda s: s.problem is not None or "script: values:" in driver.log.read_text())
    assert json.loads(said(driver, "values")) == VALUES
    assert said(driver, "imported") == ""
