"""The work queue: what is reconciled, and when it is reconciled again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from streamjob.controller.api_server.errors import KubeError
from streamjob.controller.api_server.leader import NotLeading
from streamjob.controller.reconciler import work_queue
from streamjob.controller.reconciler.work_queue import WorkItem, WorkQueue


class Jobs:
    """Counts the reconciles. `answers`: what each returns or raises, in order; then None."""

    def __init__(self, *answers: float | Exception | None) -> None:
        self.answers = list(answers)
        self.reconciles = 0
        self.may_continue = asyncio.Event()
        self.may_continue.set()
        self.queue = WorkQueue(self.reconcile, lambda error: error)
        self.queue.open()

    async def reconcile(self, item: WorkItem) -> float | None:
        self.reconciles += 1
        item.uid = "uid"
        await self.may_continue.wait()
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def enqueue(self, version: str | None = None) -> WorkItem:
        self.queue.enqueue("shop", "orders", version)
        return self.queue.items["shop", "orders"]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


async def finish(item: WorkItem) -> None:
    await until(lambda: item.running is None)


async def test_events_during_a_reconcile_cause_one_more() -> None:
    jobs = Jobs()
    jobs.may_continue.clear()
    item = jobs.enqueue()
    await until(lambda: jobs.reconciles == 1)
    for _ in range(5):
        jobs.enqueue()
    jobs.may_continue.set()
    await finish(item)
    assert jobs.reconciles == 2


async def test_a_known_version_enqueues_nothing() -> None:
    jobs = Jobs()
    item = jobs.enqueue("1")
    await finish(item)
    item.version = "1"
    jobs.enqueue("1")
    assert item.running is None
    jobs.enqueue("2")
    await finish(item)
    assert jobs.reconciles == 2


async def test_a_job_is_requeued_after_the_delay_that_its_reconcile_returns() -> None:
    jobs = Jobs(0.01)
    item = jobs.enqueue()
    await until(lambda: jobs.reconciles == 2)
    await finish(item)
    assert item.timer is None


async def test_a_failed_reconcile_is_repeated_after_a_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_queue, "BACKOFF_FIRST", 0.01)
    jobs = Jobs(ValueError("first"), ValueError("second"))
    item = jobs.enqueue()
    await until(lambda: jobs.reconciles == 2)
    assert item.failures >= 1
    await until(lambda: jobs.reconciles == 3)
    await finish(item)
    assert item.failures == 0


async def test_the_api_server_names_the_time_of_the_next_attempt() -> None:
    jobs = Jobs(KubeError(429, "too many requests", retry_after=0.01))
    item = jobs.enqueue()
    await until(lambda: jobs.reconciles == 2)
    await finish(item)
    assert item.failures == 0


async def test_a_controller_that_no_longer_leads_waits_for_an_event() -> None:
    jobs = Jobs(NotLeading("another controller leads"))
    item = jobs.enqueue()
    await finish(item)
    assert (item.timer, item.failures) == (None, 0)


async def test_a_deleted_job_is_dropped() -> None:
    jobs = Jobs()
    item = jobs.enqueue()
    jobs.may_continue.clear()
    await until(lambda: jobs.reconciles == 1)
    item.uid = None
    jobs.may_continue.set()
    await until(lambda: len(jobs.queue) == 0)


async def test_a_closed_queue_takes_nothing() -> None:
    jobs = Jobs(60)
    item = jobs.enqueue()
    await until(lambda: item.timer is not None)
    assert jobs.queue.close() == []
    assert item.timer is not None
    assert item.timer.cancelled()
    jobs.queue.enqueue("shop", "orders")
    assert len(jobs.queue) == 0
