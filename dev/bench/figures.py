"""A table of figures: minimum, median and maximum of each, and Flink's value for the same."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass
class Figures:
    """Samples by name, in the order in which the names were first added."""

    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.samples.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.samples[name])

    def rows(self, flink: dict[str, str]) -> list[str]:
        """Markdown rows: name, samples, min / median / max, Flink's."""
        return [
            f"| {name} | {len(v)} | {' / '.join(_number(f(v)) for f in (min, statistics.median, max))} | "
            f"{flink.get(name, '')} |"
            for name, v in self.samples.items()
        ]


def _number(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"
