"""Taking charge of a job, before the first change in a new term. Pure.

An older leader may wake up in the middle of a pass, with writes in its hands that the API server would still take. All of them
name the resourceVersion that they replace. So the new one first writes its term into the status, then into the index: from then
on the older one's writes are conflicts. Only then does it observe what it decides on.
"""

from __future__ import annotations

from .actions import WriteIndex
from .case import Decision
from .observe import Observed


def take_charge(o: Observed, term: int) -> Decision | None:
    """What has to be written before anything else is: the status, then the index. None: we are in charge."""
    old_index = o.index is not None and o.index_term != term
    if o.job.status.term == term and not old_index:
        return None
    index = (WriteIndex(o.index, o.index_version),) if o.index is not None and old_index else ()
    return Decision(o.job.status.model_copy(update={"term": term}), index)
