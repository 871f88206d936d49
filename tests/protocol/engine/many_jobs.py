"""Many random jobs, on all cores, each of them told by its seed:

python -m tests.protocol.engine.many_jobs --plans 20000 --seed 1
python -m tests.protocol.engine.many_jobs --only 4711            that one again, with its traceback
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import traceback
from pathlib import Path

from streamjob.protocol.engine import coordinator
from tests.protocol.engine.randomjob import live

CHUNK = 50


def failures(seeds: range, steps: int) -> list[tuple[int, str]]:
    found = []
    for seed in seeds:
        try:
            live(coordinator, seed, steps)
        except Exception as e:
            where = traceback.extract_tb(e.__traceback__)[-1]
            found.append((seed, f"{type(e).__name__}: {e} ({Path(where.filename).name}:{where.lineno})"))
    return found


def run(plans: int, seed: int, steps: int, processes: int, stop_after: int) -> int:
    began, done, failed = time.monotonic(), 0, 0
    chunks = [range(s, min(s + CHUNK, seed + plans)) for s in range(seed, seed + plans, CHUNK)]
    with multiprocessing.Pool(processes) as pool:
        for found in pool.imap_unordered(_chunk, [(c, steps) for c in chunks]):
            done += CHUNK
            for bad, why in found:
                failed += 1
                print(f"seed {bad}: {why}", flush=True)
            if failed >= stop_after:
                break
    done = min(done, plans)
    seconds = time.monotonic() - began
    print(f"{done} plans from seed {seed}, {failed} failed, {seconds:.0f} s, {done / seconds:.0f} plans/s")
    return 1 if failed else 0


def _chunk(of: tuple[range, int]) -> list[tuple[int, str]]:
    return failures(*of)


def main() -> int:
    p = argparse.ArgumentParser(prog="python -m tests.protocol.engine.many_jobs", description=__doc__)
    p.add_argument("--plans", type=int, default=2000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    p.add_argument("--stop-after", type=int, default=20, help="so many failures")
    p.add_argument("--only", type=int, help="this seed, here")
    options = p.parse_args()
    if options.only is not None:
        live(coordinator, options.only, options.steps)
        return 0
    return run(options.plans, options.seed, options.steps, options.processes, options.stop_after)


if __name__ == "__main__":
    raise SystemExit(main())
