"""A build of Spark that lacks a class of its line is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from streamjob.runtime.spark.versions.choose import internals_of
from streamjob.runtime.spark.versions.table import BY_VERSION, SparkUnknown, line


def test_a_build_that_differs_from_its_line(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    own = line(spark.version)
    assert internals_of(spark).traits == BY_VERSION[own]
    monkeypatch.setitem(BY_VERSION, own, replace(BY_VERSION[own], execution="org.example.elsewhere"))
    with pytest.raises(SparkUnknown, match=r"org\.example\.elsewhere") as refused:
        internals_of(spark)
    assert not refused.value.retryable
