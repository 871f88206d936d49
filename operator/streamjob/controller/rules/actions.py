"""The actions that `decide` may request.

Each is one API call or one call to the driver, idempotent, with its preconditions.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...api import Runtime, Specification
from ...protocol.formats.index import Index
from ...protocol.messages.commands import (
    ExecutorsRequest,
    RecordsRequest,
    SavepointDeletion,
    SavepointRequest,
    TerminationRequest,
)
from ...protocol.messages.driver_config import DriverConfig, Gate
from ..objects import Obj
from ..objects.ui import UiKind


@dataclass(frozen=True)
class SetFinalizer:
    """Add our finalizer to the job, or remove it, only if the job has not changed since."""

    present: bool


@dataclass(frozen=True)
class EnsureSecret:
    """Create the Secret with token and certificate, unless it exists."""


@dataclass(frozen=True)
class EnsureRuntime:
    """Create the ConfigMap with the runtime in the job's namespace, unless it exists."""


@dataclass(frozen=True)
class WriteIndex:
    """Create the index (`version` None), or replace exactly that version of it."""

    index: Index
    version: str | None


@dataclass(frozen=True)
class CreateDriver:
    """Create the pod of `config.epoch`, made from `specification`, unless it exists."""

    config: DriverConfig
    specification: Specification


@dataclass(frozen=True)
class DeletePod:
    """Delete this pod and no other of its name.

    :param version: the resourceVersion that the pod must still have; None: any.
    :param grace: the grace period in seconds; None: the pod's own.
    """

    name: str
    uid: str
    version: str | None = None
    grace: int | None = None


@dataclass(frozen=True)
class ApplyUi:
    """Create or update what leads to Spark's UI, unless somebody else's object has its name."""

    body: Obj


@dataclass(frozen=True)
class DeleteUi:
    """Delete the object that led to Spark's UI, if it is the job's."""

    kind: UiKind


@dataclass(frozen=True)
class OpenGate:
    """PUT /v1/gate, to the driver of `gate.epoch`"""

    gate: Gate


@dataclass(frozen=True)
class SendTermination:
    """PUT /v1/termination"""

    request: TerminationRequest


@dataclass(frozen=True)
class SendSavepoint:
    """PUT /v1/savepoint"""

    request: SavepointRequest


@dataclass(frozen=True)
class SendExecutors:
    """PUT /v1/executors"""

    request: ExecutorsRequest


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
    | EnsureRuntime
    | WriteIndex
    | CreateDriver
    | DeletePod
    | ApplyUi
    | DeleteUi
    | OpenGate
    | SendTermination
    | SendSavepoint
    | SendExecutors
    | DeleteSavepoints
    | AskForRecords
    | ConfirmCheckpoint
)
# The commands that carry a user's request. Sent twice, or to a driver that should not exist, they do no harm.
COMMANDS = (SendTermination, SendSavepoint, SendExecutors)


def completed_token(checkpoint: int) -> str:
    """The token of a confirmed checkpoint among the acknowledged commands."""
    return f"checkpoint-{checkpoint}-completed"


def deletion_token(savepoints: tuple[str, ...]) -> str:
    """The token of a deletion among the acknowledged commands."""
    return " ".join(("delete", *savepoints))


def creation(config: DriverConfig, specification: Specification, *before: Action) -> tuple[Action, ...]:
    """What creates a driver, its pod last. `before`: what else has to be there."""
    runtime = (EnsureRuntime(),) if specification.runtime is Runtime.INJECTED else ()
    return EnsureSecret(), *runtime, *before, CreateDriver(config, specification)
