"""The stages of the status, from the driver's report."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...api import LoadInfo, OperatorInfo, SourceInfo, StageInfo, TaskInfo
from ...protocol.messages.driver_status import DriverStatus, StageStatus


def stages(report: DriverStatus | None, old: tuple[StageInfo, ...]) -> tuple[StageInfo, ...]:
    """The stages as reported. A final report has no edges, and may lack room for the operators: then the
    known ones stay.
    """
    known = {s.uid: s for s in old}
    return tuple(_stage(s, known.get(s.uid)) for s in report.stages) if report else ()


def _stage(stage: StageStatus, known: StageInfo | None) -> StageInfo:
    batches = [t.batch for t in stage.tasks if t.batch is not None]
    rate = stage.input_rows_per_second
    return StageInfo(
        uid=stage.uid,
        tasks=tuple(
            TaskInfo(index=t.index, state=t.state.value, batch=t.batch, step=t.step.value if t.step else None)
            for t in stage.tasks
        ),
        operators=tuple(
            OperatorInfo(uid=o.uid, kind=o.kind.value, name=o.name, finished=o.finished)
            for o in stage.operators
        )
        or (known.operators if known else ()),
        upstream=stage.upstream or (known.upstream if known else ()),
        watermark=stage.watermark,
        batch=max(batches) if batches else None,
        input_rows_per_second=round(rate, 1) if rate is not None else None,
        **_figures(stage),
    )


def _figures(stage: StageStatus) -> dict[str, Any]:
    """Fields of a StageInfo. A driver of an earlier version reports none of them."""
    figures = stage.figures
    if figures is None:
        return {}
    return {
        "processed_rows_per_second": figures.processed_rows_per_second,
        "batch_seconds": figures.batch_seconds or None,
        "state_rows": stage.state_rows,
        "state_bytes": figures.state_bytes,
        "watermark_delay_seconds": figures.watermark_delay,
        "last_commit_at": figures.last_commit,
        "sources": tuple(
            SourceInfo(
                uid=s.uid,
                lag_rows=s.lag.rows,
                lag_files=s.lag.files,
                lag_bytes=s.lag.bytes,
                lag_seconds=s.lag.seconds,
            )
            for s in figures.sources
        ),
        "load": LoadInfo(**asdict(figures.load)) if figures.load is not None else None,
    }
