"""Jobs that run without Kubernetes: what their folder says, and how they are ended."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from streamjob.cli.__main__ import main
from streamjob.cli.errors import ExitCode
from streamjob.cli.local import folder
from streamjob.cli.printing.times import moment
from streamjob.cli.views.job import job
from streamjob.protocol.formats import codec
from streamjob.protocol.formats import index as indices
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
from streamjob.runtime.process.local.job_folder import JobFolder, StateInUse
from streamjob.runtime.process.local.run import settings_for

from ..controller.factories import record
from .local_job import RUNS, started

Output = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path) -> JobFolder:
    """A job whose second epoch runs in this process."""
    found = JobFolder(tmp_path / "orders")
    found.lock()
    found.begin(2)
    found.write_index(indices.add(indices.empty("uid"), record(1, 1, Scenario.STOP)))
    found.write_status(RUNS)
    return found


def ended(place: JobFolder) -> None:
    """Its process lets go."""
    assert place._lock is not None
    place._lock.close()


def seen(place: JobFolder) -> folder.Folder:
    found = folder.read(place.folder)
    assert found is not None
    return found


def test_a_job_that_runs(place: JobFolder) -> None:
    assert seen(place).process == os.getpid()
    view = job(folder.resource(seen(place)))
    assert (view.name, view.phase, view.epoch, view.ready) == ("orders", "Running", 2, True)
    (stage,) = view.stages
    assert (stage.batch, stage.batch_seconds, stage.lag_seconds) == (7, 2.0, 1.5)
    assert stage.sources[0].lag_rows == 9


def test_another_process_that_tries_leaves_the_number_in_the_lock(place: JobFolder) -> None:
    with pytest.raises(StateInUse):
        JobFolder(place.folder).lock()
    assert seen(place).process == os.getpid()


@pytest.mark.parametrize(
    ("scenario", "phase"),
    [
        (Scenario.STOP, "Stopped"),
        (Scenario.DRAIN, "Drained"),
        (Scenario.END_OF_INPUT, "Finished"),
        (None, "Cancelled"),
    ],
)
def test_a_job_that_has_ended(place: JobFolder, scenario: Scenario | None, phase: str) -> None:
    place.write_index(indices.add(indices.empty("uid"), record(5, 2, scenario)))
    ended(place)
    view = job(folder.resource(seen(place)))
    assert view.phase == phase
    assert view.is_true("Ready")


def test_a_job_that_has_ended_has_no_driver(place: JobFolder, capsys: Output) -> None:
    place.write_index(indices.add(indices.empty("uid"), record(5, 2, Scenario.STOP)))
    ended(place)
    assert main(["status", "--local", str(place.folder)]) == ExitCode.DONE
    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if "epoch 2" in line and "driver" in line
    ]
    assert line.strip() == "epoch 2 no driver"


def test_a_job_that_has_failed(place: JobFolder) -> None:
    problem = Problem("QueryFailed", "the broker is away", "See the broker")
    place.write_status(DriverStatus(4, "uid", 2, DriverPhase.FAILED, problem=problem))
    ended(place)
    view = job(folder.resource(seen(place)))
    assert view.phase == "Failed"
    assert view.conditions["Stalled"].message == "the broker is away. See the broker"
    assert view.last_error is not None


def test_a_job_whose_jvm_does_not_answer(place: JobFolder, capsys: Output) -> None:
    """It is not Ready. Once its process has ended, nothing could answer."""
    frozen = Problem("JvmNotResponding", "the JVM has not answered since T", "Continue it")
    place.write_status(replace(RUNS, warnings=(frozen,)))
    view = job(folder.resource(seen(place)))
    assert (view.phase, view.ready) == ("Running", False)
    ready = view.conditions["Ready"]
    assert (ready.reason, ready.message) == (frozen.reason, "the JVM has not answered since T. Continue it")
    assert view.last_error is not None
    assert main(["diagnose", "--local", str(place.folder)]) == ExitCode.DONE
    shown = capsys.readouterr().out
    assert "the JVM has not answered since T" in shown
    assert "kill -CONT" in shown
    ended(place)
    after = job(folder.resource(seen(place)))
    assert (after.warnings, after.last_error) == ((), None)


@pytest.mark.parametrize(
    ("mode", "phase", "state"), [(Mode.STOP, "Stopping", "Stopped"), (Mode.DRAIN, "Draining", "Drained")]
)
def test_the_state_that_it_was_asked_for_last(place: JobFolder, mode: Mode, phase: str, state: str) -> None:
    end = TerminationStatus("end-2", mode, TerminationStep.BOUNDARY)
    place.write_status(replace(RUNS, phase=DriverPhase.TERMINATING, termination=end))
    view = job(folder.resource(seen(place)))
    assert (view.phase, view.wanted) == (phase, state)


def test_what_it_was_started_with_and_when(place: JobFolder) -> None:
    index = indices.empty("uid")
    settings = settings_for(
        Application(file="orders.py", args=("in", "out")),
        place,
        index,
        Restore(savepoint="file:///s"),
        drain=False,
    )
    place.write_config(settings)
    found = folder.resource(seen(place))
    spec, driver = found["spec"], found["status"]["driver"]
    assert spec["application"] == {"file": "orders.py", "args": ["in", "out"]}
    assert spec["sparkConf"]["spark.master"] == "local[*]"
    assert spec["storage"]["checkpoints"] == place.uri("checkpoints")
    began = datetime.fromtimestamp((place.folder / "lock").stat().st_mtime, timezone.utc)
    assert abs(moment(driver["startedAt"]) - began) < timedelta(seconds=1)  # type: ignore[operator]


def test_a_folder_says_something_else_when_a_file_or_the_lock_does(place: JobFolder) -> None:
    before = folder.state(place.folder)
    assert folder.state(place.folder) == before
    place.write_status(RUNS)
    written = folder.state(place.folder)
    assert written != before
    ended(place)
    assert folder.state(place.folder) != written


def test_a_folder_of_an_older_version(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text(
        indices.dumps(indices.add(indices.empty("u"), record(1, 1, Scenario.STOP)))
    )
    (tmp_path / "lock").touch()
    found = folder.read(tmp_path)
    assert found is not None
    assert found.process is None
    assert job(folder.resource(found)).phase == "Stopped"


def test_the_commands(place: JobFolder, capsys: Output) -> None:
    for command, shown in (
        (["status"], "task 0 Running batch 7"),
        (["savepoint", "list"], "stop"),
        (["timeline"], "epoch 2"),
        (["diagnose"], "orders is Running, as its spec asks for"),
    ):
        assert main([*command, "--local", str(place.folder)]) == ExitCode.DONE
        assert shown in capsys.readouterr().out, command
    assert main(["status", "--json", "--local", str(place.folder)]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["phase"] == "Running"


def test_a_stop_is_the_signal_of_ctrl_c(tmp_path: Path, capsys: Output) -> None:
    """To the process that holds the lock; what it does then is the runtime's."""
    place = tmp_path / "orders"
    with started(place) as process:
        assert main(["stop", "--wait", "--local", str(place)]) == ExitCode.DONE
        assert process.popen.wait(60) == 0
    said = capsys.readouterr()
    assert "was asked to stop" in said.err
    assert "It has ended with checkpoint 5" in said.out
    assert main(["stop", "--local", str(place)]) == ExitCode.PROBLEM
    assert "no process runs the job" in capsys.readouterr().err


def test_a_drain_is_asked_for_at_the_start(place: JobFolder, capsys: Output) -> None:
    assert main(["drain", "--yes", "--local", str(place.folder)]) == ExitCode.PROBLEM
    assert "--local --drain SCRIPT" in capsys.readouterr().err


def test_a_folder_without_a_job(tmp_path: Path, capsys: Output) -> None:
    assert main(["status", "--local", str(tmp_path)]) == ExitCode.PROBLEM
    assert "holds no job" in capsys.readouterr().err


def test_the_status_is_the_drivers() -> None:
    """What the runtime writes, as the product's own codec has it."""
    assert json.loads(codec.dumps(RUNS))["stages"][0]["tasks"][0]["state"] == "Running"
