"""Transactional sinks in a script that runs with plain `python`: each batch is visible at once, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.sinks import Transaction, TransactionalSink

from .feeds import Feed
from .targets import Target


class Died(Exception):
    pass


@pytest.mark.parametrize("step", ["pre_commit", "commit"])
@pytest.mark.parametrize("after", [False, True])
def test_r2_without_the_runtime_a_crash_around_a_step_repeats_nothing(
    target: Target, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    sink = target.open()
    sink(target.rows(1), 0)
    of = type(sink)
    original = getattr(of, step)

    def die(self: TransactionalSink, transaction: Transaction) -> None:
        if after:
            original(self, transaction)
        raise Died

    monkeypatch.setattr(of, step, die)
    with pytest.raises(Died):
        sink(target.rows(2), 1)
    monkeypatch.setattr(of, step, original)
    again = target.open()
    again(target.rows(2), 1)  # Spark has not committed it
    again(target.rows(3), 2)
    assert target.seen() == [1, 2, 3]


def test_r2_without_the_runtime_a_script_that_goes_on_after_a_failure_repeats_nothing(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`while True: try … except: start again`, with one sink object."""
    sink = target.open()
    sink(target.rows(1), 0)
    commit = type(sink).commit

    def die(*_: object) -> None:
        raise Died

    monkeypatch.setattr(type(sink), "commit", die)
    with pytest.raises(Died):
        sink(target.rows(2), 1)
    monkeypatch.setattr(type(sink), "commit", commit)
    sink(target.rows(2), 1)
    assert target.seen() == [1, 2]


def test_r2_without_the_runtime_two_queries_write_to_one_place(target: Target, tmp_path: Path) -> None:
    """And one whose checkpoint was deleted begins with batch 0 again."""

    def run(name: str, *values: int) -> None:
        feed = Feed(tmp_path / name / "in")
        for v in values:
            feed.add([{"v": v}])
        writer = feed.stream(target.spark, "v int").writeStream.foreachBatch(target.open())
        writer = writer.option("checkpointLocation", str(tmp_path / name / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    run("first", 1, 2, 3)
    run("second", 4, 5)
    assert target.seen() == [1, 2, 3, 4, 5]
