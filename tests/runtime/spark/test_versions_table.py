"""Which versions of Spark are known."""

from __future__ import annotations

import pytest

from streamjob.runtime.spark.versions.table import BY_VERSION, SparkTooOld, SparkUnknown, known


@pytest.mark.parametrize("version", ["2.4.8", "3.4.4"])
def test_an_old_spark_is_refused(version: str) -> None:
    with pytest.raises(SparkTooOld, match=version) as refused:
        known(version)
    assert not refused.value.retryable
    assert "3.5" in refused.value.remedy


@pytest.mark.parametrize("version", ["4.4.0", "5.0.0-SNAPSHOT", "internal"])
def test_a_spark_that_nobody_has_read_is_refused(version: str) -> None:
    with pytest.raises(SparkUnknown) as refused:
        known(version)
    assert not refused.value.retryable
    assert refused.value.message == f"this is Spark {version}, StreamJob knows 3.5 to 4.3"
    assert refused.value.remedy == "Use the newest StreamJob, or an older image"


@pytest.mark.parametrize("version", ["3.5.99", "4.1.99", "4.3.1-SNAPSHOT", "3.5.1-amzn-0"])
def test_another_patch_release_is_known(version: str) -> None:
    assert known(version) is BY_VERSION[version[:3]]
