"""What a foreachBatch function remembers goes with the batches that Spark commits, through stops, crashes and
restores.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from streamjob.protocol.formats import driver_state
from streamjob.protocol.formats.records import CheckpointRecord, OperatorKind
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverStatus

from .feeds import eventually
from .job import Feed

pytestmark = pytest.mark.any_spark
APP = Path(__file__).parent / "apps" / "remember.py"
ROWS = 6  # of each file, and so of each batch


def entries(batches: int) -> list[str]:
    return [f"{n}:{ROWS}" for n in range(batches)]


def recorded(record: CheckpointRecord) -> dict[str, list[str]]:
    return {name: list(found) for name, found in record.stages[0].tasks[0].state.items()}


def note(home: Path, batch: int) -> object:
    return json.loads((home / "notes" / str(batch)).read_text())


def committed(driver: LocalDriver, batch: int) -> bool:
    return (driver.home / "checkpoints" / "orders" / "0" / "commits" / str(batch)).exists()


@pytest.mark.slow
def test_row9_state_is_that_of_the_last_committed_batch(feed: Feed, tmp_path: Path) -> None:
    home, arguments = tmp_path, (str(feed.source), str(tmp_path))
    feed.add(3)
    with LocalDriver(home, APP, *arguments) as first:
        eventually(lambda: committed(first, 2), "three batches")
        stopped = first.finish(Mode.STOP)
    assert recorded(stopped) == {"seen": entries(3), "limits": ["changed"]}
    kinds = {o.uid: o.kind for o in stopped.stages[0].operators}
    assert (kinds["seen"], kinds["limits"]) == (OperatorKind.LIST, OperatorKind.BROADCAST)

    # Batch 4 dies uncommitted: its function had changed the state. An attempt that died a little later left a
    # file.
    feed.add(1)
    with first.next_epoch(APP, *arguments) as second:
        eventually(lambda: committed(second, 3), "the batch after the resume")
        (home / "obstacle").touch()
        feed.add(1)
        eventually((home / "hangs").exists, "a batch that is uncommitted")
        second.kill()
    assert note(home, 3) == [entries(3), ["changed"]]
    assert (home / "hangs").read_text() == "4"
    folder = home / "checkpoints" / "orders" / "0" / driver_state.FOLDER
    assert sorted(f.name for f in folder.glob("*.json")) == ["0.json", "1.json", "2.json", "3.json"]
    (folder / "4.json").write_bytes(driver_state.dumps(4, {"seen": ("half",), "limits": ()}))

    (home / "obstacle").unlink()
    second.record = first.record
    feed.add(1)
    with second.next_epoch(APP, *arguments, exact=False) as third:
        eventually(lambda: committed(third, 5), "the batch again, and one more")
        drained = third.finish(Mode.DRAIN)
    assert note(home, 4) == [entries(4), ["changed"]]
    assert recorded(drained) == {"seen": entries(6), "limits": ["changed"]}
    assert drained.drained

    # Another job begins with the savepoint of the stop, although the first has gone on.
    fork = home / "fork"
    restore = Restore(savepoint=stopped.savepoint)
    with LocalDriver(fork, APP, str(feed.source), str(fork), restore=restore) as other:
        eventually(lambda: committed(other, 5), "the same files read again")
        assert recorded(other.finish(Mode.STOP)) == recorded(drained)
    assert note(fork, 3) == [entries(3), ["changed"]]


@pytest.mark.slow
def test_state_that_cannot_be_kept_is_an_error_that_says_so(feed: Feed, tmp_path: Path) -> None:
    feed.add(1)
    for how, reason, said in (
        ("large", "StateTooLarge", "'orders'"),
        ("misspelt", "QueryNotStarted", "'order'"),
    ):
        home = tmp_path / how
        with LocalDriver(home, APP, str(feed.source), str(home), how) as driver:
            assert driver.wait() == 1
        problem = _problem(driver.report())
        assert (problem[0], problem[2]) == (reason, False)
        assert said in problem[1]
        assert not (home / "checkpoints" / "orders" / "0" / driver_state.FOLDER / "0.json").exists()


def _problem(status: DriverStatus) -> tuple[str, str, bool]:
    assert status.problem is not None
    return status.problem.reason, status.problem.message, status.problem.retryable
