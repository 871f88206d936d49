"""What the status says of an error."""

from __future__ import annotations

from pydantic import Field

from ...protocol.messages.driver_status import Problem
from ..types import Model, Timestamp


class ErrorStatus(Model):
    """The latest error and its remedy. It stays after the problem is resolved."""

    reason: str = Field(description="A stable identifier in CamelCase.")
    message: str = Field(description="What went wrong.")
    remedy: str = Field(default="", description="What to do about it.")
    time: Timestamp = Field(description="When the error first occurred.")

    @property
    def problem(self) -> Problem:
        return Problem(self.reason, self.message, self.remedy)
