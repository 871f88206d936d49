"""What an epoch knows of the one before: the graph of its checkpoint, and a flush that it had begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_status import DriverStatus

APPS = Path(__file__).parent / "apps"


def put(home: Path, name: str, *times: str) -> None:
    lines = "".join(json.dumps({"t": f"2026-01-01T{t}:00.000Z", "k": "x"}) + "\n" for t in times)
    (home / "new.json").write_text(lines)
    (home / "new.json").rename(home / name)


def batch_of(status: DriverStatus, uid: str) -> int:
    batches = [t.batch for g in status.stages if g.uid == uid for t in g.tasks]
    return -1 if not batches or batches[0] is None else batches[0]


def rows(folder: Path) -> list[dict[str, int]]:
    return [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]


@pytest.mark.slow
def test_w2_row4_a_drain_waits_for_the_writer_that_the_script_starts_after_its_reader(tmp_path: Path) -> None:
    """The drain is there when the script waits for its backfill, between the two."""
    for folder in ("in", "old", "clean"):
        (tmp_path / folder).mkdir()
    put(tmp_path, "old/o.json", "00:00")
    app, arguments = APPS / "reader_first.py", (str(tmp_path),)
    one = LocalDriver(tmp_path, app, *arguments)
    one.wait_for(lambda s: {g.uid for g in s.stages} == {"totals", "backfill", "clean"})
    for hour in range(3):
        put(tmp_path, f"in/{hour}.json", *(f"0{hour}:0{minute}" for minute in range(4)))
    one.wait_for(lambda s: batch_of(s, "clean") >= 2)
    stopped = {s.uid: s for s in one.finish(Mode.STOP).stages}
    assert stopped["totals"].tasks[0].batch is None, "it has read nothing of them"
    assert stopped["totals"].upstream == ("clean",)
    drain = TerminationRequest("drain-2", 2, Mode.DRAIN, None, 600.0)
    record = one.next_epoch(app, *arguments, termination=drain).finish()
    assert record.drained
    assert record.scenario is Scenario.DRAIN
    assert sum(row["n"] for row in rows(tmp_path / "totals")) == len(rows(tmp_path / "clean")) == 12


@pytest.mark.slow
def test_w1_row6_a_stop_after_a_crash_in_the_flush_completes_what_is_planned(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    put(tmp_path, "in/a.json", "00:00", "00:01", "00:02")
    app, arguments = APPS / "dies_in_flush.py", (str(tmp_path),)
    one = LocalDriver(tmp_path, app, *arguments)
    one.wait_for(lambda s: batch_of(s, "orders") >= 0)
    (tmp_path / "crash").touch()
    one.terminate(Mode.DRAIN)
    assert one.wait() == 9
    planned, committed = one.boundary("orders")
    assert (planned, committed) == (committed + 1, committed)
    (tmp_path / "crash").unlink()
    stop = TerminationRequest("stop-2", 2, Mode.STOP, None, 600.0)
    record = LocalDriver(tmp_path, app, *arguments, epoch=2, termination=stop).finish()
    assert record.scenario is Scenario.STOP
    assert record.stages[0].tasks[0].batch == planned
    out = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in out] == [[planned, "x", 3]]


def test_w6_what_is_before_a_query_that_a_dead_driver_has_flushed_reads_nothing_more(tmp_path: Path) -> None:
    """The driver dies before a checkpoint says so, and the next one is not asked to end."""
    for folder in ("in", "clean"):
        (tmp_path / folder).mkdir()
    put(tmp_path, "in/a.json", "00:00", "00:01", "00:02")
    app, arguments = APPS / "dies_in_flush.py", (str(tmp_path), "behind")
    one = LocalDriver(tmp_path, app, *arguments)
    one.wait_for(lambda s: batch_of(s, "orders") >= 0)
    (tmp_path / "crash").touch()
    one.terminate(Mode.DRAIN)
    assert one.wait() == 9
    (tmp_path / "crash").unlink()
    put(tmp_path, "in/b.json", "01:00", "01:01")
    record = LocalDriver(tmp_path, app, *arguments, epoch=2).finish()
    assert (record.scenario, record.drained) == (Scenario.END_OF_INPUT, True)
    assert len(rows(tmp_path / "clean")) == 3, "nothing would read what it writes now"
    out = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)[1:] for line in out] == [["x", 3]]
