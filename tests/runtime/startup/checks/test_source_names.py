"""Which sources may come and go, without Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamjob.runtime.spark.offset_log import NAMES_SOURCES, OffsetLogEntry
from streamjob.runtime.spark.sources.plan_sources import Source, by_key
from streamjob.runtime.startup.checks.source_names import (
    Changes,
    OtherSources,
    SourceNamesForgotten,
    compare,
    refuse_forgotten_names,
)


def entry(offsets: str, *, named: bool = True, format: int = 2) -> OffsetLogEntry:
    conf = {NAMES_SOURCES: "true"} if named else {}
    return OffsetLogEntry(format, {"batchWatermarkMs": 0, "conf": conf}, dict.fromkeys(offsets, "7"))


def changes(
    now: str,
    latest: OffsetLogEntry,
    *,
    named: bool = True,
    positions: str | None = None,
    noted: str | None = None,
    committed: bool = True,
    was_read: Callable[[str], bool] = lambda key: False,
) -> Changes:
    sources = by_key([Source("kafka", given=key if named else None) for key in now])
    found = latest.offsets if positions is None else dict.fromkeys(positions, "7")
    return compare(sources, latest, found, committed=committed, noted=noted, was_read=was_read)


def test_named_sources_come_and_go_in_any_order() -> None:
    assert changes("ba", entry("ab")) == Changes()
    assert changes("cba", entry("ab")) == Changes(added=("c",))
    assert changes("b", entry("ab")) == Changes(removed=("a",))
    assert changes("bc", entry("ab"), noted="abc") == Changes(removed=("a",)), "c has never had a row"


def test_a_source_that_comes_back_is_refused_once_its_position_is_lost() -> None:
    assert changes("abc", entry("ab"), positions="abc", was_read=lambda key: True) == Changes()
    with pytest.raises(OtherSources, match="reads the source c again") as e:
        changes("abc", entry("ab"), was_read=lambda key: key == "c")
    assert "another name" in e.value.how


def test_a_batch_that_has_not_committed_runs_again_with_all_that_it_reads() -> None:
    with pytest.raises(OtherSources, match="has not committed and reads the source b"):
        changes("a", entry("ab"), committed=False)
    assert changes("a", entry("a"), positions="ab", committed=False) == Changes(removed=("b",))


@pytest.mark.parametrize(("named", "says"), [(True, "have names and had none"), (False, "have no names")])
def test_names_cannot_be_given_or_taken_later(named: bool, says: str) -> None:
    for format in (1, 2) if named else (2,):
        with pytest.raises(OtherSources, match=says):
            changes("ab", entry("01" if named else "ab", named=not named, format=format), named=named)


def test_names_that_spark_would_not_write_are_refused_before_the_first_batch() -> None:
    refuse_forgotten_names([Source("kafka")], None)
    refuse_forgotten_names([Source("kafka", given="a")], "2")
    for format in (None, "1"):
        with pytest.raises(SourceNamesForgotten, match=r"names its sources \(a\)"):
            refuse_forgotten_names([Source("kafka", given="a")], format)


def test_without_names_the_number_must_stay() -> None:
    for number, ok in (("a", False), ("ab", True), ("abc", False)):
        for latest, noted in (
            (entry("01", named=False, format=1), None),
            (entry("01", named=False), "01"),
            (entry("0", named=False), "01"),  # the other one has read nothing
        ):
            if ok:
                assert changes(number, latest, named=False, noted=noted) == Changes()
            else:
                with pytest.raises(OtherSources, match=f"had 2 sources and has {len(number)}"):
                    changes(number, latest, named=False, noted=noted)
    assert changes("abc", entry("01", named=False), named=False) == Changes(), "a third may have read nothing"
