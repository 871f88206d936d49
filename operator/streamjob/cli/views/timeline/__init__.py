"""The life of a job: epochs, stops, drains, savepoints, upgrades and failures, with their durations.

It comes from what is there: the index (up to 200 checkpoints), the status (the newest of each kind), the pods
(the driver's, and those of failed drivers that were kept) and Events (an hour, unless the cluster keeps them
longer). A beginning or end that nobody knows any more is None.
"""

from .entry import TimelineEntry
from .life import timeline
from .table import table

__all__ = ["TimelineEntry", "table", "timeline"]
