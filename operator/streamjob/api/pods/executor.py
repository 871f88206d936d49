"""The executors: how many of them, and their pods."""

from __future__ import annotations

from typing import Any, NamedTuple

from pydantic import ConfigDict, Field

from ..types import Cores, Duration, Memory, Model, cel
from . import template as pod_template

MOST = 1000


class DynamicAllocation(Model):
    """Spark adds executors while tasks wait, and removes those that are idle, after it has moved their
    shuffle files to others. Changes of `min` and `max` reach the running driver.
    """

    min: int = Field(default=0, ge=0, le=MOST, description="The number of executors never falls below this.")
    max: int = Field(ge=1, le=MOST, description="The number of executors never rises above this.")
    idle_timeout: Duration = Field(
        default="60s",
        description="How long an executor has no task before it is removed. One that gets a task in each "
        "batch is not idle.",
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("!has(self.min) || self.min <= self.max", "min must not be above max"),
            ("!has(self.idleTimeout) || self.idleTimeout.matches('[1-9]')", "idleTimeout must not be 0"),
        )
    )


class Stabilization(Model):
    """How long the load must ask for another number of executors without a break before it is changed."""

    up: Duration = Field(default="1m", description="Before executors are added.")
    down: Duration = Field(default="5m", description="Before executors are removed.")


class Autoscale(Model):
    """Let the operator choose the number of executors by the load: rows that arrive, what a row costs, and
    how far the job is behind. The number changes without a restart.
    """

    min: int = Field(default=1, ge=1, le=MOST, description="The number of executors never falls below this.")
    max: int = Field(ge=1, le=MOST, description="The number of executors never rises above this.")
    target_utilization: float = Field(
        default=0.7,
        description="Share of the time that batches take on the chosen number. It may come to 0.2 more "
        "before executors are added, and to 0.15 less before they are removed.",
    )
    lag_target: Duration = Field(
        default="60s",
        description="What the job is behind is to be worked off within this time.",
    )
    stabilization: Stabilization = Field(default_factory=Stabilization)

    model_config = ConfigDict(
        json_schema_extra=cel(
            ("!has(self.min) || self.min <= self.max", "min must not be above max"),
            (  # a schema's bound would be told as a whole number
                "!has(self.targetUtilization) || (self.targetUtilization >= 0.3 && "
                "self.targetUtilization <= 0.8)",
                "targetUtilization must be between 0.3 and 0.8",
            ),
            ("!has(self.lagTarget) || self.lagTarget.matches('[1-9]')", "lagTarget must not be 0"),
        )
    )


class Numbers(NamedTuple):
    """The bounds of the number of executors. They are equal unless Spark chooses the number."""

    least: int
    most: int


class Executor(Model):
    """The executor pods. Spark's own Kubernetes scheduler creates them. With none of `instances`, `autoscale`
    and `dynamicAllocation`, everything runs in the driver, as local[*].
    """

    instances: int = Field(
        default=0,
        ge=0,
        le=MOST,
        description="Number of executor pods. A change from one number to another reaches the running "
        "driver; a change from or to 0 requires a new driver.",
    )
    dynamic_allocation: DynamicAllocation | None = Field(
        default=None,
        description="Let Spark choose the number of executors within bounds, instead of `instances`.",
    )
    autoscale: Autoscale | None = Field(
        default=None,
        description="Let the operator choose the number of executors within bounds, instead of `instances`.",
    )
    cores: Cores = Field(
        default="1",
        description="CPU request of each executor's pod. An executor runs as many tasks at a time, rounded "
        "up.",
    )
    memory: Memory = Field(
        default="1Gi",
        description="Heap of each executor's JVM, as spark.executor.memory. Spark adds its own "
        "overhead to the pod.",
    )
    template: dict[str, Any] | None = Field(
        default=None,
        description="Pod template (metadata.labels, metadata.annotations, spec) to merge into the executors' "
        "pods. Named list entries are merged by name; Spark's container is named `executor`. Fields that the "
        "operator or Spark sets are refused.",
        json_schema_extra=pod_template.EXECUTOR,
    )

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                "!has(self.dynamicAllocation) || !has(self.instances) || self.instances == 0",
                "instances and dynamicAllocation exclude each other; dynamicAllocation starts with its min",
            ),
            (
                "!has(self.autoscale) || !has(self.instances) || self.instances == 0",
                "instances and autoscale exclude each other: with autoscale the operator chooses the number",
            ),
            (
                "!has(self.autoscale) || !has(self.dynamicAllocation)",
                "autoscale and dynamicAllocation exclude each other; one of them chooses the number",
            ),
        )
    )

    @property
    def numbers(self) -> Numbers | None:
        """The bounds of their number; None if everything runs in the driver."""
        if self.dynamic_allocation is not None:
            return Numbers(self.dynamic_allocation.min, self.dynamic_allocation.max)
        if self.autoscale is not None:
            return Numbers(self.autoscale.min, self.autoscale.min)
        return Numbers(self.instances, self.instances) if self.instances else None

    @property
    def without_numbers(self) -> Executor:
        """What of it requires a new driver: the way in which the number is chosen, not the number."""
        dynamic = self.dynamic_allocation
        return self.model_copy(
            update={
                "instances": int(dynamic is None and self.numbers is not None),
                "autoscale": None,
                "dynamic_allocation": dynamic and dynamic.model_copy(update={"min": 0, "max": 1}),
            }
        )

    def with_number(self, number: int) -> Executor:
        """This with a number that somebody has chosen."""
        return self.model_copy(update={"instances": number, "autoscale": None})

    def chooses_like(self, other: Executor) -> bool:
        """Whether a driver can go from the numbers of one to those of the other."""
        return (self.dynamic_allocation is None, self.numbers is None) == (
            other.dynamic_allocation is None,
            other.numbers is None,
        )

    def with_numbers_of(self, other: Executor) -> Executor:
        """This with the numbers of `other`, if a driver can have both."""
        mine, theirs = self.dynamic_allocation, other.dynamic_allocation
        if not self.chooses_like(other):
            return self
        dynamic = mine and theirs and mine.model_copy(update={"min": theirs.min, "max": theirs.max})
        return self.model_copy(
            update={"instances": other.instances, "autoscale": other.autoscale, "dynamic_allocation": dynamic}
        )
