"""A run's figures, for display only: those of its last progress, and the lag of its sources."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from ...protocol.formats.records import OperatorRecord
from ...protocol.messages.figures import Lag, Load, QueryFigures, SourceFigures
from ...protocol.times import timestamp
from ..spark import progress as of_progress
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.lag.meter import Meter, meter_of
from ..spark.offset_log import Offsets
from ..spark.sources.plan_sources import Source, by_key

log = logging.getLogger("streamjob")


@dataclass(frozen=True)
class Figures:
    """Figures of the query's last progress."""

    batch: int | None = None
    watermark: str | None = None
    input_rows_per_second: float | None = None
    state_rows: int | None = None
    operators: tuple[OperatorRecord, ...] = ()
    query: QueryFigures = field(default_factory=QueryFigures)


def figures_of(
    progress: Any, operators: tuple[OperatorRecord, ...], lags: Lags, load: Load | None = None
) -> Figures:
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
            load=load,
        ),
    )


class Lags:
    """The lag of a run's sources as last measured. One thread measures, others read.

    `reported` is written by the thread that reads the query's progress: it knows of a commit at once. The
    next measurement may be a while away, or never come if the query ends.

    :param planned: the sources of the plan, None if they are unknown.
    :param jvm: py4j's view of the JVM.
    """

    def __init__(self, directory: CheckpointDir, planned: Sequence[Source] | None, jvm: Any) -> None:
        self.reported: datetime | None = None
        self._listed: datetime | None = None
        self.sources: tuple[SourceFigures, ...] = ()
        self._directory = directory
        self._planned = planned
        self._jvm = jvm
        self._meters: dict[str, Meter] | None = None  # None until the query has its sources
        self._batch: int | None = None
        self._positions: Offsets = {}  # of `_batch`
        self._failing: set[str] = set()  # the sources whose lag could not be measured the last time

    @property
    def last_commit(self) -> str | None:
        """When the newest batch was committed."""
        known = [time for time in (self.reported, self._listed) if time is not None]
        return timestamp(max(known)) if known else None

    def measure(self, find_streams: Callable[[], Sequence[Any]]) -> None:
        """Lists the commit log, reads one entry of the offset log for each new batch, and asks each source.

        :param find_streams: the JVM's sources of the running query, in the order of the plan. Called until
            there are some.
        """
        if (newest := self._directory.newest_commit()) is None:
            return
        batch, at = newest
        if batch != self._batch:
            self._positions, self._batch = self._directory.source_offsets(batch), batch
        self._listed = datetime.fromtimestamp(at / 1000, timezone.utc)
        if self._meters is None and (streams := find_streams()):
            self._meters = self._new_meters(streams)
        found = []
        for key, meter in (self._meters or {}).items():
            lag = self._measured(meter, key)
            if lag is not None:
                found.append(SourceFigures(f"source-{key}", lag))
        self.sources = tuple(found)

    def close(self) -> None:
        """End the connections, and forget what was measured: the run is over."""
        meters, self._meters = self._meters or {}, None
        self.sources = ()
        for meter in meters.values():
            meter.close()

    def _new_meters(self, streams: Sequence[Any]) -> dict[str, Meter]:
        of_plan = by_key(self._planned or [])
        if len(of_plan) == len(streams):
            known: list[tuple[str, Source | None]] = list(of_plan.items())
        else:
            known = [(str(number), None) for number in range(len(streams))]
        found = (
            (key, meter_of(stream, key, source, self._directory, self._jvm))
            for stream, (key, source) in zip(streams, known, strict=True)
        )
        return {key: meter for key, meter in found if meter is not None}

    def _measured(self, meter: Meter, key: str) -> Lag | None:
        """The lag of one source. A failure is logged once, until it can be measured again."""
        try:
            lag = meter.measure(self._positions.get(key), time.time())
        except Exception as e:  # figures must never end a job
            if key not in self._failing:
                log.warning("the lag of source %s in %s cannot be measured: %r", key, self._directory.uri, e)
            self._failing.add(key)
            return None
        self._failing.discard(key)
        return lag
