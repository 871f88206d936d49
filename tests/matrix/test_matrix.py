"""Every source with every end and every trigger. One case, another one at each commit, is in the gate."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.broker import Kafka
from tests import gate

from . import ends
from .cases import CASES, Case
from .sources import Sources

SEED = gate.seed()
CHOSEN = random.Random(SEED).choice(CASES)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    broker = Kafka(tmp_path_factory.mktemp("broker") / "kafka")
    yield broker
    broker.stop()


@pytest.mark.spark
@pytest.mark.any_spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=str(c), marks=[] if c == CHOSEN else [pytest.mark.slow]) for c in CASES],
)
def test_nothing_is_missing_and_nothing_twice(
    case: Case, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    broker = request.getfixturevalue("kafka") if case.group == "kafka" else None
    problems = ends.go(Sources(tmp_path / str(case), case, broker), case, SEED)
    assert not problems, "\n".join([f"python -m tests.matrix {case} --seed {SEED}", *problems])


def test_a_lost_a_repeated_and_a_misplaced_row_are_noticed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    windows = {1767225600 + n * 300: list(range(n * 10, n * 10 + 10)) for n in range(20)}
    ends_with = write(out, windows)
    assert ends.wrong("kafka", ends_with, everything=True) == []
    windows[1767225600].remove(4)
    assert ends.wrong("kafka", write(out, windows), everything=False)[0].startswith("missing: ")
    windows[1767225600] += [4, 5]
    assert ends.wrong("kafka", write(out, windows), everything=True) == ["twice: [5]"]
    windows[1767225600] = list(range(9))
    windows[1767225900].append(9)
    assert ends.wrong("kafka", write(out, windows), everything=True) == [
        "window 1767225900 has rows of another: [9]"
    ]
    del windows[max(windows)]
    assert "missing: [190" in "".join(ends.wrong("kafka", write(out, windows), everything=True))


def write(out: Path, windows: dict[int, list[int]]) -> Path:
    """As Spark's sink does."""
    (out / "_spark_metadata").mkdir(parents=True, exist_ok=True)
    (out / "part-0.json").write_text(
        "".join(json.dumps({"start": start, "ids": ids}) + "\n" for start, ids in windows.items())
    )
    entry = json.dumps({"path": f"file://{out}/part-0.json"})
    (out / "_spark_metadata" / "0").write_text(f"v1\n{entry}\n")
    return out
