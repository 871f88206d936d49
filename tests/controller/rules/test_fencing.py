"""Fencing of a new term: what is written first, so that an older controller's writes become conflicts."""

from __future__ import annotations

from dataclasses import replace

from streamjob.controller.rules.actions import WriteIndex
from streamjob.controller.rules.fencing import fence

from ..factories import index, job, observed, ran, record


def test_first_the_status_then_the_index_then_nothing() -> None:
    """In one reconcile: a decision's status is written before its actions are done."""
    known = index(record())
    o = observed(job(status=ran(term=3)), index=known, index_term=3)
    first = fence(o, 4)
    assert first is not None
    assert first.status == o.job.status.model_copy(update={"term": 4})
    assert first.actions == (WriteIndex(known, "20"),)

    # Killed in between.
    o = observed(job(status=first.status.plain()), index=known, index_term=3)
    second = fence(o, 4)
    assert second is not None
    assert second.status == o.job.status
    assert second.actions == (WriteIndex(known, "20"),)

    assert fence(replace(o, index_term=4), 4) is None


def test_without_an_index_the_status_is_enough() -> None:
    assert fence(observed(job(status=ran(term=4))), 4) is None
