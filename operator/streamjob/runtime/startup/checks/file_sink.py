"""Checks the folder of Spark's file sink before a query starts: does its log fit what the query begins from?

Spark looks at the log when it has planned a batch. It drops a batch whose number is in the log, begins a new
log where one is gone (readers then find none of the earlier files), and fails at a compaction that does not
find all of its entries. By then up to nine batches are committed.

Other formats, and other queries' folders that this one reads, are none of its business.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...query.places.claim import SinkShared
from ...query.places.owner import NAME, Owner
from ...spark.sink_log import METADATA, Log, SinkAhead, SinkBehind, SinkGone


@dataclass(frozen=True)
class SinkFolder:
    """The folder as it is.

    :param at: its URI.
    :param owner: None if its log is of plain Spark, or there is none.
    :param commits: a `streamjob.sinks.FileSink` writes to it.
    """

    at: str
    log: Log
    owner: Owner | None = None
    commits: bool = False


@dataclass(frozen=True)
class StartingQuery:
    """The query that is about to start.

    :param me: as the folder's owner.
    :param origins: the checkpoint directories that its own was copied or made from.
    :param planned: its last planned batch, None if it begins with its first one.
    :param committed: its last committed batch.
    :param wrote_here: whether the earlier batches are in this folder; None if that is not known, as of a
        query of plain PySpark.
    """

    me: Owner
    origins: frozenset[str] = frozenset()
    planned: int | None = None
    committed: int | None = None
    wrote_here: bool | None = None

    def owns(self, folder: SinkFolder) -> bool:
        """Whether this query has written to the folder, as this one or as the one that it was copied from."""
        theirs = folder.owner
        return theirs is not None and (self.me.same_query(theirs) or theirs.checkpoint in self.origins)


def refuse_owned(folder: SinkFolder, query: StartingQuery) -> None:
    """Check that no other query writes to the folder with Spark's file sink.

    :param query: it writes there with a `FileSink`, as others may.
    :raises SinkShared: one does.
    """
    if folder.owner is not None and not query.owns(folder):
        raise shared(folder, query.me)


def begins_behind(folder: SinkFolder, query: StartingQuery) -> bool:
    """Check the folder against what the query begins from.

    :returns: whether the log has to be prepared, because the query's earlier batches are in another folder.
    :raises SinkShared: the folder is another query's.
    :raises SinkAhead: the log has batches that the query has not planned yet.
    :raises SinkGone: the log is gone, although the query has written to the folder.
    :raises SinkBehind: the log ends before the query does, or lacks an entry.
    """
    name, log = query.me.query, folder.log
    if folder.commits or (folder.owner is not None and not query.owns(folder)):
        raise shared(folder, query.me)
    newest, committed = log.newest, query.committed
    if newest is not None and newest > (-1 if query.planned is None else query.planned):
        raise _ahead(folder, query, newest)
    if committed is None:
        return False
    if newest is None:
        if query.wrote_here:
            raise SinkGone(
                f"query {name!r} has written up to batch {committed} to {folder.at}, and the log of what is "
                f"there ({METADATA}) is gone: Spark would begin another one, by which nobody finds the "
                "earlier files, and fail at its first compaction",
                remedy=_elsewhere(committed, "Put the log back"),
            )
        return True
    if query.wrote_here is False and not query.owns(folder):
        raise shared(folder, query.me)
    if log.lacks:
        raise SinkBehind(
            f"the log of {folder.at} ends with batch {newest} and lacks {', '.join(log.lacks[:5])}: nobody "
            f"can read the folder, and query {name!r} would fail at its next compaction",
            remedy=_elsewhere(committed, f"Put these files of {METADATA} back"),
        )
    behind = newest < committed
    if behind and query.wrote_here is not False:
        raise SinkBehind(
            f"the log of {folder.at} ends with batch {newest}, and query {name!r} has committed up to batch "
            f"{committed}: nobody finds the rows in between, and the query would not write them again",
            remedy=_elsewhere(committed, "Put the log back")
            + f". To have the rows written again, <new-job> of batch {newest} or before",
        )
    return behind


def shared(folder: SinkFolder, me: Owner) -> SinkShared:
    """The refusal of a query whose folder is another query's."""
    if folder.owner is None:
        who = "a streamjob.sinks.FileSink" if folder.commits else "another query"
        until = ""
    else:
        who = str(folder.owner)
        until = f". If that one has gone for good, delete {folder.at}/{METADATA}/{NAME}"
    return SinkShared(
        f"{who} writes to {folder.at}, and so would {me}: the log of Spark's file sink has room for one "
        "query, and Spark drops batches of the other one in silence",
        remedy=f"Give each query a folder of its own{until}",
    )


def _ahead(folder: SinkFolder, query: StartingQuery, newest: int) -> SinkAhead:
    planned = query.planned
    begins = "begins with batch 0" if planned is None else f"continues after batch {planned}"
    again = ", or <new-job> to continue it" if planned is None else ""
    return SinkAhead(
        f"{folder.at} has the output of batches up to {newest} and query {query.me.query!r} {begins}: Spark "
        f"would take the batches up to {newest} for written and drop their rows",
        remedy=f"Let the query write into a new folder{again}",
    )


def _elsewhere(committed: int, first: str) -> str:
    return f"{first}. Or let the query write into a new folder: it continues there after batch {committed}"
