"""What is made of resources: of each situation, of every state of simulated lives, and of odd ones."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from streamjob.cli.printing import times
from streamjob.cli.printing.live import Live
from streamjob.cli.printing.text import BAD, BUSY, WARN, Node, Span, plain
from streamjob.cli.views.checkpoints import index
from streamjob.cli.views.job import job
from streamjob.cli.views.tree import table, tree
from streamjob.controller.objects import names
from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario

from ..controller.factories import NOW, record
from ..controller.factories import job as a_job
from .recorded import situations, states

EMPTY = index(None)


def text(node: Node) -> str:
    return "\n".join(node.lines())


def config_map(*records: CheckpointRecord, deleted: bool = False) -> dict[str, Any]:
    found = indices.empty("uid")
    for one in records:
        found = indices.add(found, one)
    return {"data": {indices.KEY: indices.dumps(found)}}


def test_every_state_of_a_life_can_be_shown() -> None:
    for obj in states():
        view = job(obj)
        shown = text(tree(view, EMPTY, NOW))
        assert view.phase in shown
        for kind in ("Stalled", "Degraded"):
            if view.is_true(kind):
                assert f"{kind}: {view.conditions[kind].reason}" in shown
        for stage in view.stages:
            assert stage.uid in shown
            assert all(task.state in shown for task in stage.tasks)


@pytest.mark.parametrize("obj", [{}, {"metadata": {}}, {"status": {"stages": [{}], "conditions": [{}]}}])
def test_what_a_resource_lacks_is_no_error(obj: dict[str, Any]) -> None:
    assert text(tree(job(obj), EMPTY, NOW))
    assert list(table([job(obj)], NOW, all_namespaces=True).lines())


def test_a_stage_with_all_its_figures() -> None:
    stage = {
        "uid": "windows",
        "tasks": [{"index": 0, "state": "WaitingForFinalCheckpoint", "batch": 41}],
        "operators": [
            {"uid": "source-0", "kind": "Source", "name": "Kafka[orders]", "finished": True},
            {"uid": "sink", "kind": "Sink", "name": "sink", "finished": False},
        ],
        "upstream": ["events"],
        "watermark": "2026-01-02T03:00:00.123Z",
        "watermarkDelaySeconds": 245.0,
        "batch": 41,
        "inputRowsPerSecond": 1250.0,
        "batchSeconds": {"triggerExecution": 2.25, "addBatch": 2.0},
        "stateRows": 12345,
        "stateBytes": 5 << 20,
        "lastCommitAt": "2026-01-02T03:04:00Z",
        "sources": [{"uid": "source-0", "lagRows": 120, "lagSeconds": 700.0}],
    }
    obj = {
        "metadata": {"name": "orders", "namespace": "shop"},
        "status": {
            "phase": "Running",
            "epoch": 1,
            "stages": [stage],
            "driver": {"pod": "p", "phase": "Running"},
        },
    }
    assert text(tree(job(obj), EMPTY, NOW)).splitlines()[3:] == [
        "    stage windows batch 41 1250 rows/s in 2.2s committed 5s ago 11m40s behind",
        "      reads from events",
        "      watermark 2026-01-02 03:00:00 (4m5s behind the clock)",
        "      state 12.3k rows, 5.0 MiB",
        "      task 0 WaitingForFinalCheckpoint batch 41",
        "      Source source-0 Kafka[orders] finished left: 120 rows, the oldest from 11m40s ago",
        "      Sink sink",
    ]


FIGURES = {
    "uid": "clicks",
    "watermark": "2026-01-02T03:00:00Z",
    "inputRowsPerSecond": 40.0,
    "stateRows": 12,
    "stateBytes": 9011,
    "sources": [{"uid": "source-0", "lagSeconds": 7.0}],
}


def with_status(**status: Any) -> dict[str, Any]:
    obj = situations()["healthy_running"]
    return {**obj, "status": {**obj["status"], "stages": [FIGURES], **status}}


def test_of_a_drained_job_nothing_is_left() -> None:
    """State and watermark were last measured before the timers fired."""
    termination = {"mode": "Drain", "finalCheckpoint": 9, "stateRowsLeft": 0}
    shown = text(tree(job(with_status(phase="Drained", termination=termination)), EMPTY, NOW))
    assert "state nothing is left" in shown
    assert "12 rows" not in shown
    assert "watermark" not in shown
    left = {**termination, "stateRowsLeft": 3}
    assert "state 3 rows are left" in text(
        tree(job(with_status(phase="Drained", termination=left)), EMPTY, NOW)
    )


def test_rates_of_a_driver_that_is_gone_are_not_shown() -> None:
    gone = with_status(phase="Starting", driver={"pod": "orders-driver-2", "phase": "Pending"})
    runs = with_status(phase="Running", driver={"pod": "orders-driver-1", "phase": "Running"})
    rates = [
        row.split()[8:10] for row in list(table([job(gone), job(runs)], NOW, all_namespaces=True).lines())[1:]
    ]
    assert rates == [["-", "-"], ["7s", "40"]]
    assert "40 rows/s" not in text(tree(job(gone), EMPTY, NOW))
    assert "40 rows/s" in text(tree(job(runs), EMPTY, NOW))


def test_after_a_rollback_both_images_are_named() -> None:
    upgrade = {"step": "RolledBack", "generation": 2, "previous": '{"image": "orders:1"}'}
    obj = with_status(phase="Running", upgrade=upgrade)
    obj = {**obj, "spec": {**obj["spec"], "image": "orders:9.9.9"}}
    shown = text(tree(job(obj), EMPTY, NOW))
    assert "wanted Running runs image orders:1 the spec asks for orders:9.9.9, rolled back" in shown


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        (
            {
                "phase": "Stopping",
                "checkpoint": {"latest": 4, "epoch": 1, "completedAt": "2026-01-02T03:03:00Z"},
            },
            False,
        ),
        ({"phase": "Stopping"}, True),
        ({"phase": "Starting", "epoch": 3, "restarts": {"count": 1, "epoch": 2}}, True),
        (
            {
                "phase": "Restarting",
                "checkpoint": {"latest": 4, "epoch": 1, "completedAt": "2026-01-02T03:03:00Z"},
            },
            True,
        ),
    ],
)
def test_an_error_is_shown_while_it_matters(status: dict[str, Any], shown: bool) -> None:
    error = {"reason": "ScriptFailed", "message": "PermissionError", "time": "2026-01-02T03:00:00Z"}
    obj = with_status(**{"lastError": error, "conditions": [], "checkpoint": {}, **status})
    assert ("last error 4m5s ago: ScriptFailed" in text(tree(job(obj), EMPTY, NOW))) is shown


def test_what_kept_a_pod_from_starting_is_over_when_the_condition_does_not_say_it() -> None:
    """The failure before it is not: it is the reason of this start."""
    wait = {"reason": "Unschedulable", "message": "no node", "time": "2026-01-02T03:04:00Z"}
    ready = {"type": "Ready", "status": "False", "reason": "Starting", "message": "The driver starts"}
    starts = {"phase": "Starting", "epoch": 2, "lastError": wait, "conditions": [ready]}
    assert job(with_status(**starts)).open_error is None
    failure = {"reason": "ScriptFailed", "message": "no price", "time": "2026-01-02T03:03:00Z"}
    restarts = {"count": 1, "epoch": 1, "error": failure}
    assert "ScriptFailed" in text(tree(job(with_status(**starts, restarts=restarts)), EMPTY, NOW))
    # While the pod waits, both are shown.
    says = [{**ready, "message": "no node."}, {"type": "Stalled", "status": "True", "reason": wait["reason"]}]
    shown = text(tree(job(with_status(**{**starts, "conditions": says, "restarts": restarts})), EMPTY, NOW))
    assert "Stalled: Unschedulable" in shown
    assert "ScriptFailed" in shown


def test_epochs_that_ended_are_below_the_current_one() -> None:
    status = {
        "epoch": 3,
        "driver": {"pod": "orders-driver-3", "phase": "Running"},
        "lastExit": {"epoch": 2, "code": 1, "reason": "ValueError: no"},
    }
    view = job({"metadata": {"name": "orders"}, "status": status})
    found = index(config_map(record(1, 1, Scenario.STOP), record(2, 2, None), record(3, 3, None)))
    shown = text(tree(view, found, NOW))
    assert "    epoch 2 last with checkpoint 2" in shown
    assert "exit code 1: ValueError: no" in shown
    assert "    epoch 1 stopped with checkpoint 1" in shown


def test_a_line_for_each_job() -> None:
    running = job(situations()["healthy_running"])
    failed = job(situations()["degraded_failed"])
    lines = list(table([running, failed], NOW, all_namespaces=True).lines())
    assert lines[0].split()[:4] == ["NAMESPACE", "NAME", "READY", "STATE"]
    assert lines[1].split()[:6] == ["shop", "orders", "True", "Running", "Running", "0"]
    assert lines[2].split()[:5] == ["shop", "orders", "False", "Running", "Failed"]
    assert "ScriptFailed: syntax error in line 3" in lines[2]


@pytest.mark.parametrize(
    ("count", "epoch", "now", "style"),
    [(3, 4, "Starting", BAD), (3, 5, "Restarting", BAD), (1, 4, "Pending", WARN), (3, 2, "Starting", BUSY)],
)
def test_a_crash_loop_looks_like_one(count: int, epoch: int, now: str, style: str) -> None:
    restarts = {"count": count, "epoch": epoch, "generation": 1}
    status = {"phase": now, "epoch": 5, "restarts": restarts, "observedGeneration": 1}
    crashing = job({"metadata": {"name": "orders", "namespace": "shop", "generation": 1}, "status": status})
    row = table([crashing], NOW, all_namespaces=False).rows[0]
    assert row[3][0] == Span(now, style)
    assert row[4][0].text == str(count)


def test_the_index_of_the_product_is_read() -> None:
    found = index(config_map(record(1, 1, Scenario.STOP), record(2, 2, Scenario.DRAIN)))
    assert [(c.number, c.epoch, c.scenario, c.why) for c in found.checkpoints] == [
        (1, 1, "Stop", "Stop"),
        (2, 2, "Drain", "Stop"),  # a record of the factory: its request is a stop
    ]
    assert found.latest is not None
    assert found.latest.completed is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"checkpoints": [{}]}'])
def test_an_index_that_cannot_be_read_says_why(text: str) -> None:
    assert index({"data": {"index.json": text}}).problem


def test_names_are_those_of_the_product() -> None:
    view = job({"metadata": {"name": "orders"}})
    assert view.index == names.index_config_map(a_job().metadata.name)


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        (0, "0s"),
        (1.25, "1.2s"),
        (59.6, "1m"),
        (61, "1m1s"),
        (3600, "1h"),
        (3725, "1h2m"),
        (90000, "1d1h"),
        (timedelta(days=400), "400d"),
        (-5, "-5s"),
    ],
)
def test_spans(length: float | timedelta, shown: str) -> None:
    assert times.span(length) == shown


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("10m", 600), ("", None), ("10", None), ("m", None)]
)
def test_durations(text: str, seconds: float | None) -> None:
    assert times.seconds(text) == seconds


def test_moments() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    assert times.moment("2026-01-02T03:04:05Z") == at
    assert times.moment("2026-01-02T04:04:05.123456789+01:00") == at.replace(microsecond=123456)
    assert times.moment("soon") is None
    assert times.written(at) == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0"), (12.34, "12.3"), (950, "950"), (12400, "12.4k"), (3.1e6, "3.1M")]
)
def test_amounts(number: float, shown: str) -> None:
    assert times.amount(number) == shown


def test_plain_text_has_no_escape_sequences() -> None:
    shown = text(tree(job(situations()["progressing_stopping"]), EMPTY, NOW))
    assert "\x1b" not in shown
    assert plain(tree(job(situations()["suspended"]), EMPTY, NOW).label) == "orders in shop Suspended ready"


def test_a_table_that_is_followed_has_its_header_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A column is as wide as its longest age. Nobody wants to see that."""
    obj = situations()["healthy_running"]
    with Live() as live:
        for seconds in (50, 59, 61, 3599, 36000):
            live.show(table([job(obj)], NOW + timedelta(seconds=seconds), all_namespaces=False))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", obj["metadata"]["name"]]


def test_a_job_that_waits_for_its_next_round_says_when_and_how_the_last_one_went() -> None:
    found = {
        "next": "2026-01-02T04:04:05Z",
        "last": "2026-01-02T02:04:05Z",
        "lastDuration": "95s",
        "missed": 2,
    }
    ready = {"type": "Ready", "status": "True", "reason": "Waiting", "message": "It waits"}
    status = {"phase": "Waiting", "rounds": found, "conditions": [ready]}
    waiting = job({"metadata": {"name": "nightly"}, "status": status})
    assert "next round in 1h" in "\n".join(table([waiting], NOW, all_namespaces=False).lines())
    shown = text(tree(waiting, EMPTY, NOW))
    assert "the last one began 1h ago and took 95s; the next one is due in 1h; 2 missed" in shown


def test_how_the_number_of_executors_follows_the_load() -> None:
    obj = situations()["healthy_running"]
    executors = {"wanted": 3, "running": 1, "min": 3, "max": 3}
    scaling = {"desired": 3, "since": "2026-01-02T03:04:05Z", "limitedBy": "max", "next": 2}
    status = {**obj["status"], "executors": executors, "autoscale": scaling}
    shown = text(tree(job({**obj, "status": status}), EMPTY, NOW))
    assert "executors 1/3" in shown
    assert "autoscale to 3, soon 2, limited by max" in shown
