"""Many plans, on all cores, with progress; the first that breaks an invariant is shown, and how to see it
again.
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import count

from .world import World

CHUNK = 8  # plans that a process is given at a time
AHEAD = 2  # chunks for each process: none waits for the next one
TELL_EVERY = 10.0  # seconds; on a terminal the one line is written anew each second


@dataclass
class Tally:
    """Of some plans.

    `cpu`: seconds of processor; `broken`: what the first of them that broke something has to say.
    """

    plans: int = 0
    effects: int = 0
    virtual: float = 0.0
    cpu: float = 0.0
    broken: str = ""

    def add(self, other: Tally) -> None:
        self.plans += other.plans
        self.effects += other.effects
        self.virtual += other.virtual
        self.cpu += other.cpu
        self.broken = self.broken or other.broken


def run(seeds: range) -> Tally:
    """In this process, up to the first that breaks something."""
    tally, began = Tally(), time.process_time()
    for seed in seeds:
        try:
            outcome = World(seed).run()
        except Exception:
            tally.broken = f"seed {seed}: a mistake of the world's own\n{traceback.format_exc()}"
            break
        tally.add(Tally(1, len(outcome.effects), outcome.seconds))
        if outcome.violation:
            tally.broken = f"{outcome}\nseed {seed}: {outcome.violation}\nreplay: {outcome.replay}"
            break
    tally.cpu = time.process_time() - began
    return tally


def soak(first: int, plans: int | None, seconds: float | None, jobs: int) -> int:
    """The plans of the seeds from `first` on, until one breaks something: 0 if none does.

    Progress goes to stderr.
    """
    total, progress = Tally(), Progress(first, plans, seconds)
    gc.set_threshold(20_000, 20, 20)  # a world is a cycle of its own, and goes as a whole
    # what has been imported is never garbage: the processes need not look through it again and again
    gc.freeze()
    with ProcessPoolExecutor(jobs) as pool:
        try:
            _all(pool, _chunks(first, plans, seconds), jobs * AHEAD, total, progress)
        except KeyboardInterrupt:
            print(file=sys.stderr)
        pool.shutdown(wait=True, cancel_futures=True)
    progress.tell(total, last=True)
    if total.broken:
        print(total.broken)
        return 1
    took = progress.seconds
    print(
        f"{total.plans} plans (seeds from {first} on), {total.effects} effects, "
        f"{total.virtual / 3600:.0f} virtual hours in {took:.0f} s with {jobs} processes: "
        f"{total.plans / max(took, 1e-9):.1f} plans/s, "
        f"{total.plans / max(total.cpu, 1e-9):.1f} in a second of processor time; nothing broken"
    )
    return 0


def _all(
    pool: ProcessPoolExecutor, chunks: Iterator[range], ahead: int, total: Tally, progress: Progress
) -> None:
    under_way: set[Future[Tally]] = set()
    while True:
        while len(under_way) < ahead and (chunk := next(chunks, None)) is not None:
            under_way.add(pool.submit(run, chunk))
        if not under_way:
            return
        done, under_way = wait(under_way, timeout=1.0, return_when=FIRST_COMPLETED)
        for future in done:
            total.add(future.result())
        progress.tell(total)
        if total.broken:
            return


def _chunks(first: int, plans: int | None, seconds: float | None) -> Iterator[range]:
    end = time.monotonic() + seconds if seconds is not None else None
    for n in count(0, CHUNK):
        if (plans is not None and n >= plans) or (end is not None and time.monotonic() >= end):
            return
        size = CHUNK if plans is None else min(CHUNK, plans - n)
        yield range(first + n, first + n + size)


class Progress:
    def __init__(self, first: int, plans: int | None, limit: float | None) -> None:
        self.first, self.plans, self.limit = first, plans, limit
        self._began = self._told = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def tell(self, total: Tally, *, last: bool = False) -> None:
        here = sys.stderr.isatty()
        if not last and time.monotonic() - self._told < (1.0 if here else TELL_EVERY):
            return
        self._told = time.monotonic()
        rate = total.plans / max(self.seconds, 1e-9)
        ends = [(self.plans - total.plans) / max(rate, 1e-9)] if self.plans is not None else []
        ends += [self.limit - self.seconds] if self.limit is not None else []
        left = f", {max(min(ends), 0.0):.0f} s left" if ends and not last else ""
        text = (
            f"{total.plans} plans, {rate:.1f} plans/s, {total.effects} effects, seeds from {self.first}{left}"
        )
        print(
            f"\r{text:78}" if here else text,
            end="\n" if last or not here else "",
            file=sys.stderr,
            flush=True,
        )


def cores() -> int:
    return os.cpu_count() or 1
