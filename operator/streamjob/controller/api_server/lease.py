"""The rules by which the replicas of a controller elect a leader with one Lease. Pure: no I/O and no clock.

`now` is in seconds of the caller's own monotonic clock. The times in the Lease are for people: clocks of
different replicas are never compared. What counts is for how long *we* have seen the Lease unchanged, as in
client-go's leader election.

- A leader renews every RENEW_EVERY seconds. It trusts its leadership for TRUST seconds after it *sent* the
  last accepted renewal; then it does nothing until it has the Lease again.
- Another replica takes the Lease once it has seen it unchanged for LAPSE seconds, which is longer, or at once
  if the Lease was released.
- Each acquisition is a new *term*, one above every term ever seen. It is the Lease's `leaseTransitions` and
  accompanies everything that a leader writes (ADR 11): the times make two leaders unlikely, the terms make
  the older one harmless.
"""

from __future__ import annotations

from dataclasses import dataclass

LAPSE = 10.0
TRUST = 7.0
RENEW_EVERY = 2.0


@dataclass(frozen=True)
class Record:
    """The Lease.

    :param holder: identity of the leader; empty if the Lease was released.
    :param term: number of the acquisition.
    :param version: the Lease's resourceVersion; empty if it does not exist yet.
    """

    holder: str
    term: int
    version: str


class Candidate:
    """One replica's view of the Lease, and whether that replica leads."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self._record: Record | None = None
        self._since = 0.0  # since when we have seen the record unchanged
        self._term = 0  # the term in which we lead, 0 if we do not
        self._until = 0.0
        self._highest = 0  # the highest term that we know of

    def term(self, now: float) -> int:
        """The term in which we lead, 0 if we do not."""
        return self._term if now < self._until else 0

    def saw(self, record: Record | None, now: float) -> None:
        """Note the Lease as read. We still lead if it is our own record of our term: that may be an
        unanswered write of ours that was applied after all.

        :param record: None if there is no Lease.
        """
        if record is None or record.version != (self._record.version if self._record else None):
            self._since = now
        self._record = record
        self._highest = max(self._highest, record.term if record else 0)
        if record is None or (record.holder, record.term) != (self.identity, self._term):
            self._term = 0

    def wrote(self, record: Record, sent: float) -> None:
        """Note that our write was accepted.

        :param record: what was written, with the new resourceVersion.
        :param sent: a time no later than the sending; trust counts from it.
        """
        self.saw(record, sent)
        leads = record.holder == self.identity
        self._term, self._until = (record.term, sent + TRUST) if leads else (0, 0.0)

    def outdated(self, term: int) -> None:
        """Note that a job or its driver knows a term above ours. If the Lease is ours nevertheless, it was
        deleted or restored from a backup, and its terms must continue above that one.
        """
        self._highest = max(self._highest, term)

    def next(self, now: float) -> Record | None:
        """What to write now to renew or acquire the Lease, only if it is still at that version.

        :returns: None to wait.
        """
        known, term = self._record, self.term(now)
        version = known.version if known else ""
        if term:
            return Record(self.identity, term if term >= self._highest else self._highest + 1, version)
        taken = known is not None and known.holder not in ("", self.identity)
        if taken and now - self._since < LAPSE:
            return None
        return Record(self.identity, self._highest + 1, version)

    def release(self, now: float) -> Record | None:
        """What to write to release the Lease; None if we do not lead."""
        term = self.term(now)
        return Record("", term, self._record.version) if term and self._record else None
