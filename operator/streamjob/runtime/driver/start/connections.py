"""What the job's queries are connected with: which stage reads what another one writes."""

from __future__ import annotations

from collections.abc import Iterable

from .... import job
from ...query import edges
from ...query.edges import Endpoints
from ...query.run import Run
from ...query.runs import Runs
from ...startup.checks.neighbours import refuse_transactional_upstream


class Connections:
    """Thread-safe: the runs may change at any time.

    :param runs: the last run of each task.
    """

    def __init__(self, runs: Runs[Run]) -> None:
        self._runs = runs

    def neighbours(self, uid: str, found: Endpoints) -> tuple[list[str], list[Run]]:
        """The stages that `uid` reads from, and the runs that read from it.

        Upstream includes stages of declared edges that have not started.
        """
        others = [(run.uid, run.ends) for run in self._runs.others(uid)]
        upstream, readers = edges.neighbours(uid, found, others, job.edges())
        return upstream, self._runs.of(*readers)

    def has_own_sources(
        self,
        uid: str,
        found: Endpoints,
        about_to_start: Iterable[tuple[str, Endpoints]] = (),
        about_to_declare: Iterable[tuple[str, str]] = (),
    ) -> bool:
        """Whether the stage reads something that no other stage of the job writes.

        Each shard of another stage counts with a sink of its own.

        :param about_to_start: uid and ends of stages that are not yet among the runs.
        :param about_to_declare: edges that are not yet among the declared ones, as (writer, reader).
        """
        others = [(run.uid, run.ends) for run in self._runs.others(uid)]
        others += about_to_start
        pairs = [*job.edges(), *about_to_declare]
        shown = {other for other, ends in others if found.reads_sink_of(ends)}
        declared = {writer for writer, reader in pairs if reader == uid and writer not in shown}
        return found.has_own_sources([ends for _, ends in others], len(declared))

    def readers_of(self, run: Run) -> list[str]:
        """The uids of the started stages that read what the stage writes, itself excluded."""
        return sorted({other.uid for other in self._runs.others(run.uid) if other.ends.read(run.ends)})

    def writers_of(self, run: Run) -> list[str]:
        """The uids of the started stages that write what the stage reads, itself excluded."""
        return sorted({other.uid for other in self._runs.others(run.uid) if run.ends.read(other.ends)})

    def edge_declared(self, writer: str, reader: str) -> bool | None:
        """Check an edge that is about to be declared.

        :returns: whether the reader also reads something that no stage writes; None if it has not started.
        :raises TransactionalUpstream: the reader has started, and the writer has a transactional sink.
        """
        found = self._runs.of(reader)
        if not found:
            return None
        refuse_transactional_upstream(found[0], self._runs.of(writer), [])
        return self.has_own_sources(reader, found[0].ends, about_to_declare=[(writer, reader)])
