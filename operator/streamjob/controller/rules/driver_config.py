"""The configuration of a driver: where it begins, how it takes checkpoints, what it has to end."""

from __future__ import annotations

from dataclasses import replace

from ...api import StreamJob
from ...api.deps import Deps as DepsOfSpec
from ...api.storage import Checkpoint
from ...api.types import duration, seconds
from ...protocol.formats.index import Index
from ...protocol.formats.records import JobRef
from ...protocol.messages.commands import TerminationRequest
from ...protocol.messages.driver_config import (
    Application,
    CheckpointSettings,
    Deps,
    DriverConfig,
    Gate,
    Restore,
)
from ..objects import names
from ..objects.spark_conf import spark_conf
from .observed import gate_token
from .status import end_failed, nothing_has_run


def driver_config(
    job: StreamJob,
    index: Index | None,
    epoch: int,
    started_epoch: int,
    termination: TerminationRequest | None,
) -> DriverConfig:
    """Build the configuration that the driver of `epoch` starts with, but for its executors' template.

    :param index: the index, None if it is not there or cannot be read.
    :param started_epoch: the newest epoch whose driver may have done anything.
    :param termination: the termination that the driver has to carry out, if any.
    """
    meta, app = job.metadata, job.spec.application
    known = job.status.checkpoint.latest if job.status.checkpoint else 0
    return DriverConfig(
        job=JobRef(meta.namespace, meta.name, meta.uid),
        epoch=epoch,
        application=Application(app.file, app.module, app.args),
        checkpoints=names.checkpoints_root(job),
        next_checkpoint=max(index.next_id if index else 1, known + 1),
        restore=_restore(job, index, started_epoch),
        checkpointing=_checkpointing(job.spec.checkpoint),
        termination=termination,
        eviction_savepoint=names.eviction_savepoint(job, epoch),
        grace=seconds(job.spec.termination.grace_period),
        spark_conf=spark_conf(job, epoch),
        round=job.spec.schedule is not None,
        deps=Deps(**{name: getattr(job.spec.deps, name) for name in DepsOfSpec.model_fields}),
    )


def prepared_config(job: StreamJob, epoch: int) -> DriverConfig:
    """Build the configuration of a driver that waits at the gate, without what it continues from."""
    return replace(
        driver_config(job, None, epoch, 0, None), prepared=True, restore=Restore(), next_checkpoint=1
    )


def gate(job: StreamJob, index: Index | None, epoch: int, started_epoch: int) -> Gate:
    """Build what opens the gate of the driver of `epoch`: what it would have started with."""
    config = driver_config(job, index, epoch, started_epoch, None)
    return Gate(gate_token(epoch), epoch, config.restore, config.next_checkpoint)


def fits_a_gate(index: Index | None) -> bool:
    """Whether a gate can say what the job continues from. A record without its stages is only found by a
    driver that starts (`Restore.recorded`).
    """
    latest = index.latest if index is not None else None
    return latest is None or bool(latest.stages) or latest.savepoint is None


def _restore(job: StreamJob, index: Index | None, started_epoch: int) -> Restore:
    """Say where the driver begins.

    It begins exactly at the newest checkpoint if no driver has started a query since; otherwise the
    directories may be ahead of it. If the index does not have the full record, the driver gets the savepoint
    that has it.
    """
    latest = index.latest if index else None
    recorded: str | None = None
    exact = nothing_has_run(latest, job.status, started_epoch)
    if latest is not None and end_failed(latest, job.status):
        exact = False  # the queries have ended, the job has not: the script runs again
    if latest is not None and latest.savepoint is not None and not latest.stages:
        # The record comes from a final report, which had no room for the stages.
        recorded, latest = latest.savepoint, None
    if (
        index is None and job.status.checkpoint is not None and job.status.savepoint is not None
    ):  # see `rebuild`
        recorded, exact = job.status.savepoint.latest, job.status.checkpoint.epoch >= started_epoch
    source = job.spec.restore_from
    begins = source is not None and latest is None and recorded is None
    return Restore(
        latest=latest,
        exact=exact,
        savepoint=source.savepoint if source and begins else None,
        allow_drained=source.allow_drained if source else False,
        checkpoints=source.checkpoints or {} if source and begins else {},
        recorded=recorded,
        allow_non_restored_state=source.allow_non_restored_state if source else False,
        # A job that has come to its end gets no driver: if nothing is left to resume, a driver has failed
        # since.
        again=(latest is not None or recorded is not None) and not exact,
    )


def _checkpointing(spec: Checkpoint) -> CheckpointSettings:
    return CheckpointSettings(
        interval=duration(spec.interval).total_seconds(),
        timeout=duration(spec.timeout).total_seconds() or None,
        min_pause=duration(spec.min_pause).total_seconds(),
        max_concurrent=spec.max_concurrent,
    )
