"""Commands of the controller to a driver, and what their transport needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

REQUEST_LIMIT = 64 << 10  # bytes of a command's body
RECORD_LIMIT = 1 << 20  # bytes of the body that has a checkpoint record: that of an index, a ConfigMap
CONTROL_PORT = 7443
METRICS_PORT = 7444  # of a driver: /metrics, in plain HTTP and without a token
TERM_HEADER = "Streamjob-Term"
FIGURES_HEADER = "Streamjob-Figures"
SAVEPOINT_ID = "savepoint-"  # prefix of savepoint request ids; termination ids do not have it
TLS_NAME = "driver.streamjob.dev"  # the name in every driver's certificate; connections use the pod's address


class Mode(str, Enum):
    """How a job is asked to end. The end of the input has the mode Drain, because it takes the same path."""

    STOP = "Stop"
    DRAIN = "Drain"


@dataclass(frozen=True)
class TerminationRequest:
    """End the job, with a savepoint if one is named.

    :param request_id: the same in every repetition (V8).
    :param savepoint: URI of the savepoint to write, None for no copy.
    :param timeout: seconds from the request within which the script must end by itself after its queries have
        ended; None: the pod's grace period.
    """

    request_id: str
    epoch: int
    mode: Mode
    savepoint: str | None = None
    timeout: float | None = None


@dataclass(frozen=True)
class SavepointRequest:
    """Write a copy to `savepoint` (URI) while the job keeps running.

    :param request_id: the same in every repetition; together they are one savepoint (V8).
    :param timeout: seconds from the first attempt. Then the savepoint is aborted, and what was written is
        deleted.
    """

    request_id: str
    epoch: int
    savepoint: str
    timeout: float


@dataclass(frozen=True)
class ExecutorsRequest:
    """Let the job have another number of executors.

    :param least: lower bound of the number.
    :param most: upper bound; equal to `least` unless Spark chooses the number.
    """

    epoch: int
    least: int
    most: int

    @property
    def token(self) -> str:
        """The request's entry among the acknowledged commands.

        What the driver has been asked for last is in its status.
        """
        return f"executors-{self.least}-{self.most}"


@dataclass(frozen=True)
class SavepointDeletion:
    """Delete savepoints of this job (URIs) that left the index. A repetition deletes what is left."""

    epoch: int
    savepoints: tuple[str, ...]


@dataclass(frozen=True)
class RecordsRequest:
    """The index is lost: report which checkpoints are known.

    :param reached: number of the newest checkpoint that the job's status has heard of.
    """

    epoch: int
    reached: int

    @property
    def token(self) -> str:
        """The request's entry among the acknowledged commands."""
        return f"records-{self.reached}"


@dataclass(frozen=True)
class Completed:
    """Body of `PUT /v1/checkpoints/{n}/completed`."""

    epoch: int
