"""The rules of leadership: the observed Lease and the time decide who writes it. Each replica has a clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.controller.api_server.lease import LAPSE, RENEW_EVERY, TRUST, Candidate, Record

A, B = "a", "b"


def leader(term: int = 3, now: float = 100.0) -> Candidate:
    """Candidate a, who has just written the Lease."""
    candidate = Candidate(A)
    candidate.wrote(Record(A, term, "v1"), now)
    return candidate


def test_a_lease_that_is_not_there_is_made() -> None:
    candidate = Candidate(A)
    candidate.saw(None, 0.0)
    assert candidate.next(0.0) == Record(A, 1, "")
    assert candidate.term(0.0) == 0, "not before it is written"
    candidate.wrote(Record(A, 1, "v1"), 0.0)
    assert candidate.term(0.0) == 1


def test_another_ones_is_waited_for_from_when_we_first_saw_it() -> None:
    candidate = Candidate(A)
    candidate.saw(Record(B, 5, "v9"), 100.0)
    candidate.saw(Record(B, 5, "v9"), 100.0 + LAPSE - 0.1)
    assert candidate.next(100.0 + LAPSE - 0.1) is None
    assert candidate.next(100.0 + LAPSE) == Record(A, 6, "v9")


def test_each_renewal_restarts_the_wait() -> None:
    candidate = Candidate(A)
    candidate.saw(Record(B, 5, "v9"), 0.0)
    candidate.saw(Record(B, 5, "v10"), LAPSE - 0.1)
    assert candidate.next(LAPSE) is None
    assert candidate.next(2 * LAPSE) == Record(A, 6, "v10")


def test_a_released_one_is_taken_at_once() -> None:
    candidate = Candidate(A)
    candidate.saw(Record("", 5, "v9"), 100.0)
    assert candidate.next(100.0) == Record(A, 6, "v9")


def test_a_leader_renews_in_its_term() -> None:
    candidate = leader()
    assert candidate.next(100.0 + RENEW_EVERY) == Record(A, 3, "v1")
    candidate.wrote(Record(A, 3, "v2"), 100.0 + RENEW_EVERY)
    assert candidate.term(100.0 + RENEW_EVERY + TRUST - 0.1) == 3


def test_a_leader_that_cannot_renew_stops_before_another_one_may_begin() -> None:
    assert TRUST + RENEW_EVERY < LAPSE
    candidate = leader()
    assert candidate.term(100.0 + TRUST - 0.1) == 3
    assert candidate.term(100.0 + TRUST) == 0


def test_one_that_comes_back_to_its_own_lease_begins_another_term() -> None:
    candidate = leader()
    candidate.saw(Record(A, 3, "v1"), 100.0 + TRUST)
    assert candidate.next(100.0 + TRUST) == Record(A, 4, "v1")


def test_one_that_sees_another_leader_no_longer_leads_whatever_its_clock() -> None:
    candidate = leader()
    candidate.saw(Record(B, 4, "v2"), 100.0)
    assert candidate.term(100.0) == 0
    assert candidate.next(100.0 + TRUST) is None


def test_a_renewal_whose_answer_was_lost_is_recognised() -> None:
    candidate = leader()
    candidate.saw(Record(A, 3, "v2"), 102.0)
    assert candidate.term(102.0) == 3
    assert candidate.next(102.0) == Record(A, 3, "v2")


def test_an_acquisition_whose_answer_was_lost_is_made_again_in_a_later_term() -> None:
    candidate = Candidate(A)
    candidate.saw(None, 0.0)
    candidate.saw(Record(A, 1, "v1"), 2.0)
    assert candidate.term(2.0) == 0
    assert candidate.next(2.0) == Record(A, 2, "v1")


def test_a_lease_that_was_deleted_continues_above_the_known_terms() -> None:
    candidate = Candidate(A)
    candidate.saw(Record(B, 5, "v9"), 0.0)
    candidate.saw(None, 1.0)
    assert candidate.next(1.0) == Record(A, 6, "")
    gone = leader()
    gone.saw(None, 101.0)
    assert gone.term(101.0) == 0
    assert gone.next(101.0) == Record(A, 4, "")


def test_a_leader_whose_jobs_know_a_later_term_goes_above_it() -> None:
    candidate = leader()
    candidate.outdated(9)
    assert candidate.term(101.0) == 3
    assert candidate.next(101.0) == Record(A, 10, "v1")


def test_a_release() -> None:
    candidate = leader()
    assert candidate.release(101.0) == Record("", 3, "v1")
    candidate.wrote(Record("", 3, "v2"), 101.0)
    assert candidate.term(101.0) == 0
    assert candidate.release(101.0) is None
    assert leader().release(100.0 + TRUST) is None, "it may be another one's by now"


@dataclass
class Place:
    """The API server's one Lease, and replicas whose clocks run `offset` seconds apart (O10)."""

    record: Record | None = None
    version: int = 0
    taken: list[tuple[str, int]] = field(default_factory=list)

    def put(self, record: Record) -> Record | None:
        """The record with its new version; None: a conflict."""
        if record.version != (self.record.version if self.record else ""):
            return None
        self.version += 1
        if record.holder and (record.holder, record.term) not in self.taken:
            self.taken.append((record.holder, record.term))
        self.record = Record(record.holder, record.term, f"v{self.version}")
        return self.record


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["step", "step", "step", "unanswered", "unreachable", "release"]),
        st.sampled_from([0.1, RENEW_EVERY, RENEW_EVERY, TRUST, LAPSE, 3600.0]),
    ),
    max_size=60,
)


@settings(max_examples=500, deadline=None)
@given(STEPS, st.lists(st.sampled_from([-3600.0, 0.0, 3600.0]), min_size=3, max_size=3))
def test_never_two_leaders_and_never_a_term_twice(
    steps: list[tuple[int, str, float]], offsets: list[float]
) -> None:
    """A replica may be slow, cut off, or have a wrong clock. If calls take no time, one leads at most.

    In any case, each acquisition has its own term, above all earlier ones.
    """
    place, now = Place(), 10_000.0
    candidates = [Candidate(name) for name in "abc"]
    for who, what, passes in steps:
        now += passes
        candidate, clock = candidates[who], now + offsets[who]
        if what == "unreachable":
            continue
        if what == "release":
            wanted = candidate.release(clock)
        else:
            candidate.saw(place.record, clock)
            wanted = candidate.next(clock)
        written = place.put(wanted) if wanted else None
        if written and what != "unanswered":
            candidate.wrote(written, clock)
        leading = [c.term(now + o) for c, o in zip(candidates, offsets, strict=True)]
        assert len([t for t in leading if t]) <= 1
    assert [t for _, t in place.taken] == sorted({t for _, t in place.taken})
