"""Who leads: the rules by which the replicas of a controller share one Lease. Pure: no I/O and no clock.

`now` is seconds of the caller's own monotonic clock. Times that stand in the Lease are for people: nobody's clock is compared
with anybody else's. What counts is for how long *we* have seen the Lease unchanged, as in client-go's leader election.

- A leader renews every RENEW_EVERY seconds. It trusts its leadership for TRUST seconds after it *sent* the last renewal that was
  taken; then it does nothing until it has the Lease again.
- Another one takes the Lease when it has seen it unchanged for LAPSE seconds, which is longer; or at once when it was released.
- Each acquisition is a new *term*, one above every term that was ever seen. It is the Lease's `leaseTransitions`, and goes with
  all that a leader writes (ADR 11): these times make two leaders unlikely, the terms make the older one harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

LAPSE = 10.0
TRUST = 7.0
RENEW_EVERY = 2.0


@dataclass(frozen=True)
class Record:
    """The Lease. `holder`: empty when it was released. `version`: its resourceVersion, empty if there is none yet."""

    holder: str
    term: int
    version: str


class Candidate:
    """One replica's view of the Lease, and whether it leads."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self._record: Record | None = None
        self._since = 0.0  # we have seen it unchanged since then
        self._term = 0  # that we lead in, 0 for none
        self._until = 0.0
        self._highest = 0  # of all terms that we have heard of

    def term(self, now: float) -> int:
        """The term in which we lead, 0 if we do not."""
        return self._term if now < self._until else 0

    def saw(self, record: Record | None, now: float) -> None:
        """The Lease was read and is this, or is not there. A write of ours without an answer may have been taken: then it is
        our own record, of the term in which we lead."""
        if record is None or record.version != (self._record.version if self._record else None):
            self._since = now
        self._record = record
        self._highest = max(self._highest, record.term if record else 0)
        if record is None or (record.holder, record.term) != (self.identity, self._term):
            self._term = 0

    def wrote(self, record: Record, sent: float) -> None:
        """Our write was taken, with the resourceVersion in `record`. `sent`: when it was on its way, at the latest."""
        self.saw(record, sent)
        leads = record.holder == self.identity
        self._term, self._until = (record.term, sent + TRUST) if leads else (0, 0.0)

    def outdated(self, term: int) -> None:
        """Something of a job knows a term above ours. If the Lease is ours all the same, it was deleted or restored from a
        backup: its numbers have to go on above that one."""
        self._highest = max(self._highest, term)

    def next(self, now: float) -> Record | None:
        """What to write now, if the Lease is still at that version: to renew or to acquire it. None: wait."""
        known, term = self._record, self.term(now)
        version = known.version if known else ""
        if term:
            return Record(self.identity, term if term >= self._highest else self._highest + 1, version)
        taken = known is not None and known.holder not in ("", self.identity)
        if taken and now - self._since < LAPSE:
            return None
        return Record(self.identity, self._highest + 1, version)

    def release(self, now: float) -> Record | None:
        """What to write to let go; None if we do not lead."""
        term = self.term(now)
        return Record("", term, self._record.version) if term and self._record else None
