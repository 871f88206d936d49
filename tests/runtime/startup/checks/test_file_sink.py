"""Which logs of Spark's file sink fit a query that is about to start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamjob.runtime.query.places.claim import SinkShared
from streamjob.runtime.query.places.owner import Owner
from streamjob.runtime.spark.sink_log import Log, SinkAhead, SinkBehind, SinkGone
from streamjob.runtime.startup.checks.file_sink import SinkFolder, StartingQuery, begins_behind, refuse_owned

ME = Owner("streamjob.owner", 1, "shop/orders", "uid-1", "file:/chk", "counts", "file:/chk/counts/0")
ANOTHER = Owner("streamjob.owner", 1, "shop/bills", "uid-2", "file:/other", "sums", "file:/other/sums/0")
WHOLE = frozenset({*map(str, range(9)), "9.compact", "10", "11"})


def log(*names: int | str, interval: int = 10) -> Log:
    return Log(frozenset(map(str, names)), interval)


def folder(*names: int | str, owner: Owner | None = ME, commits: bool = False) -> SinkFolder:
    return SinkFolder("file:/out", log(*names), owner, commits)


def at(planned: int | None, committed: int | None = None, *, here: bool | None = True) -> StartingQuery:
    return StartingQuery(
        ME, planned=planned, committed=planned if committed is None else committed, wrote_here=here
    )


# --- the log ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "lacks"),
    [
        ((), []),
        ((0, 1, 2), []),
        ((0, 2), ["1"]),
        ((1, 2), ["0"]),
        (WHOLE, []),
        (("9.compact", 10), []),  # Spark has deleted what is in the compacted entry
        (WHOLE - {"9.compact"}, ["9.compact"]),
        (WHOLE - {"10"}, ["10"]),
        (WHOLE - {"3"}, []),
        ((*WHOLE, "9"), []),  # a plain entry beside the compacted one stands for nothing
        (("9.compact", *range(10, 19), "19"), ["19.compact"]),
        (("9.compact", "19.compact", "29.compact"), []),
        (("9.compact", "29.compact", 30), ["19.compact", *map(str, range(20, 29)), "29"]),
    ],
)
def test_what_a_log_lacks(names: tuple[int | str, ...], lacks: list[str]) -> None:
    assert log(*names).lacks == lacks


def test_the_interval_of_a_log_comes_before_the_configured_one() -> None:
    assert log(0, 1, "2.compact", 3, interval=10).lacks == []
    assert log(0, 1, 2, 3, interval=3).lacks == ["2.compact"]


# --- the query in its own folder ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "query"),
    [
        ((), StartingQuery(ME)),
        ((0, 1, 2), at(2)),
        ((0, 1, 2), at(2, committed=1)),  # in the log, and not in Spark's commit log: Spark skips it
        ((0, 1), at(2, committed=1)),
        (WHOLE, at(11)),
    ],
)
def test_a_log_that_ends_where_the_query_does(names: tuple[int | str, ...], query: StartingQuery) -> None:
    assert begins_behind(folder(*names), query) is False


@pytest.mark.parametrize("owner", [ME, None])
def test_a_log_that_is_gone(owner: Owner | None) -> None:
    with pytest.raises(SinkGone, match="up to batch 6 to file:/out") as refused:
        begins_behind(folder(owner=owner), at(6))
    assert "new folder" in refused.value.remedy
    assert "after batch 6" in refused.value.remedy


def test_a_log_that_ends_before_the_query_does() -> None:
    with pytest.raises(SinkBehind, match=r"ends with batch 4, .* up to batch 6") as refused:
        begins_behind(folder(*range(5)), at(6))
    assert "batch 4 or before" in refused.value.remedy


def test_a_log_that_lacks_an_entry() -> None:
    with pytest.raises(SinkBehind, match=r"lacks 9\.compact"):
        begins_behind(folder(*(WHOLE - {"9.compact"})), at(11))


@pytest.mark.parametrize(("planned", "committed"), [(2, 2), (2, 1), (None, None)])
def test_a_log_with_batches_that_are_yet_to_come(planned: int | None, committed: int | None) -> None:
    with pytest.raises(SinkAhead, match="batches up to 3") as refused:
        begins_behind(folder(*range(4), owner=None), at(planned, committed))
    assert "new folder" in refused.value.remedy
    assert ("restoreFrom.savepoint" in refused.value.remedy) is (planned is None)


# --- a folder that may be another one -----------------------------------------------------------------------


def test_a_query_that_has_moved_begins_behind_what_it_wrote_elsewhere() -> None:
    assert begins_behind(folder(owner=None), at(6, here=False)) is True


def test_a_query_that_comes_back_to_a_folder() -> None:
    assert begins_behind(folder(*range(5)), at(6, here=False)) is True


def test_a_query_that_moves_into_the_folder_of_another_one() -> None:
    for owner in (None, ANOTHER):
        with pytest.raises(SinkShared, match="file:/out"):
            begins_behind(folder(*range(5), owner=owner), at(6, here=False))


def test_a_query_of_plain_spark_may_be_adopted_with_its_folder_or_with_a_new_one() -> None:
    assert begins_behind(folder(*range(7), owner=None), at(6, here=None)) is False
    assert begins_behind(folder(owner=None), at(6, here=None)) is True


def test_a_folder_that_ends_before_an_adopted_query_is_not_its_own() -> None:
    with pytest.raises(SinkBehind):
        begins_behind(folder(*range(5), owner=None), at(6, here=None))


# --- owners -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [(), (0, 1, 2)])
def test_the_folder_of_another_job_is_refused_with_both_names(names: tuple[int, ...]) -> None:
    with pytest.raises(SinkShared) as refused:
        begins_behind(folder(*names, owner=ANOTHER), StartingQuery(ME))
    assert "query 'sums' of job shop/bills" in refused.value.message
    assert "query 'counts' of job shop/orders" in refused.value.message
    assert "streamjob-owner.json" in refused.value.remedy


@pytest.mark.parametrize(
    "before",
    [
        replace(ME, uid="uid-0", checkpoint="file:/chk/counts/1"),  # the job was created again
        replace(ME, home="file:/moved", checkpoint="file:/moved/counts/0"),  # so was its storage
        replace(ANOTHER, checkpoint=ME.checkpoint),  # another job adopts the directory in place
    ],
)
def test_a_folder_stays_with_its_query(before: Owner) -> None:
    assert begins_behind(folder(*range(3), owner=before), at(2)) is False


def test_a_folder_is_not_another_query_s_of_the_same_job() -> None:
    other = replace(ME, query="sums", checkpoint="file:/chk/sums/0")
    with pytest.raises(SinkShared):
        begins_behind(folder(*range(3), owner=other), at(2))


def test_a_folder_goes_to_the_job_that_continues_from_a_savepoint_of_its_query() -> None:
    fork = StartingQuery(ME, frozenset({ANOTHER.checkpoint}), 2, 2, wrote_here=True)
    assert begins_behind(folder(*range(3), owner=ANOTHER), fork) is False
    with pytest.raises(SinkAhead):
        begins_behind(folder(*range(4), owner=ANOTHER), fork)


def test_spark_s_file_sink_and_a_file_sink_of_ours_share_no_folder() -> None:
    with pytest.raises(SinkShared, match="FileSink"):
        begins_behind(folder(owner=None, commits=True), StartingQuery(ME))
    with pytest.raises(SinkShared, match="sums"):
        refuse_owned(folder(owner=ANOTHER), StartingQuery(ME))
    refuse_owned(folder(0, 1, owner=None, commits=True), StartingQuery(ME))
