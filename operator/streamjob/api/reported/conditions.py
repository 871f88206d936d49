"""Conditions of the status."""

from __future__ import annotations

from enum import Enum

from pydantic import Field

from ..types import Model, Timestamp


class ConditionType(str, Enum):
    """Ready: the job is in the requested state, every query is alive, and batches can run. Reconciling: work
    is in progress. Stalled: a person must act. Upgraded: how the latest upgrade went. Degraded: a query of
    the running job is dead. Suspended: no driver runs, because `spec.suspend` is true. UIAvailable: whether
    the objects that `spec.ui` asks for are there.
    """

    # The first three have the meaning that kstatus gives them.
    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    UPGRADED = "Upgraded"  # only once the specification has changed while a driver ran
    DEGRADED = "Degraded"  # only while a query of the running job is dead
    SUSPENDED = "Suspended"  # only once spec.suspend has been true
    UI_AVAILABLE = "UIAvailable"  # only with spec.ui


class Condition(Model):
    type: ConditionType
    status: str = Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})
    reason: str = Field(description="A stable identifier in CamelCase.")
    message: str = Field(description="Details for a person.")
    observed_generation: int = Field(description="Generation of the spec that the condition refers to.")
    last_transition_time: Timestamp = Field(description="When `status` last changed.")
