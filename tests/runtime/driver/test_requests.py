"""Requests that come before the script has started its queries."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import pytest

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine import events as ev
from streamjob.protocol.engine.coordinator import TerminationConflict
from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.messages.commands import Mode, SavepointRequest, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.runtime.driver.requests import Requests

from .test_dispatcher import Job

STOP = TerminationRequest("stop-1", 1, Mode.STOP)
SAVEPOINT = SavepointRequest("s-1", 1, "file:/savepoints/1", 60.0)


def requests_of(job: Job, termination: TerminationRequest | None = None) -> Requests:
    ref = JobRef("shop", "orders", "uid-1")
    config = DriverConfig(ref, 2, Application("app.py"), "file:/checkpoints", termination=termination)
    return Requests(config, job.dispatcher, nullcontext())


def test_a_stop_waits_until_the_script_waits() -> None:
    job = Job()
    requests = requests_of(job)
    requests.terminate(STOP)
    job.start("a")
    assert (requests.request, requests.stops, requests.drains) == (STOP, True, False)
    assert not job.queues
    requests.all_queries_started()
    assert (requests.request, requests.early) == (STOP, None)
    assert job.next("a")[1].effect == fx.StopAtBoundary("a")


def test_what_an_earlier_epoch_did_not_finish_comes_first() -> None:
    requests = requests_of(Job(), STOP)
    assert requests.early is not None
    assert requests.early.epoch == 2
    requests.terminate(STOP)  # the controller sends it again
    with pytest.raises(TerminationConflict):
        requests.terminate(TerminationRequest("stop-2", 1, Mode.STOP))
    with pytest.raises(TerminationConflict):
        requests.savepoint(SAVEPOINT)


def test_an_early_savepoint_is_taken_of_the_whole_job() -> None:
    job = Job()
    requests = requests_of(job)
    requests.savepoint(SAVEPOINT)
    assert job.board.status.savepoint is not None
    job.start("a")
    assert not job.queues
    requests.all_queries_started()
    assert job.next("a")[1].effect == fx.Snapshot("a", 1)


def test_an_early_savepoint_gives_way_to_an_early_stop() -> None:
    job = Job()
    requests = requests_of(job)
    requests.savepoint(SAVEPOINT)
    requests.terminate(STOP)
    job.start("a")
    requests.all_queries_started()
    told = job.board.status.savepoint
    assert told is not None
    assert told.over
    assert told.problem is not None


def test_an_early_savepoint_waits_no_longer_than_it_may_and_says_for_what() -> None:
    job = Job()
    requests = requests_of(job)
    requests.savepoint(SAVEPOINT)
    for now in (100.0, 130.0, 160.0):
        requests.look(now)
        requests.savepoint(replace(SAVEPOINT, timeout=160.0 - now))  # the controller repeats it
        waits = job.board.status.savepoint
        assert waits is not None
        assert (waits.over, waits.progress) == (False, "the script has not started all its queries")
    requests.look(160.1)
    told = job.board.status.savepoint
    assert told is not None
    assert told.over
    assert told.problem is not None
    assert told.problem.reason == "SavepointAborted"
    requests.savepoint(replace(SAVEPOINT, timeout=0.0))
    job.start("a")
    requests.all_queries_started()
    assert not job.queues, "it is not written any more"


def test_an_early_savepoint_has_the_rest_of_its_time_when_the_queries_have_started() -> None:
    job = Job()
    requests = requests_of(job)
    requests.savepoint(SAVEPOINT)
    for now in (100.0, 145.0):
        requests.look(now)
    taken: list[object] = []
    job.dispatcher.take = taken.append  # type: ignore[method-assign, assignment]
    requests.all_queries_started()
    assert ev.SavepointRequested("s-1", "file:/savepoints/1", 15.0) in taken
