"""How Flink's answers are read, and how its figures stand beside ours."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from dev.bench import endings
from dev.bench.figures import Comparison, Figures
from dev.bench.flink import answers, comparison, library
from dev.bench.flink.answers import JobFailed
from dev.bench.flink.names import CANONICAL, NATIVE, complete, stop


def job(state: str = "RUNNING", **timestamps: int) -> answers.Answer:
    names = ["Source: events[1] -> WatermarkAssigner[2]", "WindowAggregate[4] -> Calc[5] -> noop[6]: Writer"]
    vertices = [
        {"id": name[:6], "name": name, "metrics": {"read-records": 1000 * at}}
        for at, name in enumerate(names, start=1)
    ]
    return {"jid": "ab", "state": state, "timestamps": timestamps, "vertices": vertices}


def tasks(*running: int) -> answers.Answer:
    return {"subtasks": [{"timestamps": {"INITIALIZING": 1000, "RUNNING": at}} for at in running]}


def checkpoint(at: int, took: int, status: str = "COMPLETED", savepoint: bool = False) -> answers.Answer:
    return {
        "trigger_timestamp": at,
        "end_to_end_duration": took,
        "status": status,
        "is_savepoint": savepoint,
    }


def test_a_job_is_finished_when_flink_says_so() -> None:
    assert answers.finished(job(FINISHED=0)) is None
    assert answers.finished(job("FINISHED", FINISHED=2500)) == 2.5
    assert answers.submitted(job(INITIALIZING=1500, CREATED=2000)) == 1.5


@pytest.mark.parametrize("state", ["FAILING", "FAILED", "CANCELED"])
def test_a_job_that_failed_ends_the_measurement(state: str) -> None:
    assert answers.checked(job()) == job()
    with pytest.raises(JobFailed, match=f"job ab is {state}"):
        answers.checked(job(state))


def test_a_stop_that_failed_is_not_taken_for_one_that_is_complete() -> None:
    """Flink's status is COMPLETED for both."""
    status = {"status": {"id": "COMPLETED"}}
    cause = {"class": "CheckpointException", "stack-trace": "CheckpointException: no room\n\tat org.apache"}
    assert (
        answers.failure({**status, "operation": {"failure-cause": cause}}) == "CheckpointException: no room"
    )
    assert answers.failure({**status, "operation": {"location": "file:/a"}}) is None
    assert answers.failure({"status": {"id": "IN_PROGRESS"}, "operation": None}) is None


def test_a_resumed_job_runs_with_its_last_task() -> None:
    assert answers.running([tasks(2000, 2300), tasks(4100, 3900)]) == 4.1
    assert answers.running([tasks(2000, 2300), tasks(4100, 0)]) is None
    assert answers.running([]) is None


def test_rows_are_counted_behind_the_exchange() -> None:
    assert answers.windows(job()) == "Window"
    assert answers.read(job()) == 2000


def test_the_first_checkpoint_is_a_periodic_one_that_is_complete() -> None:
    history = [
        checkpoint(7000, 100),
        checkpoint(6000, 200),
        checkpoint(5000, 10, savepoint=True),
        checkpoint(4000, 10, "FAILED"),
        checkpoint(3000, 0, "IN_PROGRESS"),
    ]
    assert answers.completed({"history": history}) == 6.2
    assert answers.completed({"history": history}, since=6.0) == 7.1
    assert answers.completed({"history": history[2:]}) is None


def test_windows_are_out_when_the_last_task_has_all_barriers() -> None:
    latest = {"id": 7, "external_path": "file:/s/savepoint-ab", "trigger_timestamp": 5000}
    savepoint = answers.savepoint({"latest": {"savepoint": latest}})
    assert savepoint == (7, "/s/savepoint-ab", 5.0)
    tasks = [
        {"start_delay": 40, "alignment": {"duration": 3}},
        {"start_delay": 30, "alignment": {"duration": 90}},
    ]
    assert answers.barrier(savepoint.triggered, {"subtasks": tasks}) == pytest.approx(5.12)


def figures(names: Iterable[str], *values: float) -> Figures:
    made = Figures()
    for name in names:
        for value in values:
            made.add(name, value)
    return made


def all_of_flink(*values: float) -> Figures:
    return figures({name for pair in comparison.PAIRS.values() for name in pair.values()}, *values)


def test_a_ratio_is_of_one_run() -> None:
    """A machine that is ten times as slow in the second run changes the seconds and not the ratio."""
    beside = comparison.measured(figures(comparison.PAIRS, 1.0, 10.0, 1.2), all_of_flink(2.0, 20.0, 2.0))
    assert beside.ratios is not None
    assert beside.values["drain: request to end of the process"] == "2.000 / 2.000 / 20.0"
    assert beside.ratios["drain: request to end of the process"] == "0.500"
    name = "stop: request to savepoint complete"
    assert beside.values[name] == "canonical 2.000 / 2.000 / 20.0; native 2.000 / 2.000 / 20.0"
    assert beside.ratios[name] == "0.500; 0.500"


def test_a_run_without_flinks_half_has_no_ratio() -> None:
    with pytest.raises(ValueError, match="shorter"):
        comparison.measured(figures(comparison.PAIRS, 1.0, 1.0), all_of_flink(2.0))


def test_recorded_figures_are_called_so_and_have_no_ratio() -> None:
    beside = comparison.recorded(1_000_000)
    assert "recorded" in beside.title
    lines = figures(comparison.PAIRS, 0.5).table(beside)
    assert lines[0] == "| figure | samples | min / median / max | Flink 2.3.0, recorded on another day |"
    canonical, native = (comparison.RECORDED[1_000_000][complete(stop(kind))] for kind in (CANONICAL, NATIVE))
    assert f"{canonical[1]:.3f}" in lines[2]
    assert f"native {native[0]:.3f}" in lines[2]
    assert comparison.recorded(5).values["drain: request to every window out"] == ""


def test_the_table_has_a_column_for_each_side_and_one_for_the_ratio() -> None:
    ours = Figures({"a": [1.0, 2.0, 4.0], "b": [20.0]})
    assert ours.table() == [
        "| figure | samples | min / median / max |",
        "|---|---|---|",
        "| a | 3 | 1.000 / 2.000 / 4.000 |",
        "| b | 1 | 20.0 / 20.0 / 20.0 |",
    ]
    assert ours.table(Comparison("Flink", {"a": "3"}, {"a": "0.7"})) == [
        "| figure | samples | min / median / max | Flink | ours / theirs |",
        "|---|---|---|---|---|",
        "| a | 3 | 1.000 / 2.000 / 4.000 | 3 | 0.7 |",
        "| b | 1 | 20.0 / 20.0 / 20.0 | | |",
    ]


def test_without_flink_its_recorded_figures_are_used_and_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No index has the package: pip says so, and the folder of the cache stays empty for the next time."""
    monkeypatch.setattr(library, "cache_folder", lambda: tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(endings, "rows_of", lambda home, keys: home)
    monkeypatch.setattr(endings, "_life", lambda home, keys, rows, figures: figures.add("stop", 1.0))
    ours, beside = endings.measure(1_000, 2)
    assert ours.samples == {"stop": [1.0, 1.0]}
    assert beside == comparison.recorded(1_000)
    told = capsys.readouterr().out
    assert "Flink is not to be had here" in told
    assert "No matching distribution found for apache-flink-libraries" in told
    assert not list(tmp_path.glob("flink-*"))
