"""Why a savepoint was taken, and at whose word. Its request's id says it, which stands in the manifest and in its folder's name.

Ids follow from what asked (`controller.case`, `controller.savepoints`, the runtime's eviction), so this list has all of them.
"""

from __future__ import annotations

from .records import CheckpointRecord

ADOPTION = "adopt"
_ASKED = (  # how an id begins, why, at whose word
    ("savepoint-trigger-", "Trigger", "spec.savepoint.trigger"),
    ("savepoint-schedule-", "Schedule", "spec.savepoint.schedule"),
    ("upgrade-", "Upgrade", "a change of the spec"),
    ("delete-", "Deletion", "the deletion of the StreamJob"),
    ("eviction-", "Eviction", "SIGTERM to the driver's pod"),
    ("stop-", "Stop", "spec.state"),
    ("drain-", "Drain", "spec.state"),
    (ADOPTION, "Adoption", "the command savepoint adopt"),
)


def why(record: CheckpointRecord) -> str:
    """In a word: `Upgrade`; of what nobody asked for, what it ended (`EndOfInput`), or `Running`."""
    for start, word, _ in _ASKED:
        if (record.request_id or "").startswith(start):
            return word
    return record.scenario.value if record.scenario else "Running"


def by_whom(record: CheckpointRecord) -> str | None:
    """None: nobody asked for it."""
    if record.request_id is None:
        return None
    return next((who for start, _, who in _ASKED if record.request_id.startswith(start)), record.request_id)
