"""Fences off older leaders before the first change to a job in a new term. Pure.

An older leader may wake up in the middle of a reconcile, with pending writes that the API server would still
accept. Each of those writes names the resourceVersion that it replaces. The new leader therefore first writes
its term into the status, then into the index: from then on the older leader's writes conflict. Only then does
the new leader observe what it decides on.
"""

from __future__ import annotations

from .actions import WriteIndex
from .context import Decision
from .observed import Observed


def fence(observed: Observed, term: int) -> Decision | None:
    """Return what has to be written before anything else: the status, then the index.

    :param term: the term in which we lead.
    :returns: None if the job and its index have this term already.
    """
    old_index = observed.index is not None and observed.index_term != term
    if observed.job.status.term == term and not old_index:
        return None
    index = (
        (WriteIndex(observed.index, observed.index_version),)
        if observed.index is not None and old_index
        else ()
    )
    return Decision(observed.job.status.model_copy(update={"term": term}), index)
