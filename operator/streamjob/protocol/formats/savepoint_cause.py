"""The cause of a savepoint: why it was taken, and who requested it. Both follow from the request's id, which
is in the manifest and in the name of the savepoint's folder.

Every id is derived from what requests the savepoint (`controller.rules`, the
runtime's eviction, local mode and `savepoint adopt`), so the table below must list all prefixes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .records import CheckpointRecord

ADOPTION = "adopt"
_ASKED = (  # prefix of the request id, cause, requested by
    ("savepoint-manual-", "Manual", "spec.savepoint.nonce"),
    ("savepoint-schedule-", "Schedule", "spec.savepoint.schedule"),
    ("upgrade-", "Upgrade", "a change of the spec"),
    ("delete-", "Deletion", "the deletion of the StreamJob"),
    ("eviction-", "Eviction", "SIGTERM to the driver's pod"),
    ("stop-", "Stop", "spec.state"),
    ("drain-", "Drain", "spec.state"),
    (ADOPTION, "Adoption", "the command savepoint adopt"),
)


def why(record: CheckpointRecord) -> str:
    """The cause in one word; see `cause`."""
    return cause(record.request_id, record.scenario.value if record.scenario else None)


def cause(request_id: str | None, scenario: str | None) -> str:
    """The cause in one word, such as `Upgrade`. Without a known prefix: what the checkpoint ended (such as
    `EndOfInput`), or `Running`.
    """
    for start, word, _ in _ASKED:
        if (request_id or "").startswith(start):
            return word
    return scenario or "Running"


def by_whom(record: CheckpointRecord) -> str | None:
    """Who requested the savepoint. An unknown request id is returned as it is; None: nobody requested it."""
    if record.request_id is None:
        return None
    return next((who for start, _, who in _ASKED if record.request_id.startswith(start)), record.request_id)
