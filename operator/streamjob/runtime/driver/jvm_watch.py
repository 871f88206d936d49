"""Tells while the driver's JVM does not answer. All other threads may wait for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone

from ...jvm.liveness import LIMIT_IF_STOPPED, look, not_responding
from ...protocol.messages.driver_status import Problem
from ...protocol.times import timestamp
from . import threads
from .status_board import StatusBoard

log = logging.getLogger("streamjob")

PAUSE = 5.0  # seconds between an answer and the next question


class JvmWatch:
    """Two threads: one asks the JVM and waits, the other one never does, and tells.

    :param ping: asks the JVM something and returns when it has answered. An exception ends the watch: whoever
        waits for the end of the JVM's process says more.
    :param pid: of the JVM's process, None if that is unknown.
    :param board: gets the warning, and loses it with the next answer.
    :param second: how long a second is. Seconds are counted while this process runs: those in which it was
        paused itself are none.
    """

    def __init__(
        self,
        ping: Callable[[], object],
        pid: int | None,
        board: StatusBoard,
        *,
        pause: float = PAUSE,
        second: float = 1.0,
    ) -> None:
        self._ping, self._pid, self._board = ping, pid, board
        self._pause, self._second = pause, second
        self._news = threading.Event()  # an answer, or the end
        self._ended = False
        self._told: Problem | None = None

    def start(self) -> None:
        threads.start(self._ask, "streamjob-ping")
        threads.start(self._watch, "streamjob-liveness")

    def _ask(self) -> None:
        try:
            while True:
                self._ping()
                self._news.set()
                time.sleep(self._pause)
        except Exception as e:
            log.debug("the JVM is not asked any more: %r", e)
            self._ended = True
            self._news.set()

    def _watch(self) -> None:
        while not self._ended:
            self._await_answer()
            self._tell(None)

    def _await_answer(self) -> None:
        """Wait for the next answer, and tell what there is to tell meanwhile."""
        since, before, seconds = timestamp(datetime.now(timezone.utc)), look(self._pid), 0
        while not self._news.wait(self._second):
            seconds += 1
            if seconds % LIMIT_IF_STOPPED == 0:
                self._tell(not_responding(seconds, since, before, look(self._pid)))
        self._news.clear()

    def _tell(self, problem: Problem | None) -> None:
        told, self._told = self._told, problem
        if problem == told:
            return
        if told is not None:
            self._board.withdraw(told)
        if problem is None:
            log.info("the driver's JVM answers again")
        else:
            self._board.warn(problem)
            log.warning("%s: %s. %s", problem.reason, problem.message, problem.remedy)
