"""Copies files of a volume with the job's executors (ADR 16).

Each executor has its own processors and its own path to the storage. They copy only while no query runs,
because the executors' slots belong to the queries. A failure here is not an error: the caller copies the
remaining files itself, and raises its own error if the cause persists.
"""

from __future__ import annotations

import heapq
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from ..jvm.errors import one_line
from .executor_task import Batch, CopyOrder, Done, Witness, copy_batches
from .hadoop import CopiedFile, HadoopFiles
from .local_disk import path_of
from .parallel import Progress

log = logging.getLogger("streamjob")

ENOUGH = 1 << 30  # bytes: the driver copies that in some seconds; executors need two to start Python
BATCH = 256 << 20  # bytes that one task copies, so that a lost executor costs little
BATCHES_PER_SLOT = 4  # at least, so that all slots end at about the same time
POLL_SECONDS = 0.5  # seconds between two checks of the Spark job
# Seconds without a task ending, and the same without any executor, after which the driver copies itself.
STALLED, ALONE = 120.0, 15.0
_GONE = (Py4JError, PySparkException, AttributeError)  # the script has ended its session


def worth_it(master: str, executors: int, total: int) -> bool:
    """Whether executors would copy faster than the driver.

    :param master: Spark's master URL.
    :param executors: number of executors now.
    :param total: bytes to copy.
    """
    apart = master != "local" and not master.startswith("local[")
    return apart and executors > 0 and total >= ENOUGH


def batched(orders: Iterable[CopyOrder], slots: int) -> list[Batch]:
    """Distribute the files to batches of about equal size: largest file first, each to the smallest batch."""
    waiting = sorted(orders, key=lambda o: -o.size)
    number = max(slots * BATCHES_PER_SLOT, -(-sum(o.size for o in waiting) // BATCH))
    batches: list[list[CopyOrder]] = [[] for _ in range(min(number, len(waiting)))]
    least = [(0, n) for n in range(len(batches))]
    for order in waiting:
        size, n = least[0]
        batches[n].append(order)
        heapq.heapreplace(least, (size + order.size, n))
    return [tuple(batch) for batch in batches]


def copy(
    files: HadoopFiles,
    wanted: Mapping[str, tuple[str, int]],
    witness: str,
    check: Callable[[], None],
    progress: Progress | None = None,
) -> dict[str, CopiedFile]:
    """Copy files with the executors. If that would not be faster, copy nothing.

    :param wanted: source URI → target URI and bytes.
    :param witness: URI of a file of the savepoint that exists nowhere else.
    :param check: called every `POLL_SECONDS` seconds; an exception from it ends the copying and is raised.
    :returns: source URI → copied file, of those that are durable and visible from the driver; the caller
        copies the rest.
    """
    total = sum(size for _, size in wanted.values())
    uris = [uri for source, (target, _) in wanted.items() for uri in (source, target)]
    if total < ENOUGH or not all(uri.startswith("file:") for uri in uris):
        return {}
    if not files.has_session:
        return {}  # no job runs (`savepoint adopt`), so there are no executors
    context = files.spark.sparkContext
    if not worth_it(context.master or "local", _executors(context), total):
        return {}
    source_of = {str(path_of(source)): source for source in wanted}
    orders = [CopyOrder(str(path_of(s)), str(path_of(t)), size) for s, (t, size) in wanted.items()]
    seen = Witness(str(path_of(witness)), files.read_bytes(witness))
    try:
        batches = batched(orders, context.defaultParallelism)
    except _GONE:
        return {}
    found = _run(context, batches, seen, check, progress)
    done = [d for d in found if not d.failed and _is_there(d)]
    if len(done) < len(orders):
        why = next((d.failed for d in found if d.failed), "what they have written is not seen from here")
        text = "executors have copied %d of %d files, the driver copies the others: %s"
        log.warning(text, len(done), len(orders), why)
    return {source_of[d.source]: CopiedFile(d.size, d.sha256) for d in done}


def _run(
    context: SparkContext,
    batches: list[Batch],
    witness: Witness,
    check: Callable[[], None],
    progress: Progress | None,
) -> list[Done]:
    """Copy as a Spark job, in a thread of its own. Raises only what `check` raises."""
    group = f"streamjob-copy-{uuid.uuid4().hex}"
    with ThreadPoolExecutor(1, thread_name_prefix="streamjob-executors") as pool:
        job = pool.submit(_job, context, group, batches, witness)
        ended, since = 0, time.monotonic()
        try:
            while not wait([job], POLL_SECONDS).done:
                check()
                if (now := _ended(context, group)) > ended:
                    ended, since = now, time.monotonic()
                    if progress is not None:
                        progress(f"executors have copied {ended} of {len(batches)} parts")
                elif time.monotonic() - since > (STALLED if _executors(context) else ALONE):
                    return [Done("", "", failed="for too long no task of theirs has ended")]
        finally:
            while not job.done():  # cancel repeatedly: the job may not have begun yet
                with suppress(*_GONE):
                    context.cancelJobGroup(group)
                wait([job], POLL_SECONDS)
        error = job.exception()
        return job.result() if error is None else [Done("", "", failed=one_line(error))]


def _job(context: SparkContext, group: str, batches: list[Batch], witness: Witness) -> list[Done]:
    context.setJobGroup(group, "savepoint", interruptOnCancel=True)
    return context.parallelize(batches, len(batches)).mapPartitions(partial(copy_batches, witness)).collect()


def _ended(context: SparkContext, group: str) -> int:
    """The number of tasks that have ended."""
    try:
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(n) for n in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(n) for job in jobs if job is not None for n in job.stageIds]
        return sum(stage.numCompletedTasks for stage in stages if stage is not None)
    except _GONE:
        return 0


def _executors(context: SparkContext) -> int:
    try:
        return len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1  # one of them is the driver
    except _GONE:
        return 0


def _is_there(done: Done) -> bool:
    try:
        return Path(done.target).stat().st_size == done.size
    except OSError:
        return False
