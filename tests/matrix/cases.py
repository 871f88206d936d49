"""The cases of the matrix."""

from __future__ import annotations

from dataclasses import dataclass

SOURCES = ("files", "kafka", "kafka-max", "kafka-min", "delta", "iceberg", "portions", "rate")
TRIGGERS = ("default", "interval", "available", "once")
ENDS = ("end", "stop", "kill", "handover", "drain", "drain-at-start")


@dataclass(frozen=True)
class Case:
    source: str
    end: str
    trigger: str

    def __str__(self) -> str:
        return f"{self.source}-{self.end}-{self.trigger}"


def applies(case: Case) -> bool:
    """A query that does not end by itself has no end of its own, and a source without an end is never read
    completely.
    """
    if case.end == "end":
        return case.trigger in ("available", "once") and case.source != "rate"
    # Another process is prepared for longer than such a query lasts.
    return not (case.end == "handover" and case.trigger in ("available", "once"))


CASES = [
    case
    for source in SOURCES
    for end in ENDS
    for trigger in TRIGGERS
    if applies(case := Case(source, end, trigger))
]
