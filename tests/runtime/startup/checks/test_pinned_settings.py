"""Which settings are asked for in vain, without Spark."""

from __future__ import annotations

from streamjob.runtime.startup.checks.pinned_settings import Pinned, in_vain

SHUFFLE, POLICY = "spark.sql.shuffle.partitions", "spark.sql.streaming.multipleWatermarkPolicy"
PINNED = {SHUFFLE: "2", POLICY: "min"}


def test_a_setting_with_another_value_is_named() -> None:
    asked = {SHUFFLE: "5", POLICY: "MAX", "spark.sql.session.timeZone": "UTC"}
    assert in_vain(PINNED, asked, has_state=True) == [Pinned(SHUFFLE, "2", "5"), Pinned(POLICY, "min", "MAX")]
    assert str(Pinned(SHUFFLE, "2", "5")) == f"{SHUFFLE} is 2 and stays so (5 is asked for)"


def test_nothing_is_named_that_nobody_asks_for() -> None:
    assert in_vain(PINNED, {}, has_state=True) == [], "a default of this Spark is no wish"
    assert in_vain(PINNED, {SHUFFLE: "2", POLICY: "MIN"}, has_state=True) == []


def test_settings_of_a_state_mean_nothing_to_a_query_without_one() -> None:
    asked = {SHUFFLE: "5", POLICY: "max"}
    assert in_vain(PINNED, asked, has_state=False) == [Pinned(SHUFFLE, "2", "5")]
