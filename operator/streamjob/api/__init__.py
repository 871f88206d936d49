"""The custom resource `streamjob.dev/v1alpha1` StreamJob, as pydantic models.

The models are authoritative: `python -m streamjob.api > crds/streamjobs.yaml` generates the
CustomResourceDefinition from them. Whatever a schema or a CEL rule can refuse is refused at `kubectl apply`;
the rest becomes a condition in the status.
"""

from .pods.executor import Executor, Numbers
from .policies import Escalation, OnDelete, RestartPolicy, UpgradeMode
from .program import Application, Driver
from .reported.conditions import Condition, ConditionType
from .reported.drivers import (
    AutoscaleStatus,
    DriverInfo,
    ExecutorsStatus,
    ExitStatus,
    PodPhase,
    StandbyStatus,
)
from .reported.errors import ErrorStatus
from .reported.stages import LoadInfo, OperatorInfo, SourceInfo, StageInfo, TaskInfo
from .resource import GROUP, KIND, PLURAL, VERSION, Metadata, StreamJob
from .spec import Runtime, Spec, State
from .specification import Specification
from .status import (
    AbortedCheckpointStatus,
    CheckpointStatus,
    EscalationStatus,
    Phase,
    RestartStatus,
    RoundsStatus,
    SavepointCause,
    SavepointRequestStatus,
    SavepointStatus,
    Status,
    TerminationInfo,
    UpgradeStatus,
    UpgradeStep,
    WarningStatus,
)
from .storage import Storage, Volume
from .ui.access import Ui

__all__ = [
    "GROUP",
    "KIND",
    "PLURAL",
    "VERSION",
    "AbortedCheckpointStatus",
    "Application",
    "CheckpointStatus",
    "Condition",
    "ConditionType",
    "Driver",
    "DriverInfo",
    "ErrorStatus",
    "Escalation",
    "EscalationStatus",
    "ExitStatus",
    "Executor",
    "AutoscaleStatus",
    "ExecutorsStatus",
    "LoadInfo",
    "Metadata",
    "Numbers",
    "OnDelete",
    "OperatorInfo",
    "Phase",
    "PodPhase",
    "RestartPolicy",
    "RestartStatus",
    "RoundsStatus",
    "Runtime",
    "SavepointCause",
    "SavepointRequestStatus",
    "SavepointStatus",
    "SourceInfo",
    "Spec",
    "Specification",
    "StandbyStatus",
    "StageInfo",
    "State",
    "Status",
    "Storage",
    "StreamJob",
    "TaskInfo",
    "TerminationInfo",
    "Ui",
    "UpgradeMode",
    "UpgradeStatus",
    "UpgradeStep",
    "Volume",
    "WarningStatus",
]
