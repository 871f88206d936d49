"""/metrics of a driver: what Prometheus' own parser reads of it, and how little a stranger can do."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dev import ports
from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.driver_status import (
    DriverPhase,
    DriverStatus,
    ExecutorsStatus,
    StageStatus,
    TaskStatus,
)
from streamjob.protocol.messages.figures import Lag, Load, QueryFigures, SourceFigures, merged
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.process.servers import unauthenticated
from streamjob.runtime.process.servers.exposition import FAMILIES, exposition
from streamjob.runtime.process.servers.metrics_server import serve_metrics

JOB = JobRef("shop", "orders", "uid")
FIGURES = QueryFigures(
    processed_rows_per_second=7.5,
    batch_seconds={"addBatch": 1.0, "triggerExecution": 1.5},
    state_bytes=1000,
    watermark_delay=3.0,
    last_commit="2026-01-01T00:00:00Z",
    sources=(SourceFigures("source-0", Lag(rows=5, files=2, bytes=10, seconds=0.5)),),
    load=Load(100.0, 1.5, 250.0, tasks=4),
)


def status(*stages: StageStatus) -> DriverStatus:
    return DriverStatus(1, JOB.uid, 1, DriverPhase.RUNNING, stages=stages)


def stage(uid: str, figures: QueryFigures | None = FIGURES) -> StageStatus:
    tasks = (TaskStatus(0, TaskState.RUNNING),)
    return StageStatus(uid, tasks, input_rows_per_second=2.0, state_rows=4, figures=figures)


def read(page: str) -> dict[tuple[str, ...], float]:
    return {
        (s.name, *(s.labels[name] for name in sorted(s.labels))): s.value
        for family in text_string_to_metric_families(page)
        for s in family.samples
    }


def test_every_figure_is_there() -> None:
    executors = ExecutorsStatus(2, 2, wanted=2, running=1)
    found = read(exposition(JOB, replace(status(stage("copy")), executors=executors)))
    assert {key[0] for key in found} == FAMILIES.keys()
    assert found["streamjob_executors_running", "shop", "orders"] == 1
    assert found["streamjob_query_rows_per_core_second", "shop", "copy", "orders"] == 250
    assert found["streamjob_source_lag_rows", "shop", "source-0", "copy", "orders"] == 5
    assert found["streamjob_query_batch_duration_seconds", "shop", "addBatch", "copy", "orders"] == 1.0
    assert found["streamjob_query_last_commit_timestamp_seconds", "shop", "copy", "orders"] == 1767225600


def test_what_is_not_known_is_left_out() -> None:
    assert exposition(JOB, status(stage("copy", None))) == ""
    assert "lag" not in exposition(
        JOB, status(stage("copy", QueryFigures(sources=(SourceFigures("s", Lag()),))))
    )


def test_any_name_of_a_query_is_a_label() -> None:
    name = 'a "b"\\n\nc'
    assert ("streamjob_query_state_rows", "shop", name, "orders") in read(
        exposition(JOB, status(stage(name)))
    )


def test_a_stage_has_the_sums_of_its_tasks_and_the_times_of_the_slowest() -> None:
    fast = QueryFigures(batch_seconds={"triggerExecution": 0.5}, last_commit="2026-01-02T00:00:00Z")
    lag = SourceFigures("source-0", Lag(rows=1, seconds=9.0))
    both = merged([FIGURES, fast, QueryFigures(sources=(lag,), state_bytes=24)])
    assert both.batch_seconds == FIGURES.batch_seconds
    assert both.last_commit == FIGURES.last_commit
    assert both.state_bytes == 1024
    assert both.sources == (SourceFigures("source-0", Lag(rows=6, files=2, bytes=10, seconds=9.0)),)
    assert merged([]) == QueryFigures()


def test_a_stage_has_the_load_of_all_its_tasks_at_the_cost_of_the_dearest() -> None:
    dear, cheap = Load(100.0, 1.5, 250.0, tasks=4), Load(50.0, 0.5, 500.0, tasks=2)
    assert merged([QueryFigures(load=dear), QueryFigures(load=cheap)]).load == Load(150.0, 1.5, 250.0, 6)
    assert merged([QueryFigures(load=dear), QueryFigures()]).load is None
    unknown = merged([QueryFigures(load=dear), QueryFigures(load=Load(1.0, 0.0, 1.0))]).load
    assert unknown is not None
    assert unknown.tasks is None


@pytest.fixture
def port() -> int:
    found = ports.free(kept=True)
    serve_metrics(("127.0.0.1", found), JOB, StatusBoard(status(stage("copy"))))
    return found


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return str(answer.read().decode())


def test_only_metrics_are_served(port: int) -> None:
    assert "streamjob_query_state_rows" in fetch(port, "/metrics?a=b")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(port, "/v1/status")
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(
            urllib.request.Request(f"http://127.0.0.1:{port}/metrics", method="PUT"), timeout=10
        )


def test_clients_that_say_nothing_keep_nobody_out(port: int) -> None:
    silent = [
        socket.create_connection(("127.0.0.1", port)) for _ in range(unauthenticated.MAX_CONNECTIONS + 4)
    ]
    assert "streamjob_query" in fetch(port, "/metrics")
    for connection in silent:
        connection.close()


def test_a_port_that_is_taken_costs_only_the_metrics(port: int, caplog: pytest.LogCaptureFixture) -> None:
    serve_metrics(("127.0.0.1", port), JOB, StatusBoard(status()))
    assert f"no metrics are served on port {port}" in caplog.text
