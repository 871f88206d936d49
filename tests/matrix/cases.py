"""The cases of the matrix."""

from __future__ import annotations

from dataclasses import dataclass

# Sources whose queries are one job. Two cores carry no more of them at once.
GROUPS = {
    "files": ("files", "delta", "iceberg", "portions"),
    "kafka": ("kafka", "kafka-max", "kafka-min"),
    "rate": ("rate",),
    "chain": ("files", "chain"),
}
CHAIN = "chain"  # reads what `files` writes, a file a batch
ENDLESS = "rate"  # goes on for ever by itself
TRIGGERS = ("default", "interval", "available", "once")
ENDS = ("end", "stop", "kill", "handover", "drain", "drain-at-start")
LIVE = ("default", "interval")  # with these, a query does not end by itself


@dataclass(frozen=True)
class Case:
    group: str
    end: str
    trigger: str

    def __str__(self) -> str:
        return f"{self.group}-{self.end}-{self.trigger}"

    @property
    def sources(self) -> tuple[str, ...]:
        return GROUPS[self.group]

    @property
    def endless(self) -> bool:
        return ENDLESS in self.sources


def applies(case: Case) -> bool:
    """A query that does not end by itself has no end of its own, and a source without an end is never read
    completely.
    """
    if case.end == "end":
        return case.trigger not in LIVE and not case.endless
    # Another process is prepared for longer than a query lasts that ends by itself.
    return not (case.end == "handover" and case.trigger not in LIVE)


CASES = [
    case
    for group in GROUPS
    for end in ENDS
    for trigger in TRIGGERS
    if applies(case := Case(group, end, trigger))
]
