"""Figures of a query: rates, durations, state and lag. For display and alerts, never for decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

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
class QueryFigures:
    """The figures of a task, or of all tasks of a stage together.

    :param processed_rows_per_second: of the last trigger.
    :param batch_seconds: duration of the last trigger, by part as in StreamingQueryProgress.durationMs;
        `triggerExecution` is the whole. A trigger without input has few parts.
    :param state_bytes: memory of the stateful operators' stores.
    :param watermark_delay: seconds by which the watermark is behind the driver's clock.
    :param last_commit: when the newest batch was committed, RFC 3339.
    """

    processed_rows_per_second: float | None = None
    batch_seconds: dict[str, float] = field(default_factory=dict, hash=False)
    state_bytes: int | None = None
    watermark_delay: float | None = None
    last_commit: str | None = None
    sources: tuple[SourceFigures, ...] = ()


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


def _known(values: Iterable[T | None]) -> list[T]:
    return [v for v in values if v is not None]
