"""A job without Kubernetes: what it tells the person at the terminal."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Application, Restore
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    DriverStatus,
    Problem,
    TerminationStatus,
    TerminationStep,
)
from streamjob.protocol.wording import WORDS
from streamjob.runtime.__main__ import parser
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.process.local import handover
from streamjob.runtime.process.local.job_folder import JobFolder
from streamjob.runtime.process.local.run import HasCheckpoints, settings_for
from streamjob.runtime.process.local.telling import describe
from streamjob.storage.local_disk import path_of


def test_the_options_that_a_remedy_names_exist() -> None:
    options = parser().format_help()
    named = {word for _, laptop in WORDS.values() for word in re.findall(r"--[a-z-]+", laptop)}
    assert named >= {"--state", "--restore", "--allow-drained", "--allow-non-restored-state"}
    assert {option for option in named if option not in options} == set()


def test_a_problem_is_told_with_what_to_do_at_the_terminal() -> None:
    problem = Problem("Gone", "it is gone", "Mount it elsewhere")
    status = DriverStatus(1, "uid", 1, DriverPhase.FAILED, problem=problem)
    assert describe(status) == "Gone: it is gone. Mount it elsewhere"


def test_a_jvm_that_does_not_answer_is_told_with_what_to_do() -> None:
    """Of a stop, too: what it would cost to wait no longer."""
    frozen = Problem("JvmNotResponding", "the JVM has not answered since T", "Continue it")
    status = DriverStatus(1, "uid", 1, DriverPhase.RUNNING, warnings=(Problem("Other", "no"), frozen))
    assert describe(status) == "Running (the JVM has not answered since T. Continue it)"
    failed_before = Problem("Failed", "a try has failed")
    end = TerminationStatus("stop-1", Mode.STOP, TerminationStep.BOUNDARY, problem=failed_before)
    assert describe(replace(status, termination=end)) == (
        "Stop: WaitingForBoundary (the JVM has not answered since T. Continue it); to wait no longer, press "
        "Ctrl-C again: the next start continues from the checkpoint directories"
    )


def test_a_query_that_does_not_run_is_told_at_the_terminal() -> None:
    """The script may handle the failure of one query, and forget the one that was interrupted with it."""
    problem = Problem("QueryFailed", "stage b does not run", "Let the script start it again")
    status = DriverStatus(1, "uid", 1, DriverPhase.RUNNING, degraded=problem)
    assert describe(status) == "Running (stage b does not run. Let the script start it again)"


def refused(folder: Path, *options: str) -> str:
    """What `--local` says before it ends.

    In a process of its own: it gives that process the settings and the JVM of a driver.
    """
    words = [sys.executable, "-m", "streamjob.runtime", "--local", *options]
    ran = subprocess.run(words, check=False, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 2, ran.stderr
    return ran.stderr


def test_local_needs_a_script(tmp_path: Path) -> None:
    assert "--local needs a script. See --help" in refused(tmp_path)


def test_a_script_that_is_not_there_is_told_at_the_terminal(tmp_path: Path) -> None:
    told = refused(tmp_path, "ordres.py")
    assert "there is no file ordres.py" in told
    assert "image" not in told
    assert "spec." not in told
    assert list(tmp_path.iterdir()) == [], "a typing error leaves no folder of a job"


def test_a_start_that_is_refused_before_its_first_query_is_no_epoch(tmp_path: Path) -> None:
    """Nothing has run since the checkpoint, so the directories still have to be exactly as it says."""
    place = JobFolder(tmp_path)
    ended = CheckpointRecord(1, 1, Scenario.STOP, "stop-1", None, "2026-01-01T00:00:00Z", ())
    index = indices.add(indices.empty("uid"), ended)
    place.begin(1)
    for _ in range(3):
        settings = settings_for(Application("app.py"), place, index, Restore(), drain=False)
        assert (settings.epoch, settings.restore.exact, settings.restore.again) == (2, True, False)
    place.begin(2)
    settings = settings_for(Application("app.py"), place, index, Restore(), drain=False)
    assert (settings.epoch, settings.restore.exact, settings.restore.again) == (3, False, False)


def test_a_restore_that_has_not_completed_goes_on(tmp_path: Path) -> None:
    """Queries that have not begun would begin from nothing, and read again what is in the savepoint."""
    place, index = JobFolder(tmp_path), indices.empty("uid")

    def restored(*, known: indices.Index = index, **begin: Any) -> Restore:
        return settings_for(Application("app.py"), place, known, Restore(**begin), drain=False).restore

    place.write_origin(restored(savepoint="file:/mistyped"))
    assert restored().savepoint is None, "no query had begun"
    place.write_origin(restored(savepoint="file:/stop-1", allow_drained=True))
    (tmp_path / "checkpoints" / "orders").mkdir(parents=True)
    assert restored() == Restore(savepoint="file:/stop-1", allow_drained=True)
    assert restored(savepoint="file:/stop-1") == restored()
    with pytest.raises(HasCheckpoints, match="has begun from file:/stop-1"):
        restored(savepoint="file:/stop-2")
    ended = CheckpointRecord(1, 1, None, None, None, "2026-01-01T00:00:00Z", ())
    assert restored(known=indices.add(index, ended)).savepoint is None


@pytest.mark.parametrize("name", ["job", "a job ü", "50%", "a%20b", "#1", "why?", "[x]*{y}"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Hadoop decodes nothing in a URI."""
    place = JobFolder(tmp_path / name)
    assert place.uri("savepoints", "stop-1") == f"file://{tmp_path}/{name}/savepoints/stop-1"
    assert path_of(place.uri("savepoints")) == tmp_path / name / "savepoints"


def test_a_job_that_was_drained_does_not_begin(tmp_path: Path) -> None:
    """Its script does not run, and its folder says what it said."""
    place = JobFolder(tmp_path / "state")
    place.folder.mkdir()
    source = OperatorRecord("main/source-0", OperatorKind.SOURCE, "RateStream", finished=True)
    stage = StageRecord("main", (TaskRecord(0, place.uri("checkpoints", "main"), 7),), (source,))
    drained = CheckpointRecord(3, 1, Scenario.DRAIN, "drain-1", None, "2026-01-01T00:00:00Z", (stage,))
    place.write_index(indices.add(indices.empty("uid"), drained))
    script = tmp_path / "app.py"
    script.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    err = refused(tmp_path, "--state", str(place.folder), str(script))
    assert "streamjob: AlreadyDrained: checkpoint 3 was drained" in err
    assert "Start with another --state and --restore and --allow-drained." in err
    assert not (tmp_path / "ran").exists()
    assert place.status() is None


def test_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "other" / "deep")
    monkeypatch.chdir(tmp_path)
    assert JobFolder(Path("state/a b")).uri() == f"file://{tmp_path}/state/a b"
    assert JobFolder(Path("link/state")).uri() == f"file://{tmp_path}/link/state"
    # Where the operating system would make it. Hadoop alone would take it for a folder of tmp_path.
    assert JobFolder(Path("link/../state")).uri() == f"file://{tmp_path}/other/state"


@pytest.mark.parametrize(
    ("phase", "needed"), [(DriverPhase.RUNNING, True), (DriverPhase.STARTING, True), (None, False)]
)
def test_a_script_that_has_started_nothing_is_taken_over_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: DriverPhase | None, needed: bool
) -> None:
    """Otherwise the new version of a script waits for what the old one waits for. What ends is waited for."""
    place = JobFolder(tmp_path)
    place.begin(3)
    place.write_status(DriverStatus(1, "uid", 4, phase or DriverPhase.TERMINATING))
    with (tmp_path / "lock").open("a+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(str(os.getpid()))
        other.flush()
        monkeypatch.setattr(handover, "IDLE", 0.05)
        release = threading.Timer(0.5, lambda: needed or fcntl.flock(other, fcntl.LOCK_UN))
        release.start()
        assert handover.process_to_follow(place) == (os.getpid() if needed else None)
        release.join()
    if needed:
        found = settings_for(Application("app.py"), place, place.index(), Restore(), drain=False)
        settings = handover.prepared(found, place)
        assert settings.epoch == 5, "the old one may begin its own yet"
        handover.refuse_other_epoch(settings, place)
        place.begin(5)
        with pytest.raises(handover.RunMeanwhile, match="in epoch 5"):
            handover.refuse_other_epoch(settings, place)


def test_a_look_at_the_folder_keeps_no_job_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looks whether a process holds the lock holds it for an instant."""
    place = JobFolder(tmp_path)
    (tmp_path / "lock").touch()
    with (tmp_path / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr("time.sleep", lambda seconds: fcntl.flock(looking, fcntl.LOCK_UN))
        place.lock()
    assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_of_two_handovers_the_slower_one_leaves_the_faster_one_alone(tmp_path: Path) -> None:
    """The faster one has the folder, and has not begun its epoch yet."""
    place = JobFolder(tmp_path)
    place.begin(1)
    board = StatusBoard(DriverStatus(1, "uid", 2, DriverPhase.PREPARED))
    settings = handover.prepared(
        settings_for(Application("app.py"), place, place.index(), Restore(), drain=False), place
    )
    with subprocess.Popen(["sleep", "60"]) as old, subprocess.Popen(["sleep", "60"]) as faster:
        with (tmp_path / "lock").open("a+") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            other.write(str(faster.pid))
            other.flush()
            with pytest.raises(handover.RunMeanwhile, match=f"process {faster.pid} has taken over"):
                handover.await_turn(settings, place, board, old.pid)
        assert (old.poll(), faster.poll()) == (None, None), "nobody was asked to stop"
        old.kill()
        faster.kill()
