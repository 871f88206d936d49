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


class Numbers(NamedTuple):
    """The bounds of the number of executors. They are equal unless Spark chooses the number."""

    least: int
    most: int


class Executor(Model):
    """The executor pods. Spark's own Kubernetes scheduler creates them. With neither `instances` nor
    `dynamicAllocation`, everything runs in the driver, as local[*].
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
            )
        )
    )

    @property
    def numbers(self) -> Numbers | None:
        """The bounds of their number; None if everything runs in the driver."""
        if self.dynamic_allocation is not None:
            return Numbers(self.dynamic_allocation.min, self.dynamic_allocation.max)
        return Numbers(self.instances, self.instances) if self.instances else None

    @property
    def without_numbers(self) -> Executor:
        """What of it requires a new driver: the way in which the number is chosen, not the number."""
        dynamic = self.dynamic_allocation
        return self.model_copy(
            update={
                "instances": min(self.instances, 1),
                "dynamic_allocation": dynamic and dynamic.model_copy(update={"min": 0, "max": 1}),
            }
        )

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
        return self.model_copy(update={"instances": other.instances, "dynamic_allocation": dynamic})
