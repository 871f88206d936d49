"""The custom resource `streamjob.dev/v1alpha1` StreamJob, as pydantic models.

The models are the truth: `python -m streamjob.api > crds/streamjobs.yaml` writes the CustomResourceDefinition from them.
What a schema or a CEL rule can refuse is refused at `kubectl apply`; the rest becomes a condition in the status.
"""

from .resource import GROUP, KIND, PLURAL, VERSION, Metadata, StreamJob
from .spec import (
    Application,
    Driver,
    Escalation,
    Executor,
    OnDelete,
    RestartPolicy,
    Spec,
    State,
    Storage,
    UpgradeMode,
    Volume,
)
from .specification import Specification
from .status import (
    AbortedCheckpointStatus,
    CheckpointStatus,
    Condition,
    ConditionType,
    DriverInfo,
    ErrorStatus,
    EscalationStatus,
    OperatorInfo,
    Phase,
    RestartStatus,
    SavepointStatus,
    StageInfo,
    Status,
    TaskInfo,
    TerminationInfo,
    UpgradeStatus,
    UpgradeStep,
)

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
    "Executor",
    "Metadata",
    "OnDelete",
    "OperatorInfo",
    "Phase",
    "RestartPolicy",
    "RestartStatus",
    "SavepointStatus",
    "Spec",
    "Specification",
    "StageInfo",
    "State",
    "Status",
    "Storage",
    "StreamJob",
    "TaskInfo",
    "TerminationInfo",
    "UpgradeMode",
    "UpgradeStatus",
    "UpgradeStep",
    "Volume",
]
