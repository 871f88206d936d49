"""What is left in the sources when a stage is flushed: nothing. On models of what Spark's sources answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from streamjob.runtime.query.catch_up import EMPTY_RUNS, CaughtUp, read_all, unknown_end
from streamjob.runtime.spark.boundary import QueryFailed
from streamjob.runtime.spark.offset_log import OffsetLogEntry, Offsets
from streamjob.runtime.spark.sources.end_of_input import AVAILABLE_NOW, ONCE, SourceTraits, read_by


@dataclass
class Source:
    """A source of so many rows. Positions are numbers of rows.

    :param most: maximum of rows that a batch takes, unless it is asked for all.
    :param least: minimum, unless it is asked for all.
    :param portion: a script's class, or a connector without limits, hands out so many, whatever it is asked.
    :param grows: rows that arrive before it is asked the next time.
    :param clock: its position moves by itself, without rows.
    """

    traits: SourceTraits
    held: int
    most: int = 1_000_000
    least: int = 0
    portion: int | None = None
    grows: int = 0
    clock: bool = False
    at: int = 0
    target: int | None = None
    wrapped: int | None = None

    def latest(self, everything: bool) -> int:
        if self.wrapped is not None:
            return self.wrapped
        self.held += self.grows
        if self.clock:
            return self.at + 1
        top = self.held if self.target is None else min(self.held, self.target)
        if self.portion is not None:
            return max(self.at, min(self.at + self.portion, top))
        if everything:
            return top
        left = max(top - self.at, 0)
        return self.at if left < self.least else self.at + min(left, self.most)


@dataclass
class Query:
    """As MicroBatchExecution runs it. It is its own checkpoint directory, as far as `read_all` looks.

    :param wraps: as Spark 3.5: with availableNow, a source that does not take part is asked for all at the
        start, and the others take part. Later, all are asked for all, in a single batch.
    """

    sources: list[Source]
    planned: list[int] | None = None  # the positions up to which a batch is planned that is not committed
    runs: int = 0
    rows: list[int] = field(default_factory=list)  # of the batches of the last run
    trigger: str = ""
    limit: int = 1000
    wraps: bool = False

    def run(self, **trigger: bool) -> Query:
        self.runs += 1
        assert self.runs < self.limit, "it does not end"
        self.trigger, self.rows = (ONCE if trigger.get("once") else AVAILABLE_NOW), []
        takes_part = self.wraps or all(s.traits.available_now for s in self.sources)
        several = self.trigger == AVAILABLE_NOW and takes_part
        for source in self.sources:
            source.target = source.wrapped = None
            if several and source.traits.available_now:
                source.target = source.held
            elif several:
                source.wrapped = source.latest(everything=True)
        if self.planned is not None:
            self._commit(self.planned)
            self.planned = None
            if not several:
                return self
        while self._commit([s.latest(everything=not several) for s in self.sources]) and several:
            pass
        return self

    def _commit(self, positions: list[int]) -> bool:
        moved = positions != [s.at for s in self.sources]
        if moved:
            self.rows.append(
                sum(0 if s.clock else p - s.at for s, p in zip(self.sources, positions, strict=True))
            )
        for source, position in zip(self.sources, positions, strict=True):
            source.at = position
        return moved

    def proves(self, pending: bool = False) -> list[bool]:
        return read_by(self.trigger, [s.traits for s in self.sources], pending=pending)

    # --- what `read_all` asks of a query and of a directory

    def awaitTermination(self, timeout: float | None = None) -> bool:
        return True

    def exception(self) -> None:
        return None

    @property
    def recentProgress(self) -> list[dict[str, int]]:
        return [{"numInputRows": rows} for rows in self.rows]

    def latest_commit(self) -> int:
        return 0

    def entry(self, batch: int) -> OffsetLogEntry:
        return OffsetLogEntry(1, {}, self.source_offsets(batch))

    def source_offsets(self, batch: int) -> Offsets:
        return {str(number): str(s.at) for number, s in enumerate(self.sources)}


def caught_up(query: Query, **options: Any) -> CaughtUp:
    return read_all(
        cast(Any, query.run),
        cast(Any, query),
        proves=lambda q: cast(Query, q).proves(),
        cut_short=options.pop("cut_short", lambda: False),
        on_run=lambda number: None,
        **options,
    )


ROWS = st.integers(0, 500)
GROWS = st.sampled_from([0, 0, 1, 30])
KINDS = {
    "files": SourceTraits("FileStreamSource", available_now=True, admission=True),
    "kafka": SourceTraits("KafkaMicroBatchStream", available_now=True, admission=True),
    "kafka, minimum": SourceTraits("KafkaMicroBatchStream", available_now=True, admission=True, minimum=True),
    "delta": SourceTraits("DeltaSource", available_now=True, admission=True),
    "a connector that takes part": SourceTraits(
        "ThirdPartyStream", available_now=True, admission=True, minimum=True
    ),
    "a connector with limits": SourceTraits("SparkMicroBatchStream", admission=True),
    "a connector without": SourceTraits("OtherStream"),
    "rate": SourceTraits("RateStreamMicroBatchStream"),
    "rate-micro-batch": SourceTraits("RatePerMicroBatchStream", available_now=True, admission=True),
    "python": SourceTraits("PythonMicroBatchStream"),
    "python, limits": SourceTraits("PythonMicroBatchStreamWithAdmissionControl", admission=True),
    "python, takes part": SourceTraits("PythonMicroBatchStreamWithTriggerAvailableNow", True, True),
}
ASKED_AGAIN = ("python", "python, limits", "a connector without")  # until they name no other position


@st.composite
def sources(draw: st.DrawFn) -> Source:
    kind = draw(st.sampled_from(sorted(KINDS)))
    portions = (
        draw(st.integers(1, 100)) if kind.startswith("python") or kind == "a connector without" else None
    )
    live = 0 if kind in ASKED_AGAIN else draw(GROWS)
    least = draw(st.integers(2, 200)) if KINDS[kind].minimum else 0
    return Source(KINDS[kind], draw(ROWS), draw(st.integers(max(least, 1), 400)), least, portions, live)


@st.composite
def queries(draw: st.DrawFn) -> Query:
    found = draw(st.lists(sources(), min_size=1, max_size=3))
    if not all(s.traits.available_now for s in found):
        for source in (s for s in found if s.traits.in_python):
            source.grows = 0  # without availableNow, a live one in Python is given up in the end
    query = Query(found, wraps=draw(st.booleans()))
    if draw(st.booleans()):
        query.planned = [draw(st.integers(0, s.held)) for s in found]
    return query


@settings(deadline=None)
@given(queries(), st.sampled_from([{"once": True}, {"availableNow": True}]))
def test_row1_nothing_is_left_when_a_stage_is_flushed(query: Query, trigger: dict[str, bool]) -> None:
    """A script's run ends. If that does not prove that it has read everything, a catch-up follows."""
    pending, held = query.planned is not None, [s.held for s in query.sources]
    query.run(**trigger)
    if all(query.proves(pending)):
        assert all(s.at >= before for s, before in zip(query.sources, held, strict=True))
        return
    held = [s.held for s in query.sources]
    assert caught_up(query) is CaughtUp.ALL
    assert all(s.at >= before for s, before in zip(query.sources, held, strict=True))


class FirstSnapshotExpired(Query):
    """Of an Iceberg table, by the words of Iceberg."""

    refused: int = 0

    def run(self, **trigger: bool) -> Query:
        if "availableNow" in trigger or self.sources[0].held < self.sources[0].at:
            self.refused += 1
            assert self.refused < self.limit, "it does not end"
            raise PySparkException("Cannot load current offset at snapshot 7, the snapshot was expired")
        return super().run(**trigger)


def test_row4_iceberg_is_asked_for_all_where_it_refuses_available_now() -> None:
    source = Source(KINDS["delta"], 250, most=100, at=50)
    assert caught_up(FirstSnapshotExpired([source])) is CaughtUp.ALL
    assert source.at == 250


def test_the_snapshot_of_the_position_has_expired_too() -> None:
    with pytest.raises(QueryFailed, match="Cannot load"):
        caught_up(FirstSnapshotExpired([Source(KINDS["delta"], 250, at=251)]))


@pytest.mark.parametrize("kind", ["files", "kafka", "rate-micro-batch"])
@pytest.mark.parametrize("trigger", [{"once": True}, {"availableNow": True}], ids=["once", "availableNow"])
def test_row1_spark_is_not_asked_again_where_the_run_proves_it(kind: str, trigger: dict[str, bool]) -> None:
    query = Query([Source(KINDS[kind], 250, most=100)])
    query.run(**trigger)
    assert query.proves() == [True]


@pytest.mark.parametrize("kind", ["files", "kafka", "delta", "rate"])
def test_row4_a_catch_up_takes_one_run_where_that_proves_it(kind: str) -> None:
    query = Query([Source(KINDS[kind], 250, most=100, grows=1)])
    assert caught_up(query) is CaughtUp.ALL
    assert query.runs == 1


def test_row1_once_behind_a_planned_batch_has_not_read_everything() -> None:
    query = Query([Source(KINDS["files"], 6)], planned=[3])
    query.run(once=True)
    assert (query.sources[0].at, query.proves(pending=True)) == (3, [False])
    assert caught_up(query) is CaughtUp.ALL
    assert query.sources[0].at == 6


def test_row1_available_now_beside_a_source_without_it_is_a_single_batch() -> None:
    query = Query([Source(KINDS["files"], 6), Source(KINDS["rate"], 9)], planned=[3, 3])
    query.run(availableNow=True)
    assert ([s.at for s in query.sources], query.proves(pending=True)) == ([3, 3], [False, False])


def test_row1_a_source_in_python_that_takes_part_reads_one_portion_beside_one_that_does_not() -> None:
    query = Query([Source(KINDS["python, takes part"], 9, portion=2), Source(KINDS["rate"], 9)])
    query.run(availableNow=True)
    assert ([s.at for s in query.sources], query.proves()) == ([2, 9], [False, True])


def test_row4_a_run_with_limits_that_moves_nothing_is_not_the_end() -> None:
    """Less is left than the minimum, so availableNow names no other position."""
    query = Query([Source(KINDS["kafka, minimum"], 150, least=100, at=100)])
    assert caught_up(query) is CaughtUp.ALL
    assert query.sources[0].at == 150


def test_row4_a_position_that_moves_by_itself_is_not_an_end() -> None:
    query = Query([Source(KINDS["python"], 0, clock=True)], limit=2 * EMPTY_RUNS)
    assert caught_up(query) is CaughtUp.UNKNOWN
    told = unknown_end("b", "a")
    assert "stage b is stopped instead of flushed: whether it has read all of a cannot" in told.message


def test_row1_a_live_source_that_names_more_each_time_is_given_up_in_the_end() -> None:
    query = Query([Source(KINDS["python"], 0, portion=5, grows=5)], limit=3)
    assert caught_up(query, seconds=0.0) is CaughtUp.UNKNOWN


def test_row4_an_empty_portion_in_between_is_not_the_end() -> None:
    """Positions that move without rows say nothing about what follows."""

    class Gaps(Source):
        def latest(self, everything: bool) -> int:
            self.clock = self.at == 50  # for the count of rows: this portion holds none
            return min(self.at + 50, self.held)

    query = Query([Gaps(KINDS["python"], 400)])
    assert caught_up(query) is CaughtUp.ALL
    assert query.sources[0].at == 400


def test_row13_a_stop_cuts_the_catch_up_short() -> None:
    query = Query([Source(KINDS["python"], 500, portion=1)])
    assert caught_up(query, cut_short=lambda: query.runs == 3) is CaughtUp.CUT_SHORT
    assert query.runs == 3


def test_row4_a_live_source_does_not_hide_that_another_one_has_nothing_left() -> None:
    query = Query([Source(KINDS["rate"], 0, grows=1), Source(KINDS["python"], 7, portion=2)], limit=10)
    assert caught_up(query) is CaughtUp.ALL
    assert query.sources[1].at == 7


def test_row4_positions_by_name_are_compared_as_a_whole() -> None:
    """Which of them belongs to which source is not known."""

    class Named(Query):
        def entry(self, batch: int) -> OffsetLogEntry:
            return OffsetLogEntry(2, {}, self.source_offsets(batch))

        def source_offsets(self, batch: int) -> Offsets:
            return {f"n{9 - int(n)}": at for n, at in [*super().source_offsets(batch).items()][::-1]}

    query = Named([Source(KINDS["python"], 7, portion=2), Source(KINDS["kafka"], 5)], limit=10)
    assert caught_up(query) is CaughtUp.ALL
    assert [s.at for s in query.sources] == [7, 5]


def test_another_trigger_proves_nothing() -> None:
    assert read_by("ProcessingTimeTrigger", [KINDS["files"]]) == [False]
