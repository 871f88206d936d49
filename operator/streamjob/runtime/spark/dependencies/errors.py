"""Why a dependency of the job is not there. Each message begins with the field of the custom resource."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....protocol.errors import StreamJobError
from ....storage.errors import StorageError


class DependencyInvalid(StreamJobError):
    """What the field names does not exist, may not be read, or is no such thing."""

    reason = "DependencyInvalid"


class DependencyUnavailable(StreamJobError):
    """What the field names cannot be reached now."""

    reason = "DependencyUnavailable"
    retryable = True


@contextmanager
def of_field(field: str) -> Iterator[None]:
    """Name the field in errors of the storage."""
    try:
        yield
    except StorageError as e:
        kind = DependencyUnavailable if e.retryable else DependencyInvalid
        raise kind(f"{field}: {e.message}", remedy=e.remedy) from None
