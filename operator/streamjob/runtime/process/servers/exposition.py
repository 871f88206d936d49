"""The driver's figures in Prometheus' text format, version 0.0.4.

Labels are bounded: stages and sources come from the script, parts of a batch from Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....protocol.formats.records import JobRef
from ....protocol.messages.driver_status import DriverStatus, StageStatus
from ....protocol.times import moment

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Name → help, in the order of the page. All are gauges.
FAMILIES = {
    "streamjob_query_input_rows_per_second": "Rows read per second, of the last batch",
    "streamjob_query_arriving_rows_per_second": "Rows read per second, over half a minute",
    "streamjob_query_batch_fixed_seconds": "Seconds of a batch whatever its rows",
    "streamjob_query_rows_per_core_second": "Rows that one core processes in a second of a batch",
    "streamjob_query_processed_rows_per_second": "Rows per second of processing time, of the last batch",
    "streamjob_query_batch_duration_seconds": "Duration of the last batch and its parts, as Spark names them",
    "streamjob_query_last_commit_timestamp_seconds": "When the newest batch was committed",
    "streamjob_query_watermark_delay_seconds": "How far the watermark is behind the clock",
    "streamjob_query_state_rows": "Rows in the state",
    "streamjob_query_state_bytes": "Memory of the state stores",
    "streamjob_source_lag_rows": "Rows that the source holds and no batch has committed",
    "streamjob_source_lag_files": "Files that the source holds and no batch has committed",
    "streamjob_source_lag_bytes": "Bytes of those files",
    "streamjob_source_lag_seconds": "Age of the oldest row or file that is not committed, 0 if none is left",
    "streamjob_executors_running": "Executors that are connected to the driver",
    "streamjob_executors_wanted": "Executors that Spark wants",
}

Sample = tuple[str, dict[str, str], float]  # family, labels, value


def exposition(job: JobRef, status: DriverStatus) -> str:
    """The page for one scrape. What is not known is left out."""
    found: dict[str, list[str]] = {name: [] for name in FAMILIES}
    of_job = {"namespace": job.namespace, "streamjob": job.name}
    for name, labels, value in _samples(status):
        found[name].append(f"{name}{_labels({**of_job, **labels})} {float(value)!r}")
    lines = []
    for name, samples in found.items():
        if samples:
            lines += [f"# HELP {name} {FAMILIES[name]}", f"# TYPE {name} gauge", *samples]
    return "".join(f"{line}\n" for line in lines)


def _samples(status: DriverStatus) -> Iterator[Sample]:
    for stage in status.stages:
        for name, labels, value in _of_stage(stage):
            yield name, {"stage": stage.uid, **labels}, value
    if (executors := status.executors) is not None:
        yield "streamjob_executors_running", {}, executors.running
        yield "streamjob_executors_wanted", {}, executors.wanted


def _of_stage(stage: StageStatus) -> Iterator[Sample]:
    figures = stage.figures
    if figures is None:
        return
    load = figures.load
    commit = None if figures.last_commit is None else moment(figures.last_commit).timestamp()
    values = {
        "streamjob_query_input_rows_per_second": stage.input_rows_per_second,
        "streamjob_query_processed_rows_per_second": figures.processed_rows_per_second,
        "streamjob_query_last_commit_timestamp_seconds": commit,
        "streamjob_query_arriving_rows_per_second": load.rows_per_second if load else None,
        "streamjob_query_batch_fixed_seconds": load.fixed_seconds if load else None,
        "streamjob_query_rows_per_core_second": load.rows_per_core_second if load else None,
        "streamjob_query_watermark_delay_seconds": figures.watermark_delay,
        "streamjob_query_state_rows": stage.state_rows,
        "streamjob_query_state_bytes": figures.state_bytes,
    }
    for name, value in values.items():
        if value is not None:
            yield name, {}, value
    for part, seconds in figures.batch_seconds.items():
        yield "streamjob_query_batch_duration_seconds", {"part": part}, seconds
    for source in figures.sources:
        lag = source.lag
        lags = {"rows": lag.rows, "files": lag.files, "bytes": lag.bytes, "seconds": lag.seconds}
        for unit, amount in lags.items():
            if amount is not None:
                yield f"streamjob_source_lag_{unit}", {"source": source.uid}, amount


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
