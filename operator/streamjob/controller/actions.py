"""What `decide` may ask for. Each is one API call (or one call to the driver), idempotent, with its preconditions."""

from __future__ import annotations

from dataclasses import dataclass

from ..api import Specification
from ..protocol.index import Index
from ..protocol.messages import (
    DriverConfig,
    RecordsRequest,
    SavepointDeletion,
    SavepointRequest,
    TerminationRequest,
)


@dataclass(frozen=True)
class SetFinalizer:
    """Put our finalizer on the job, or take it away; only if the job has not changed since."""

    present: bool


@dataclass(frozen=True)
class EnsureSecret:
    """Token and certificate, unless they are there."""


@dataclass(frozen=True)
class WriteIndex:
    """Create the index (`version` None), or replace exactly that version of it."""

    index: Index
    version: str | None


@dataclass(frozen=True)
class CreateDriver:
    """The pod of `config.epoch`, made from `specification`, unless it is there."""

    config: DriverConfig
    specification: Specification


@dataclass(frozen=True)
class DeletePod:
    """This pod. `version`: only if it has not changed since we looked. `grace`: None for the pod's own."""

    name: str
    uid: str
    version: str | None = None
    grace: int | None = None


@dataclass(frozen=True)
class SendTermination:
    """PUT /v1/termination"""

    request: TerminationRequest


@dataclass(frozen=True)
class SendSavepoint:
    """PUT /v1/savepoint"""

    request: SavepointRequest


@dataclass(frozen=True)
class DeleteSavepoints:
    """PUT /v1/deletions"""

    deletion: SavepointDeletion


@dataclass(frozen=True)
class AskForRecords:
    """PUT /v1/records"""

    request: RecordsRequest


@dataclass(frozen=True)
class ConfirmCheckpoint:
    """PUT /v1/checkpoints/{n}/completed: the index has it."""

    checkpoint: int
    epoch: int


Action = (
    SetFinalizer
    | EnsureSecret
    | WriteIndex
    | CreateDriver
    | DeletePod
    | SendTermination
    | SendSavepoint
    | DeleteSavepoints
    | AskForRecords
    | ConfirmCheckpoint
)
# What a user's wish has the driver told. Said to a driver that should not be, or twice, they do no harm.
COMMANDS = (SendTermination, SendSavepoint)
