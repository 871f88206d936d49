"""A run's figures, for display only: those of its last progress, and the lag of its sources."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ...protocol.formats.records import OperatorRecord
from ...protocol.messages.figures import Lag, QueryFigures, SourceFigures
from ...protocol.times import timestamp
from ..spark import progress as of_progress
from ..spark.checkpoint_dir import CheckpointDir, position_of
from ..spark.lag.meter import Meter, meter_of
from ..spark.sources.plan_sources import Source

log = logging.getLogger("streamjob")

FindSources = Callable[[], Sequence[Source] | None]  # None: they are unknown


@dataclass(frozen=True)
class Figures:
    """Figures of the query's last progress."""

    batch: int | None = None
    watermark: str | None = None
    input_rows_per_second: float | None = None
    state_rows: int | None = None
    operators: tuple[OperatorRecord, ...] = ()
    query: QueryFigures = field(default_factory=QueryFigures)


def figures_of(progress: Any, operators: tuple[OperatorRecord, ...], lags: Lags) -> Figures:
    """The figures of a StreamingQueryProgress, with the lag as last measured."""
    watermark = of_progress.watermark(progress)
    lags.reported = of_progress.committed(progress) or lags.reported
    return Figures(
        of_progress.batch(progress),
        watermark,
        of_progress.rate(progress, of_progress.INPUT),
        of_progress.state_rows(progress),
        operators,
        QueryFigures(
            processed_rows_per_second=of_progress.rate(progress, of_progress.PROCESSED),
            batch_seconds=of_progress.batch_seconds(progress),
            state_bytes=of_progress.state_bytes(progress),
            watermark_delay=of_progress.watermark_delay(watermark, datetime.now(timezone.utc)),
            last_commit=lags.last_commit,
            sources=lags.sources,
        ),
    )


class Lags:
    """The lag of a run's sources as last measured. One thread measures, others read.

    `reported` is written by the thread that reads the query's progress: it knows of a commit at once. The
    next measurement may be a while away, or never come if the query ends.

    :param find_sources: the sources of the plan. Called once.
    :param jvm: py4j's view of the JVM.
    """

    def __init__(self, directory: CheckpointDir, find_sources: FindSources, jvm: Any) -> None:
        self.reported: datetime | None = None
        self._listed: datetime | None = None
        self.sources: tuple[SourceFigures, ...] = ()
        self._directory = directory
        self._find_sources = find_sources
        self._jvm = jvm
        self._meters: list[Meter | None] | None = None  # None until the query has its sources
        self._batch: int | None = None
        self._positions: list[str | None] = []  # of `_batch`
        self._failing: set[int] = set()  # the sources whose lag could not be measured the last time

    @property
    def last_commit(self) -> str | None:
        """When the newest batch was committed."""
        known = [time for time in (self.reported, self._listed) if time is not None]
        return timestamp(max(known)) if known else None

    def measure(self, find_streams: Callable[[], Sequence[Any]]) -> None:
        """Lists the commit log, reads one entry of the offset log for each new batch, and asks each source.

        :param find_streams: the JVM's sources of the running query, in the order of the offset log. Called
            until there are as many as in the log.
        """
        if (newest := self._directory.newest_commit()) is None:
            return
        batch, at = newest
        if batch != self._batch:
            lines = self._directory.source_offsets(batch)
            self._positions, self._batch = [position_of(line) for line in lines], batch
        self._listed = datetime.fromtimestamp(at / 1000, timezone.utc)
        if self._meters is None and len(streams := find_streams()) == len(self._positions):
            self._meters = self._new_meters(streams)
        found = []
        for index, meter in enumerate(self._meters or ()):
            lag = self._measured(meter, index)
            if lag is not None:
                found.append(SourceFigures(f"source-{index}", lag))
        self.sources = tuple(found)

    def close(self) -> None:
        """End the connections, and forget what was measured: the run is over."""
        meters, self._meters = self._meters or [], None
        self.sources = ()
        for meter in meters:
            if meter is not None:
                meter.close()

    def _new_meters(self, streams: Sequence[Any]) -> list[Meter | None]:
        of_plan = self._find_sources() or []
        known = of_plan if len(of_plan) == len(streams) else [None] * len(streams)
        return [meter_of(stream, i, known[i], self._directory, self._jvm) for i, stream in enumerate(streams)]

    def _measured(self, meter: Meter | None, index: int) -> Lag | None:
        """The lag of one source. A failure is logged once, until it can be measured again."""
        if meter is None:
            return None
        try:
            lag = meter.measure(self._positions[index], time.time())
        except Exception as e:  # figures must never end a job
            if index not in self._failing:
                log.warning(
                    "the lag of source %d in %s cannot be measured: %r", index, self._directory.uri, e
                )
            self._failing.add(index)
            return None
        self._failing.discard(index)
        return lag
