"""A table of figures: minimum, median and maximum of each, and beside them those of another system."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Comparison(NamedTuple):
    """Another system's values by our figures.

    :param title: of its column.
    :param ratios: our value as a multiple of its value, or None if both are not of one run.
    """

    title: str
    values: dict[str, str]
    ratios: dict[str, str] | None


@dataclass
class Figures:
    """Samples by name, in the order in which the names were first added."""

    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.samples.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return statistics.median(self.samples[name])

    def table(self, beside: Comparison | None = None) -> list[str]:
        """Lines of Markdown: name, samples, min / median / max, the other system's value, the ratio."""
        rows = [["figure", "samples", "min / median / max"]]
        rows += [[name, str(len(v)), spread(v)] for name, v in self.samples.items()]
        if beside is not None:
            _append(rows, beside.title, beside.values)
            if beside.ratios is not None:
                _append(rows, "ours / theirs", beside.ratios)
        head, *lines = ["|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in rows]
        return [head, "|---" * len(rows[0]) + "|", *lines]


def spread(values: Sequence[float]) -> str:
    return " / ".join(number(of(values)) for of in (min, statistics.median, max))


def number(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def _append(rows: list[list[str]], title: str, values: dict[str, str]) -> None:
    """Append a column to the rows, of which the first is the head."""
    for row in rows[1:]:
        row.append(values.get(row[0], ""))
    rows[0].append(title)
