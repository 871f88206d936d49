"""Kills its own process, JVM included, at a point that the environment names: `KILL="before NotifyComplete"`,
`KILL="after StoreCheckpoint 2"` (the second time); in a hook: `KILL="in finish"`; in a batch, between the
write and the commit: `KILL="in batch"`, or, an error instead, `KILL="throw in the last batch"`. For scripts
of tests: they import it before they start a query.
"""

import os
import signal
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from streamjob import job
from streamjob.runtime.driver.effects import EffectRunner
from streamjob.sinks import Transaction, TransactionalSink


def now() -> None:
    os.killpg(0, signal.SIGKILL)


def install(stage: str = "totals") -> None:
    """:param stage: whose last batch and whose hook is meant."""
    if os.environ.get("KILL") == "in finish":
        job.on_finish(stage)(now)
    when, _, rest = os.environ.get("KILL", "").partition(" ")
    effect, _, times = rest.partition(" ")
    left = int(times or 1) if when in ("before", "after") else 0
    original = EffectRunner.carry_out

    def carry_out(work: EffectRunner, asked: Any, run: Any) -> Any:
        nonlocal left
        Deadly.draining |= type(asked).__name__ == "FireMaxWatermark" and asked.task.startswith(stage)
        hit = type(asked).__name__ == effect
        left -= hit
        last = hit and left == 0  # others may be carried out meanwhile
        if last and when == "before":
            now()
        event = original(work, asked, run)
        if last and when == "after":
            now()
        return event

    EffectRunner.carry_out = carry_out  # type: ignore[method-assign, assignment]


class Deadly(TransactionalSink):
    """A sink that does what another one does, and kills."""

    batches = 0  # of all such sinks

    def __init__(self, sink: TransactionalSink) -> None:
        self._sink = sink

    def recover(self, owner: str, batch: int | None) -> Sequence[Transaction]:
        return self._sink.recover(owner, batch)

    def begin(self, batch: int) -> None:
        self._sink.begin(batch)

    def write(self, frame: DataFrame, batch: int) -> None:
        self._sink.write(frame, batch)
        Deadly.batches += 1
        if os.environ.get("KILL") == "in batch" and Deadly.batches == 4:
            now()
        if os.environ.get("KILL") == "throw in the last batch" and Deadly.draining:
            raise RuntimeError("the last batch fails")

    draining = False

    def pre_commit(self, transaction: Transaction) -> None:
        self._sink.pre_commit(transaction)

    def commit(self, transaction: Transaction) -> None:
        self._sink.commit(transaction)

    def abort(self, transaction: Transaction) -> None:
        self._sink.abort(transaction)
