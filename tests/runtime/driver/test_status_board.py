"""Changes of the status by several threads: none is lost."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from streamjob.runtime.driver.live_savepoints import LiveSavepoints
from streamjob.runtime.driver.start.unstarted import Unstarted
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.query.runs import Runs
from streamjob.runtime.startup import missing_stages
from streamjob.runtime.startup.missing_stages import Missing
from streamjob.runtime.startup.sharding.declared_shards import DeclaredStages

PATIENCE = 20.0


class SlowBoard(StatusBoard):
    """A board on which another thread acts between the reading of the status and the writing, if it can."""

    def __init__(self) -> None:
        super().__init__(DriverStatus(1, "uid-1", 1, DriverPhase.RUNNING))
        self.between: Any = None

    @property
    def status(self) -> DriverStatus:
        found = super().status
        between, self.between = self.between, None
        if between is not None:
            other = threading.Thread(target=between)
            other.start()
            other.join(PATIENCE)
        return found


def test_a_late_report_of_one_savepoint_does_not_replace_the_next_request() -> None:
    board = SlowBoard()
    asked = LiveSavepoints(board)
    asked.begin("trigger-1")
    board.between = lambda: board.update(savepoint=None) or asked.begin("trigger-2")
    asked.say("trigger-1", "1 of 2 files")
    asked.begin("trigger-2")
    status = board.status.savepoint
    assert status is not None
    assert (status.request_id, status.progress) == ("trigger-2", "")


def test_the_warning_of_a_stage_goes_when_the_script_starts_it() -> None:
    """Between two starts a script may take its time."""
    board = StatusBoard(DriverStatus(1, "uid-1", 1, DriverPhase.RUNNING))
    other = Problem("Other", "stays", "")
    board.warn(other)
    runs = Runs[Any]()
    points: Any = SimpleNamespace(left=lambda files: Missing(("a", "b")))
    engines: Any = SimpleNamespace(any=lambda: SimpleNamespace(files=None))
    unstarted = Unstarted(
        runs,
        declared=DeclaredStages(points, lambda uid, parallelism: None),
        missing=points,
        engines=engines,
        only_main_thread=lambda: False,
        warn=board.warn,
        withdraw=board.withdraw,
    )

    def warnings() -> list[Problem]:
        return list(board.status.warnings)

    unstarted.warn()
    assert warnings() == [other, missing_stages.warning(("a", "b"))]
    runs["a/0"] = SimpleNamespace(uid="a")
    unstarted.look_again()
    assert warnings() == [other, missing_stages.warning(("b",))]
    runs["b/0"] = SimpleNamespace(uid="b")
    unstarted.look_again()
    assert warnings() == [other]


def test_changes_that_depend_on_the_status_do_not_lose_each_other() -> None:
    board = StatusBoard(DriverStatus(1, "uid-1", 1, DriverPhase.RUNNING))
    reached = threading.Barrier(8, timeout=PATIENCE)

    def delete(name: str) -> None:
        reached.wait()
        for n in range(50):
            board.change(lambda status, n=n: {"deleted": (*status.deleted, f"{name}-{n}")})

    threads = [threading.Thread(target=delete, args=(f"savepoint-{k}",)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(set(board.status.deleted)) == 8 * 50
