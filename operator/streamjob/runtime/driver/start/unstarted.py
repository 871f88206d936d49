"""What the script has to start and has not: queries that it declared, and stages of the
restored checkpoint.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ...query.run import Run
from ...query.runs import Runs
from ...startup import missing_stages
from ...startup.checks import declarations
from ...startup.missing_stages import Missing, MissingStages
from ...startup.sharding.declared_shards import DeclaredStages
from .engines import Engines

log = logging.getLogger("streamjob")


class Unstarted:
    """Asked when the script has started all its queries, or counts as having done so. Thread-safe.

    :param runs: the last run of each task.
    :param only_main_thread: whether the script has no thread but the main one.
    :param warn: adds warnings for the user to the status.
    :param withdraw: removes one of them.
    """

    def __init__(
        self,
        runs: Runs[Run],
        declared: DeclaredStages,
        missing: MissingStages,
        engines: Engines,
        only_main_thread: Callable[[], bool],
        warn: Callable[[Problem], None],
        withdraw: Callable[[Problem], None],
    ) -> None:
        self._runs = runs
        self._declared = declared
        self._missing = missing
        self._engines = engines
        self._only_main_thread = only_main_thread
        self._warn = warn
        self._withdraw = withdraw
        self._told: tuple[str, ...] = ()  # the stages of which the user was warned
        self.calls_back = False  # Spark calls listeners of the script, which could start a query

    def refuse_unknown(self) -> None:
        """Check that every declaration belongs to a started query.

        :raises QueryNotStarted: a declaration names a query that the script has not started.
        :raises StateNotKept: a state was declared after its query had started.
        :raises ShardMissing: a declared shard has not started.
        """
        started = self._runs.all()
        declarations.refuse_missing(self._declared, started)
        declarations.refuse_unknown({s.uid: None for s in started}, [s.name.name for s in started])

    def refuse_missing(self, waited: Collection[Run], *, for_good: bool) -> None:
        """Check that the script can still start every stage of the restored checkpoint that has input left.

        :param waited: the runs of which the script awaits one, without a timeout.
        :param for_good: this wait does not end by itself.
        :raises NonRestoredState: the checkpoint has state of a stage that nothing can start any more.
        """
        missing = self._left()
        nothing_else_starts = for_good and self._only_main_thread() and not self.calls_back
        if never := missing.live if nothing_else_starts else self._left_out(missing.live, waited):
            started = [s.name.name for s in self._runs.all()]
            raise missing_stages.not_started(never, started)
        self._tell(missing.stages)

    def warn(self) -> None:
        """As `refuse_unknown` and `refuse_missing`, where there is no caller to raise an error to."""
        try:
            self.refuse_unknown()
        except StreamJobError as e:
            log.warning("%s", e)
        self._tell(self._left().stages)

    def look_again(self) -> None:
        """Correct the warning if a stage has started since. Between two starts it may take long."""
        if self._told:
            started = {run.uid for run in self._runs.all()}
            self._tell(tuple(uid for uid in self._told if uid not in started))

    def _tell(self, missing: tuple[str, ...]) -> None:
        if missing == self._told:
            return
        if self._told:
            self._withdraw(missing_stages.warning(self._told))
        if missing:
            self._warn(missing_stages.warning(missing))
        self._told = missing

    def left(self) -> tuple[str, ...]:
        """The uids of the missing stages that have something left. If that cannot be read, all that are
        missing.
        """
        try:
            return self._left().stages
        except StreamJobError as e:
            log.warning("what the script has not started counts as unfinished: %s", e)
            engine = self._engines.any()
            return tuple(self._missing.uids(engine.files)) if engine is not None else ()

    def _left(self) -> Missing:
        engine = self._engines.any()
        return self._missing.left(engine.files) if engine is not None else Missing()

    def _left_out(self, missing: Collection[str], waited: Collection[Run]) -> list[str]:
        """The missing stages that the main thread will not start any more. Empty in another thread."""
        if threading.current_thread() is not threading.main_thread() or not waited:
            return []
        return self._missing.left_out(next(iter(waited)).files, missing, waited)
