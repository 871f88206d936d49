"""How many executors the job has: what the controller asks for, and what Spark has made of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from ....jvm.errors import one_line
from ....protocol.messages.driver_status import (
    EXECUTORS_MISSING,
    DriverStatus,
    ExecutorsStatus,
    Problem,
)
from .losses import Removed, explained, last_words

log = logging.getLogger("streamjob")

TRIES = 5  # a second between two; a session that is about to end fails, too
RECENT = 600  # looks after the end of an executor
EXECUTOR_GRACE = 60  # looks, a second between two, without any executor; a node may have to pull the image


class Board(Protocol):
    """Where the driver's status is. `driver.status_board.StatusBoard` implements it."""

    @property
    def status(self) -> DriverStatus: ...

    def change(self, changes: Callable[[DriverStatus], dict[str, Any]]) -> None: ...


class Pool(Protocol):
    """The executors of a SparkContext. `pool.ExecutorPool` implements it."""

    def count(self) -> int: ...

    def wanted(self) -> int | None: ...

    def bound(self, least: int, most: int) -> None: ...

    def removed(self) -> tuple[Removed, ...]: ...


def at_start(spark_conf: Mapping[str, str]) -> ExecutorsStatus | None:
    """What the configuration of a driver asks for; None if everything runs in the driver."""
    bounds = [spark_conf.get(f"spark.dynamicAllocation.{end}Executors") for end in ("min", "max")]
    if spark_conf.get("spark.dynamicAllocation.enabled") == "true" and None not in bounds:
        least, most = (int(number or 0) for number in bounds)
        return ExecutorsStatus(least, most, wanted=least)
    instances = int(spark_conf.get("spark.executor.instances", "0"))
    return ExecutorsStatus(instances, instances, wanted=instances) if instances else None


def missing(wanted: int, last: str) -> Problem:
    """:param last: what the last executor has died of, if one has."""
    died = f". The last one that died: {last}" if last else ""
    return Problem(
        EXECUTORS_MISSING,
        f"the job wants {wanted} executor{'s' * (wanted > 1)} and has none, so no batch can run{died}",
        "See the executors' pods (`kubectl get pods -l spark-role=executor`). While they are Pending, "
        "Kubernetes has to find room: lower spec.executor.cores or memory, or add nodes. If they fail, see "
        "their logs",
    )


class Executors:
    """Thread-safe, except `look`.

    :param pool: the executors of the active SparkContext, given those of the last call; None if there is no
        context.
    :param warn: adds a warning for the user to the status.
    :param withdraw: removes one of them.
    """

    def __init__(
        self,
        spark_conf: Mapping[str, str],
        board: Board,
        pool: Callable[[Any], Pool | None],
        warn: Callable[[Problem], None],
        withdraw: Callable[[Problem], None],
    ) -> None:
        self._board = board
        self._warn, self._withdraw = warn, withdraw
        self._find_pool = pool
        self._pool: Pool | None = None
        self._started_with = at_start(spark_conf)
        self._changed = False
        self._failures = 0
        self._without = 0  # looks in a row that saw none, though some are wanted
        self._told: Problem | None = None
        self._looks = self._last_removal = 0
        self._removed: tuple[Removed, ...] = ()
        self._board.change(lambda _: {"executors": self._started_with})

    def change(self, least: int, most: int) -> None:
        """Ask for another number. `look` carries it out."""

        def asked(status: DriverStatus) -> dict[str, Any]:
            now = status.executors
            return {"executors": now and replace(now, least=least, most=most)}

        self._board.change(asked)
        self._changed, self._failures = True, 0
        log.info("asked for %s executors", least if least == most else f"{least} to {most}")

    def look(self) -> None:
        """Called about once a second: bring Spark to what was asked for, and report what there is.

        A script may end its session and begin another one, which starts with the configuration's numbers.
        """
        self._looks += 1
        asked = self._board.status.executors
        if asked is None or self._started_with is None:
            return
        try:
            pool = self._pool = self._find_pool(self._pool)
            if pool is None:
                return
            if self._changed and self._failures < TRIES:
                self._bound(pool, asked)
            wanted, running = pool.wanted(), pool.count()
        except Exception as e:  # the session ends, or is local[*] by the script's own choice
            log.debug("the executors cannot be looked at: %r", e)
            return
        self._look_for_losses(pool)
        known = self._started_with.wanted if wanted is None else wanted
        self._board.change(
            lambda status: {
                "executors": status.executors and replace(status.executors, wanted=known, running=running)
            }
        )
        self._tell(known, running)

    def explained(self, error: Exception) -> Exception:
        """The error of a query; if the context has ended, with what executors died of shortly before."""
        recent = self._looks - self._last_removal < RECENT
        return explained(error, last_words(self._removed) if recent else "")

    def _look_for_losses(self, pool: Pool) -> None:
        try:
            removed = pool.removed()
        except Exception as e:  # this Spark has no such list, or its session ends
            log.debug("executors that have died cannot be looked for: %r", e)
            return
        if removed != self._removed:
            self._removed, self._last_removal = removed, self._looks

    def _tell(self, wanted: int, running: int) -> None:
        """Warn while no batch can run: Spark waits without an end, and only its log says so."""
        self._without = self._without + 1 if wanted and not running else 0
        if self._without == EXECUTOR_GRACE:
            self._told = missing(wanted, last_words(self._removed))
            self._warn(self._told)
        elif self._told is not None and not self._without:
            self._withdraw(self._told)
            self._told = None

    def _bound(self, pool: Pool, asked: ExecutorsStatus) -> None:
        try:
            pool.bound(asked.least, asked.most)
            self._failures = 0
        except Exception as e:
            self._failures += 1
            if self._failures < TRIES:
                return
            self._warn(
                Problem(
                    "ExecutorsNotChanged",
                    f"this Spark does not take another number of executors while it runs: {one_line(e)}",
                    "The next driver begins with it: stop and resume the job",
                )
            )
