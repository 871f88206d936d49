"""Which of Flink's figures stands beside which of ours."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from dev.bench.figures import Comparison, Figures, number, spread
from dev.bench.flink.library import VERSION
from dev.bench.flink.names import (
    CANONICAL,
    DRAIN,
    NATIVE,
    ROWS_OUT,
    complete,
    ended,
    loaded,
    running,
    stop,
)

# By our figure: Flink's, by kind. A drain has one kind only: no window is left for its savepoint.
PAIRS: dict[str, dict[str, str]] = {
    "stop: request to savepoint complete": {kind: complete(stop(kind)) for kind in (CANONICAL, NATIVE)},
    "stop: request to end of the process": {kind: ended(stop(kind)) for kind in (CANONICAL, NATIVE)},
    "resume: process start to running (a JVM's start included)": {k: running(k) for k in (CANONICAL, NATIVE)},
    "resume: process start to first commit": {kind: loaded(kind) for kind in (CANONICAL, NATIVE)},
    "resume: query start to running": {kind: running(kind) for kind in (CANONICAL, NATIVE)},
    "resume: query start to first commit": {kind: loaded(kind) for kind in (CANONICAL, NATIVE)},
    **{
        f"{drain}: request to {what}": {"": theirs}
        for drain in ("drain", "drain, rows not counted")
        for what, theirs in (
            ("every window out", ROWS_OUT),
            ("savepoint complete", complete(DRAIN)),
            ("end of the process", ended(DRAIN)),
        )
    },
}
# Minimum, median and maximum of one day: Flink 2.3.0 on 2 cores, a warm standalone cluster, a DataStream job.
RECORDED: dict[int, dict[str, tuple[float, float, float]]] = {
    1_000: {
        complete(stop(CANONICAL)): (0.025, 0.035, 0.092),
        ended(stop(CANONICAL)): (0.044, 0.064, 0.180),
        running(CANONICAL): (0.269, 0.300, 0.662),
        ended(DRAIN): (0.047, 0.083, 0.202),
    },
    1_000_000: {
        complete(stop(CANONICAL)): (0.660, 0.677, 0.739),
        complete(stop(NATIVE)): (0.106, 0.143, 0.143),
        ended(stop(CANONICAL)): (0.713, 0.733, 0.780),
        ended(stop(NATIVE)): (0.196, 0.219, 0.285),
        running(CANONICAL): (3.66, 3.96, 4.31),
        running(NATIVE): (0.427, 0.480, 0.750),
        loaded(CANONICAL): (4.34, 4.70, 5.04),
        ROWS_OUT: (4.19, 4.31, 5.15),
        ended(DRAIN): (4.39, 5.18, 5.35),
    },
}


def measured(ours: Figures, flink: Figures) -> Comparison:
    """Flink's figures of the same runs, and ours as multiples of them: the median of the ratios of each run,
    because what else the machine does falls on both halves of a run.
    """
    ratios = {
        name: "; ".join(_ratio(ours.samples[name], flink.samples[theirs]) for theirs in pair.values())
        for name, pair in PAIRS.items()
    }
    return Comparison(f"Flink {VERSION}", _values(flink.samples), ratios)


def recorded(keys: int) -> Comparison:
    """Flink's figures of another day. There are no ratios: the machine was not as it is now."""
    return Comparison("Flink 2.3.0, recorded on another day", _values(RECORDED.get(keys, {})), None)


def _values(flink: Mapping[str, Sequence[float]]) -> dict[str, str]:
    return {
        name: "; ".join(
            f"{label} {spread(flink[theirs])}".lstrip() for label, theirs in pair.items() if theirs in flink
        )
        for name, pair in PAIRS.items()
    }


def _ratio(ours: list[float], flink: list[float]) -> str:
    return number(statistics.median(a / b for a, b in zip(ours, flink, strict=True)))
