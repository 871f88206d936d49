"""What the manual says of each reason, and whose move it is."""

from __future__ import annotations

import json
import pkgutil
from functools import lru_cache

from ..views.progress import Mover, waits_for_a_node

# Everything else is the user's move.
OF_OPERATOR = {
    "DriverKilled", "DriverLost", "Evicted", "IndexRebuilt", "NamespaceTerminating", "SavepointOutrun",
    "UpstreamStartedTooLate", "Conflict",
}  # fmt: skip


@lru_cache(maxsize=1)
def table() -> dict[str, dict[str, str]]:
    """The manual's table: what is wrong and what to do, by reason."""
    data = pkgutil.get_data(__package__, "remedies.json")
    assert data is not None
    found: dict[str, dict[str, str]] = json.loads(data)
    return found


def remedy(reason: str, given: str = "") -> str:
    """What to do.

    :param given: what the resource says itself. It knows more than the manual, which speaks of every case.
    """
    if given:
        return _sentence(given)
    known = table().get(reason, {}).get("remedy", "")
    return "" if known == "see the message" else _sentence(known)


def of_warning(reason: str) -> str:
    """What to do about a warning."""
    return _sentence(table().get(reason, {}).get("warning", ""))


def what(reason: str) -> str:
    """What is wrong, in general."""
    return table().get(reason, {}).get("what", "")


def mover(reason: str, message: str = "") -> Mover:
    """Whose move it is.

    :param message: of the condition or Event.
    """
    if waits_for_a_node(reason, message):
        return Mover.KUBERNETES
    return Mover.OPERATOR if reason in OF_OPERATOR else Mover.YOU


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[0].upper()}{text[1:]}." if text else ""
