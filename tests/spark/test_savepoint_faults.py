"""Storage faults S1 to S8 on a local volume and on S3: a clear error that names the file, nothing half
written listed as good, and a repeat that succeeds once the cause is gone.
`tests/runtime/savepoints/test_shared_files.py` has S1 and S7 at every operation, without a JVM.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.errors import FormatError, StreamJobError, UnknownVersion
from streamjob.protocol.formats import manifest as manifests
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.runtime.savepoints.catalog import delete_savepoint, export, list_savepoints
from streamjob.runtime.savepoints.describe import describe_savepoint
from streamjob.runtime.savepoints.layout import SavepointBroken, read_manifest, verify_savepoint
from streamjob.runtime.savepoints.recover_records import known_records
from streamjob.runtime.savepoints.restore import restore
from streamjob.storage import parallel
from streamjob.storage.hadoop import AccessDenied, CopiedFile, HadoopFiles, NotFound, StorageFull
from tests.runtime.disks import Storage, remount, small_disk
from tests.runtime.queries import JOB, STAGE, Query, contents

pytestmark = pytest.mark.any_spark

Before = Callable[[str], None]


class FaultyFiles(HadoopFiles):
    """Calls `before` with the URI of each file that is copied or written."""

    before: Before = staticmethod(lambda uri: None)

    def copy(self, source: str, target: str) -> CopiedFile:
        self.before(source)
        return super().copy(source, target)

    def write_new(self, uri: str, data: bytes) -> None:
        self.before(uri)
        super().write_new(uri, data)


class Killed(BaseException):
    """As SIGKILL, no handler of errors holds it up."""


@pytest.fixture
def files(spark: SparkSession) -> FaultyFiles:
    return FaultyFiles(spark)


@pytest.fixture
def query(files: FaultyFiles, storage: Storage) -> Query:
    made = Query(files, storage.folder, storage=storage)
    made.batch()
    made.save("one")
    made.batch()
    return made


def state_of(query: Query, pattern: str = "state/0/0/*.delta") -> Path:
    return sorted(query.folder.glob(pattern))[-1]


def bad(query: Query) -> set[str]:
    return {s.uri for s in list_savepoints(query.files, query.storage.uri(query.root)) if s.problem}


def test_s1_killed_at_every_file(query: Query, files: FaultyFiles) -> None:
    for number in range(100):
        left = iter(range(number))

        def die(_: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Killed

        files.before = die
        try:
            query.save("two")
            break
        except Killed:
            files.before = staticmethod(lambda uri: None)
            assert bad(query) == ({query.uri("two")} if number else set())
            assert verify_savepoint(files, query.uri("one")) == []
            query._saved -= 1
    files.before = staticmethod(lambda uri: None)
    assert number > 8
    assert bad(query) == set()
    assert verify_savepoint(files, query.uri("two")) == []
    assert len(query.shared()) == 4  # nothing that the dead ones had copied is left


@pytest.mark.parametrize("damage", ["cut off", "bit flipped", "empty"])
def test_s2_a_damaged_manifest(query: Query, files: FaultyFiles, damage: str) -> None:
    place = query.root / "one" / manifests.NAME
    data = place.read_bytes()
    flipped = data.replace(b'"batch": 0', b'"batch": 1')  # well-formed, and wrong
    assert flipped != data
    place.write_bytes({"cut off": data[:-9], "bit flipped": flipped, "empty": b""}[damage])
    refused_by_all(query, "one", FormatError)
    assert bad(query) == {query.uri("one")}
    query.save("two")  # takes nothing from it
    assert verify_savepoint(files, query.uri("two")) == []


def refused_by_all(query: Query, name: str, error: type[StreamJobError]) -> None:
    files, uri = query.files, query.uri(name)
    for ask in (
        lambda: read_manifest(files, uri),
        lambda: verify_savepoint(files, uri),
        lambda: describe_savepoint(files, uri),
        lambda: export(files, uri, query.at("export")),
        lambda: restore(files, uri, STAGE, 0, query.at("new")),
    ):
        with pytest.raises(error, match=manifests.NAME):
            ask()
    assert not (query.home / "export").exists()
    assert not (query.home / "new").exists()


def test_s3_a_missing_state_file(query: Query, files: FaultyFiles) -> None:
    name = next(
        e.shared for e in read_manifest(files, query.uri("one")).files if e.path.endswith("0/1/1.delta")
    )
    query.save("two")
    (query.root / "shared" / str(name)).unlink()
    for savepoint in ("one", "two"):
        (problem,) = verify_savepoint(files, query.uri(savepoint))
        assert problem == f"stages/{STAGE}/0/state/0/1/1.delta (shared/{name}) is missing"
        with pytest.raises(SavepointBroken, match=r"1\.delta"):
            query.restored(query.uri(savepoint), f"new-{savepoint}")
        assert not (query.home / f"new-{savepoint}" / "metadata").exists()
        with pytest.raises(SavepointBroken, match=r"1\.delta"):
            export(files, query.uri(savepoint), query.at(f"export-{savepoint}"))
        assert not (query.home / f"export-{savepoint}" / manifests.NAME).exists()
    query.save("three")  # copies it again
    assert verify_savepoint(files, query.uri("three")) == []


def test_s4_the_source_is_purged_while_it_is_copied(query: Query, files: FaultyFiles) -> None:
    victim = state_of(query)

    def purge(uri: str) -> None:
        if not uri.endswith(manifests.BEGUN):  # all is listed when the first file is copied
            victim.unlink(missing_ok=True)

    files.before = purge
    with pytest.raises(NotFound, match=victim.name):
        query.save("two")
    assert bad(query) == {query.uri("two")}
    query._saved -= 1
    query.save("two")  # what is left of the directory, as Spark's own purge leaves it
    assert bad(query) == set()
    assert query.restored(query.uri("two"), "again") == contents(query.folder)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk", "1m") as made:
        yield made


@pytest.mark.parametrize("storage", ["volume"], indirect=True)
def test_s5_full_or_denied(query: Query, files: FaultyFiles, disk: Path) -> None:
    """On S3: `test_s3.py`."""
    query.root = disk
    query.save("one")
    query.batch(size=1 << 20)
    with pytest.raises(StorageFull, match="No space left") as full:
        query.save("two")
    assert full.value.retryable
    assert "2.delta" in full.value.message or "3.delta" in full.value.message
    assert bad(query) == {query.uri("two")}
    query._saved -= 1
    remount(disk, "ro")
    with pytest.raises(AccessDenied, match="Read-only file system"):
        query.save("two")
    # Half of what fits now is taken by what the first attempt left: the repeat takes that away.
    remount(disk, "rw,size=3m")
    query._saved -= 1
    query.save("two")
    assert bad(query) == set()
    assert [verify_savepoint(files, query.uri(n)) for n in ("one", "two")] == [[], []]


def test_i2_what_the_savepoints_tell_of_a_lost_index(query: Query, files: FaultyFiles) -> None:
    """The driver reads their manifests again; one that was cut off, or never finished, tells nothing."""
    records = {1: read_manifest(files, query.uri("one")).checkpoint}
    for name in ("two", "three", "four"):
        written = query.save(name).checkpoint
        records[written.checkpoint] = written
    config = DriverConfig(
        job=JOB,
        epoch=3,
        application=Application(file="app.py"),
        checkpoints=query.at("checkpoints"),
        restore=Restore(latest=records[4]),
        eviction_savepoint=query.uri("eviction-3"),
    )
    assert known_records(files, config, 4, ()).records == tuple(records.values())
    damaged = query.root / "two" / manifests.NAME
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (query.root / "three" / manifests.NAME).unlink()
    found = known_records(files, config, 4, ())
    assert (found.reached, found.records) == (4, (records[1], records[4]))


def test_s6_slow_storage(query: Query, files: FaultyFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file hangs: the others are copied, progress is said, the savepoint is incomplete until it is
    through.
    """
    monkeypatch.setattr(parallel, "SAY_EVERY", 0)
    victim, reached, go_on = state_of(query), threading.Event(), threading.Event()

    def hang(uri: str) -> None:
        if uri.endswith(f"0/0/{victim.name}"):
            reached.set()
            assert go_on.wait(300)

    files.before = hang
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(query.save, "two")
        assert reached.wait(300)
        assert bad(query) == {query.uri("two")}
        assert not saving.done()
        go_on.set()
        saving.result(300)
    assert verify_savepoint(files, query.uri("two")) == []
    said: list[str] = []
    assert verify_savepoint(files, query.uri("two"), progress=said.append) == []
    assert said[-1] == f"checked {len(said)} of {len(said)} files"


def test_s7_two_at_once_to_one_target(query: Query, files: FaultyFiles) -> None:
    def save(request: str) -> str | None:
        try:
            query.save("two", request=request)
        except StreamJobError:
            return None
        return request

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(save, ["a", "b"]))
    (winner,) = [o for o in outcomes if o]
    assert read_manifest(files, query.uri("two")).checkpoint.request_id == winner
    assert verify_savepoint(files, query.uri("two")) == []


def test_s8_a_newer_format_is_refused_and_left_alone(query: Query, files: FaultyFiles) -> None:
    place = query.root / "one" / manifests.NAME
    newer = json.dumps({"format": manifests.FORMAT, "version": 3, "entirely": "different"})
    place.write_text(newer)
    refused_by_all(query, "one", UnknownVersion)
    with pytest.raises(UnknownVersion, match="Upgrade StreamJob"):
        query.save("one")
    assert place.read_text() == newer
    (listed,) = list_savepoints(files, query.uri("one").rpartition("/")[0])
    assert "version 3" in str(listed.problem)
    shared = query.shared()
    query.save("two")
    delete_savepoint(files, query.uri("two"))
    assert shared <= query.shared()  # who knows what the newer one has


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "file:///etc/passwd", "s3a://other/x", "a/../b", "a\0b", ""]
)
def test_no_path_leads_out(query: Query, path: str) -> None:
    place = query.root / "one" / manifests.NAME
    plain = json.loads(place.read_text())
    for field, value in (("path", path), ("shared", path or "..")):
        changed = json.loads(json.dumps(plain))
        changed["files"][0][field] = value
        place.write_text(json.dumps(changed))
        refused_by_all(query, "one", FormatError)
