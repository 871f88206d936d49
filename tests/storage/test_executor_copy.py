"""Copies by executors: when, in which portions, and what one of them does.

`tests/spark/test_executors.py` has real ones.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamjob.protocol.formats.manifest import is_shared_name
from streamjob.storage.executor_copy import BATCH, BATCHES_PER_SLOT, ENOUGH, batched, worth_it
from streamjob.storage.executor_task import CopyOrder, Witness, copy_batches


@pytest.mark.parametrize(
    ("master", "executors", "total", "expected"),
    [
        ("k8s://https://kubernetes.default.svc", 2, ENOUGH, True),
        ("local-cluster[2,1,1024]", 2, ENOUGH, True),
        (
            "k8s://https://kubernetes.default.svc",
            2,
            ENOUGH - 1,
            False,
        ),  # the driver is done before they begin
        ("k8s://https://kubernetes.default.svc", 0, ENOUGH, False),  # nobody would run the tasks
        ("local[*]", 1, ENOUGH, False),  # the driver itself
        ("local", 1, ENOUGH, False),
    ],
)
def test_when_it_is_worth_it(master: str, executors: int, total: int, expected: bool) -> None:
    assert worth_it(master, executors, total) == expected


def orders(*sizes: int) -> list[CopyOrder]:
    return [CopyOrder(f"/a/{n}", f"/b/{n}", size) for n, size in enumerate(sizes)]


def test_every_file_is_dealt_once_and_evenly() -> None:
    files = orders(*[64 << 20] * 40, *[2000] * 800, 500 << 20)
    batches = batched(files, slots=4)
    assert sorted((o for b in batches for o in b), key=lambda o: o.source) == sorted(
        files, key=lambda o: o.source
    )
    sizes = [sum(o.size for o in b) for b in batches]
    assert len(batches) == 4 * BATCHES_PER_SLOT
    assert max(sizes) == 500 << 20  # one file
    assert sorted(sizes)[-2] <= 192 << 20  # of the others none has two files more than another


def test_a_batch_is_small_however_few_slots_there_are() -> None:
    batches = batched(orders(*[64 << 20] * 1000), slots=1)
    assert max(sum(o.size for o in b) for b in batches) <= BATCH
    assert len(batched(orders(1, 1), slots=8)) == 2


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "begun.json").write_bytes(b"attempt 1")
    for n in range(20):
        (tmp_path / f"source-{n}").write_bytes(os.urandom(10_000))
    return tmp_path


def batch(volume: Path) -> list[tuple[CopyOrder, ...]]:
    return [tuple(CopyOrder(f"{volume}/source-{n}", f"{volume}/shared/{n}", 10_000) for n in range(20))]


def witness(volume: Path, content: bytes = b"attempt 1") -> Witness:
    return Witness(f"{volume}/begun.json", content)


def test_what_is_copied_is_told_with_its_hash(volume: Path) -> None:
    done = list(copy_batches(witness(volume), batch(volume)))
    assert {d.failed for d in done} == {""}
    for found in done:
        data = Path(found.source).read_bytes()
        assert Path(found.target).read_bytes() == data
        assert (found.size, found.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_the_same_files_at_once_and_again(volume: Path) -> None:
    """Spark runs a task again, also while the first attempt, on an executor that it has lost, continues."""
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: list(copy_batches(witness(volume), batch(volume))), range(8)))
    assert all(one == found[0] for one in found)
    assert {p.name for p in (volume / "shared").iterdir()} == {str(n) for n in range(20)}


def test_what_is_at_its_place_is_never_half_a_file(volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that nobody waits for any more comes late and dies in the middle."""
    list(copy_batches(witness(volume), batch(volume)))
    before = {p.name: p.read_bytes() for p in (volume / "shared").iterdir()}

    class Killed(BaseException):
        pass

    def die(descriptor: int) -> None:
        raise Killed

    monkeypatch.setattr(os, "fsync", die)
    with pytest.raises(Killed):
        list(copy_batches(witness(volume), batch(volume)))
    after = {p.name: p.read_bytes() for p in (volume / "shared").iterdir()}
    (left,) = after.keys() - before.keys()
    assert is_shared_name(left)  # so the next sweep takes it
    assert {name: after[name] for name in before} == before


def test_a_folder_of_the_same_name_is_not_the_volume(volume: Path) -> None:
    """Without it an executor that has the path as a folder of its own would write where nobody looks."""
    for other in (witness(volume, b"attempt 2"), Witness(f"{volume}/none", b"attempt 1")):
        done = list(copy_batches(other, batch(volume)))
        assert all("does not see" in d.failed for d in done)
        assert not (volume / "shared").exists()


def test_one_that_cannot_be_copied_holds_up_no_other(volume: Path) -> None:
    (volume / "source-3").unlink()
    done = list(copy_batches(witness(volume), batch(volume)))
    assert [d.source for d in done if d.failed] == [f"{volume}/source-3"]
    assert {p.name for p in (volume / "shared").iterdir()} == {str(n) for n in range(20) if n != 3}


def test_what_an_executor_imports_is_small() -> None:
    """Each of its Pythons does, before the first byte."""
    code = (
        "import sys, streamjob.storage.executor_task; sys.exit('pyspark' in sys.modules or 'py4j' in "
        "sys.modules)"
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    assert subprocess.run([sys.executable, "-c", code], env=paths, check=False).returncode == 0
