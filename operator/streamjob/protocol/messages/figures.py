"""Figures of a query: rates, durations, state and lag. For display and alerts, never for decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..formats import codec

N = TypeVar("N", int, float)
T = TypeVar("T")


@dataclass(frozen=True)
class Lag:
    """What a source holds that its query has not committed yet. None: not known for this kind of source.

    :param rows: of Kafka: offsets. Of Delta: rows, by the statistics in its log.
    :param files: of a folder or of Delta.
    :param bytes: of those files.
    :param seconds: age of the oldest record, file or commit of it; 0 if there is none.
    """

    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class SourceFigures:
    """One source of a query.

    :param uid: that of the source's operator.
    """

    uid: str
    lag: Lag


@dataclass(frozen=True)
class Load:
    """What arrives for a stage, and what its batches cost: on n cores, `fixed_seconds` and
    rows / (n * `rows_per_core_second`).

    :param rows_per_second: rows that it reads, over about half a minute.
    :param tasks: those of the batches' longest stage in Spark, which more cores do not help; None: unknown.
    """

    rows_per_second: float
    fixed_seconds: float
    rows_per_core_second: float
    tasks: int | None = None


@dataclass(frozen=True)
class QueryFigures:
    """The figures of a task, or of all tasks of a stage together.

    :param processed_rows_per_second: of the last trigger.
    :param batch_seconds: duration of the last trigger, by part as in StreamingQueryProgress.durationMs;
        `triggerExecution` is the whole. A trigger without input has few parts.
    :param state_bytes: memory of the stateful operators' stores.
    :param watermark_delay: seconds by which the watermark is behind the driver's clock.
    :param last_commit: when the newest batch was committed, RFC 3339.
    :param load: None where everything runs in the driver, and until a few batches are known.
    """

    processed_rows_per_second: float | None = None
    batch_seconds: dict[str, float] = field(default_factory=dict, hash=False)
    state_bytes: int | None = None
    watermark_delay: float | None = None
    last_commit: str | None = None
    sources: tuple[SourceFigures, ...] = ()
    load: Load | None = field(default=None, metadata=codec.NEW)


def merged(tasks: Sequence[QueryFigures]) -> QueryFigures:
    """The figures of a stage: sums, and of times those of its slowest task."""
    uids = dict.fromkeys(s.uid for t in tasks for s in t.sources)
    slowest = max(tasks, key=lambda t: t.batch_seconds.get("triggerExecution", 0.0), default=QueryFigures())
    return QueryFigures(
        processed_rows_per_second=total(t.processed_rows_per_second for t in tasks),
        batch_seconds=slowest.batch_seconds,
        state_bytes=total(t.state_bytes for t in tasks),
        watermark_delay=max(_known(t.watermark_delay for t in tasks), default=None),
        last_commit=min(_known(t.last_commit for t in tasks), default=None),
        sources=tuple(
            SourceFigures(uid, _merged_lag([s.lag for t in tasks for s in t.sources if s.uid == uid]))
            for uid in uids
        ),
        load=_merged_load([t.load for t in tasks]),
    )


def total(values: Iterable[N | None]) -> N | None:
    """The sum of the known values, None if none is known."""
    known = _known(values)
    return sum(known[1:], known[0]) if known else None


def _merged_lag(lags: Sequence[Lag]) -> Lag:
    return Lag(
        rows=total(lag.rows for lag in lags),
        files=total(lag.files for lag in lags),
        bytes=total(lag.bytes for lag in lags),
        seconds=max(_known(lag.seconds for lag in lags), default=None),
    )


def _merged_load(loads: Sequence[Load | None]) -> Load | None:
    """Of shards: what arrives for all of them, at the cost of the dearest. None unless each is known."""
    known = _known(loads)
    if not known or len(known) < len(loads):
        return None
    tasks = [load.tasks for load in known]
    return Load(
        rows_per_second=sum(load.rows_per_second for load in known),
        fixed_seconds=max(load.fixed_seconds for load in known),
        rows_per_core_second=min(load.rows_per_core_second for load in known),
        tasks=None if None in tasks else total(tasks),
    )


def _known(values: Iterable[T | None]) -> list[T]:
    return [v for v in values if v is not None]
