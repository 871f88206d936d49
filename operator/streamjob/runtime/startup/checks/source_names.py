"""Compares the keys of a query's sources with those in its offset log. Pure.

Without names, Spark gives positions to sources in the order of the plan: another number of sources is another
query. Sources with names (`readStream.name`, Spark 4.2) may be added, removed and reordered. Spark then drops
the position of a source that is no longer read with the next but one batch. If the source comes back after
that, Spark reads what its own log has a second time, or begins wherever the source's options say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ....protocol.errors import StreamJobError
from ...spark.offset_log import FORMAT, OffsetLogEntry, Offsets
from ...spark.sources.plan_sources import Source

NEW_CHECKPOINT = (
    "Spark names the sources of a query only with its first batch; a new checkpoint has names from its start"
)


@dataclass(frozen=True)
class Changes:
    """How the named sources differ from those of the checkpoint.

    :param added: the query never read them.
    :param removed: the query reads them no longer.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class SourceNamesForgotten(StreamJobError):
    reason: ClassVar[str] = "SourceNamesForgotten"


class OtherSources(Exception):
    """The positions do not belong to the query's sources. The message says why, as a clause.

    :param how: what helps, one or more sentences; empty if nothing but the earlier script does.
    """

    def __init__(self, why: str, how: str = "") -> None:
        super().__init__(why)
        self.how = how


def refuse_forgotten_names(sources: Iterable[Source], format: str | None) -> None:
    """Refuse names that the offset log of a new query will not have (`Traits.forgets_names`).

    :param format: that the session asks for, None if it asks for none.
    :raises SourceNamesForgotten: a script with another order of sources would misread the positions.
    """
    named = [source.given for source in sources if source.given is not None]
    if named and format != "2":
        raise SourceNamesForgotten(
            f"the script names its sources ({', '.join(named)}), and this Spark would keep their positions "
            "by number all the same",
            remedy=f"Set {FORMAT} to 2, or give the sources no names",
        )


def compare(
    sources: Mapping[str, Source],
    latest: OffsetLogEntry,
    positions: Offsets,
    *,
    committed: bool,
    noted: Collection[str] | None,
    was_read: Callable[[str], bool],
) -> Changes:
    """Compare the query's sources with its positions.

    :param sources: by their keys.
    :param latest: the last entry of the offset log.
    :param positions: `offset_log.recovered`.
    :param committed: whether the batch of that entry is committed.
    :param noted: the keys of the sources at the last start, None if nobody noted them.
    :param was_read: whether the query has read a source, by its name, at some time in the past. Asked only
        for sources without a position.
    :raises OtherSources: Spark would give positions to the wrong sources, or would read a source twice or in
        part.
    """
    named = any(source.given is not None for source in sources.values())
    if named != latest.names_sources:
        now, before = ("names", "none") if named else ("no names", "some")
        raise OtherSources(f"its sources have {now} and had {before}", NEW_CHECKPOINT)
    if not named:
        _refuse_other_number(len(sources), latest, noted)
        return Changes()
    missing = [key for key in sources if positions.get(key) is None]
    if back := [key for key in missing if was_read(key)]:
        raise OtherSources(
            f"it reads {_named(back)} again, and the checkpoint has lost the position: a script without it "
            "has run in between",
            "Or restore a savepoint from before that script, or give the source another name, with options "
            "that say where to begin",
        )
    removed = tuple(key for key in positions if key not in sources)
    if not committed and (cut := [key for key in removed if latest.offsets.get(key) is not None]):
        raise OtherSources(
            f"its last batch has not committed and reads {_named(cut)}, which it no longer does"
        )
    return Changes(tuple(key for key in missing if key not in (noted or ())), removed)


def _refuse_other_number(now: int, latest: OffsetLogEntry, noted: Collection[str] | None) -> None:
    # Format 2 leaves out sources that have read nothing.
    known = 1 + max(map(int, latest.offsets), default=-1)
    before = known if latest.format == 1 or noted is None else max(known, len(noted))
    more_may_be = latest.format > 1 and noted is None
    if now < before or (now > before and not more_may_be):
        raise OtherSources(f"it had {before} sources and has {now}")


def _named(keys: Collection[str]) -> str:
    return "the source " + ", ".join(keys) if len(keys) == 1 else "the sources " + ", ".join(keys)
