"""The stages of the status."""

from __future__ import annotations

from pydantic import Field

from ...protocol.formats.records import OperatorKind
from ...protocol.lifecycle import TaskState
from ...protocol.messages.driver_status import TerminationStep
from ..types import Model, Timestamp, one_of


class TaskInfo(Model):
    """A task: one shard of a stage. A stage without shards has one task."""

    index: int = Field(description="Number of the shard, from 0.")
    state: str = Field(description="State of the task.", json_schema_extra=one_of(TaskState))
    batch: int | None = Field(default=None, description="Last committed batch.")
    step: str | None = Field(
        default=None,
        description="How far the end of the task has come. Empty until it begins.",
        json_schema_extra=one_of(TerminationStep),
    )


class OperatorInfo(Model):
    """An operator of a stage: a source, a stateful operator, the sink or driver-side state."""

    uid: str = Field(description="Identifies the operator within its stage.")
    kind: str = Field(description="Kind of the operator.", json_schema_extra=one_of(OperatorKind))
    name: str = Field(description="Name for display.")
    finished: bool = Field(description="Whether the operator has finished in every task of the stage.")


class SourceInfo(Model):
    """What a source of the stage holds that the stage has not committed yet. Absent: not known."""

    uid: str = Field(description="Identifies the source's operator within the stage.")
    lag_rows: int | None = Field(
        default=None, description="Rows that are left. Of Kafka: offsets; of Delta: by the table's log."
    )
    lag_files: int | None = Field(default=None, description="Files that are left, of a folder or of Delta.")
    lag_bytes: int | None = Field(default=None, description="Bytes of the files that are left.")
    lag_seconds: float | None = Field(
        default=None, description="Age of the oldest record, file or commit that is left, 0 if nothing is."
    )


class LoadInfo(Model):
    """What arrives for a stage, and what its batches cost: on n cores of executors, `fixedSeconds` and
    rows / (n * `rowsPerCoreSecond`).
    """

    rows_per_second: float = Field(description="Rows read per second, over half a minute.")
    fixed_seconds: float = Field(description="Seconds of a batch whatever its rows.")
    rows_per_core_second: float = Field(description="Rows that one core processes in a second of a batch.")
    tasks: int | None = Field(
        default=None, description="Tasks of the batches' longest stage in Spark. More cores do not help it."
    )


class StageInfo(Model):
    """A stage: one streaming query of the job, or several that share an input as shards."""

    uid: str = Field(description="The query's name; `main` or a derived name for a query without one.")
    tasks: tuple[TaskInfo, ...] = Field(default=(), description="The stage's shards.")
    operators: tuple[OperatorInfo, ...] = Field(default=(), description="The stage's operators.")
    upstream: tuple[str, ...] = Field(
        default=(), description="The stages that this stage reads from, by uid, started or not."
    )
    watermark: str | None = Field(default=None, description="Current event-time watermark.")
    batch: int | None = Field(default=None, description="Newest committed batch of all tasks.")
    input_rows_per_second: float | None = Field(default=None, description="Rows read per second.")
    processed_rows_per_second: float | None = Field(
        default=None, description="Rows per second of processing time, in the last batch."
    )
    batch_seconds: dict[str, float] | None = Field(
        default=None,
        description="Duration of the last trigger and of its parts, named as in Spark's durationMs: "
        "triggerExecution is the whole.",
    )
    state_rows: int | None = Field(default=None, description="Rows in the state.")
    state_bytes: int | None = Field(default=None, description="Memory of the state stores.")
    watermark_delay_seconds: float | None = Field(
        default=None, description="How far the watermark was behind the driver's clock."
    )
    last_commit_at: Timestamp | None = Field(default=None, description="When the newest batch was committed.")
    sources: tuple[SourceInfo, ...] = Field(default=(), description="The stage's sources whose lag is known.")
    load: LoadInfo | None = Field(
        default=None,
        description="Absent where everything runs in the driver, and until a few batches are known.",
    )
