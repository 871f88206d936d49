"""The whole StreamJob object."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from .spec import Spec
from .specification import Specification
from .status import Status
from .types import Model, Timestamp, cel

GROUP = "streamjob.dev"
VERSION = "v1alpha1"
KIND = "StreamJob"
PLURAL = "streamjobs"
NAME_LIMIT = 40  # Spark allows 47 for `<name>-<epoch>`, the prefix of its executors' names


class Metadata(Model):
    """The parts of the object's metadata that the controller reads."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: str
    deletion_timestamp: Timestamp | None = None
    finalizers: tuple[str, ...] = ()


class StreamJob(Model):
    """A PySpark Structured Streaming job that can be stopped with a savepoint, resumed and drained."""

    metadata: Metadata
    spec: Spec
    status: Status = Field(default_factory=Status)

    model_config = ConfigDict(
        json_schema_extra=cel(
            (
                f"size(self.metadata.name) <= {NAME_LIMIT} && "
                "self.metadata.name.matches(r'^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                f"a StreamJob's name has at most {NAME_LIMIT} lower-case letters, digits and '-', and begins "
                "with a letter",
            ),
        ),
    )

    def made_from(self, specification: Specification) -> StreamJob:
        """The same job with another driver specification."""
        return self.model_copy(update={"spec": specification.onto(self.spec)})

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @classmethod
    def parse(cls, obj: dict[str, Any]) -> StreamJob:
        """Parse the API server's JSON.

        :raises pydantic.ValidationError: the object was stored under an incompatible schema.
        """
        return cls.model_validate(obj)
