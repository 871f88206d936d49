"""Driver-side state and its batches: kept exactly with those that are committed, whatever an attempt has left
behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from streamjob import job, state
from streamjob.protocol.errors import StreamJobError
from streamjob.protocol.formats import driver_state as formats
from streamjob.protocol.formats.records import OperatorKind
from streamjob.runtime.query import driver_state
from streamjob.runtime.query.driver_state import StateManager, StateNotKept, StateTooLarge
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.foreach_batch.function import BatchFunction
from streamjob.runtime.startup.checks.declarations import QueryNotStarted, refuse_unknown
from streamjob.storage.hadoop import FileExists, FileInfo, NotFound, StorageError

ROOT = "file:/checkpoint"


class Storage:
    """A file system in memory. `full`: nothing can be written."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.full = False
        self.spark = self
        self.conf = {"spark.sql.streaming.minBatchesToRetain": "10"}

    def list(self, uri: str) -> list[FileInfo]:
        found = [p.removeprefix(f"{uri}/") for p in self.content if p.startswith(f"{uri}/")]
        if not found:
            raise NotFound(uri, "list", "no such directory")
        return [FileInfo(p, 1, False) for p in found]

    def read_bytes(self, uri: str, limit: int) -> bytes:
        return self.content[uri]

    def write_new(self, uri: str, data: bytes) -> None:
        if uri in self.content:
            raise FileExists(uri, "write", "it exists")
        if self.full:
            raise StorageError(uri, "write", "no space left")
        self.content[uri] = data

    def delete(self, uri: str) -> None:
        self.content.pop(uri, None)

    def commit(self, batch: int) -> None:
        self.content[f"{ROOT}/commits/{batch}"] = b"v1"

    @property
    def batches(self) -> Sequence[int]:
        folder = f"{ROOT}/{formats.FOLDER}/"
        return sorted(int(p[len(folder) : -5]) for p in self.content if p.startswith(folder))


class Query:
    """A driver and its query. `run` is one batch, committed unless the driver dies before."""

    def __init__(self, storage: Storage, monkeypatch: pytest.MonkeyPatch, dealt: object = None) -> None:
        monkeypatch.setattr(state, "_states", {})
        monkeypatch.setattr(StateManager, "sizes", {})
        self.storage = storage
        self.seen = job.list_state("seen")
        self.rules = job.broadcast_state("rules")
        self.rules.append("initial")
        self.do: Callable[[int], object] = lambda batch: self.seen.append(f"b{batch}")
        self.saw: list[str] = []
        self.function = BatchFunction(self._each_batch)
        self._dealt = dealt
        self.start()

    def start(self) -> None:
        directory = CheckpointDir(self.storage, ROOT)  # type: ignore[arg-type]
        manager = driver_state.keep(directory, "main", self.function, self._dealt)  # type: ignore[arg-type]
        assert manager is not None
        self.manager = manager

    def run(self, *batches: int, commit: bool = True) -> None:
        for batch in batches:
            self.function(None, batch)  # type: ignore[arg-type]
            if commit:
                self.storage.commit(batch)

    def _each_batch(self, frame: object, batch: int) -> None:
        self.saw = list(self.seen)
        self.do(batch)


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
def query(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Query:
    return Query(storage, monkeypatch)


def test_row9_the_next_driver_goes_on_with_the_state_of_the_last_committed_batch(
    storage: Storage, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(0, 1)
    later = Query(storage, monkeypatch)
    assert list(later.seen) == ["b0", "b1"], "seen as soon as the query has started"
    later.run(2)
    assert later.saw == ["b0", "b1"]
    assert list(later.rules) == ["initial"]


@pytest.mark.parametrize("after_restart", [True, False])
@pytest.mark.parametrize("persisted", [True, False])
def test_row9_a_batch_that_is_run_again_begins_as_the_first_time(
    storage: Storage, query: Query, monkeypatch: pytest.MonkeyPatch, persisted: bool, after_restart: bool
) -> None:
    query.run(0)
    if persisted:
        query.run(1, commit=False)
    else:
        query.do = lambda batch: (query.seen.append("half"), 1 / 0)
        with pytest.raises(ZeroDivisionError):
            query.run(1)
    again = Query(storage, monkeypatch) if after_restart else query
    again.do = lambda batch: again.seen.append("second time")
    again.run(1, 2)
    assert again.saw == ["b0", "second time"]
    assert again.manager.as_of(1)["seen"] == ("b0", "second time")


def test_row9_what_an_attempt_left_is_gone_when_the_batch_changes_nothing_the_next_time(
    storage: Storage, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(0)
    query.run(1, commit=False)
    again = Query(storage, monkeypatch)
    again.do = lambda batch: None
    again.run(1, 2)
    assert again.saw == ["b0"]
    assert storage.batches == [0]
    assert list(Query(storage, monkeypatch).seen) == ["b0"]


def test_a_file_is_written_only_when_the_state_has_changed_and_old_ones_go(
    storage: Storage, query: Query
) -> None:
    query.run(0)
    query.do = lambda batch: None
    query.run(*range(1, 18))
    assert storage.batches == [0]
    query.do = lambda batch: query.seen.replace([str(batch)])
    query.run(18, 19)
    assert storage.batches == [0, 18, 19], "batches from 9 on can be resumed, and 0 has their state"
    query.run(*range(20, 31))
    assert storage.batches == list(range(20, 31))


def test_a_state_that_nobody_has_ever_filled_leaves_no_file(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(storage, monkeypatch)
    query.do = lambda batch: query.rules.clear()
    query.run(0, 1)
    assert storage.batches == []


def test_what_it_begins_with_is_kept_with_the_first_batch_and_yields_to_a_checkpoint(
    storage: Storage, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.do = lambda batch: None
    query.run(0)
    assert query.manager.as_of(0)["rules"] == ("initial",)
    query.do = lambda batch: query.rules.replace(["changed"])
    query.run(1)
    assert list(Query(storage, monkeypatch).rules) == ["changed"]


def test_row9_a_new_task_begins_with_what_is_dealt_out_to_it(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(storage, monkeypatch, dealt={"seen": ("from", "others")})
    assert query.manager.as_of(None)["seen"] == ("from", "others"), (
        "also if it is stopped before its first batch"
    )
    query.run(0)
    assert query.saw == ["from", "others"]
    assert list(query.rules) == ["initial"]


def test_row9_a_record_has_the_state_of_its_batch_not_that_of_now(storage: Storage, query: Query) -> None:
    assert query.manager.as_of(None) == {"seen": (), "rules": ("initial",)}
    query.run(0, 1, 2)
    assert query.manager.as_of(1) == {"seen": ("b0", "b1"), "rules": ("initial",)}
    assert query.manager.as_of(99)["seen"] == ("b0", "b1", "b2")
    kinds = {o.uid: (o.kind, o.finished) for o in query.manager.operators(finished=True)}
    assert kinds == {"seen": (OperatorKind.LIST, True), "rules": (OperatorKind.BROADCAST, True)}


def test_row9_union_state_is_recorded_as_union_state(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(storage, monkeypatch)
    job.union_state("offsets")
    query.start()
    recorded = query.manager.operators(finished=False)
    assert [o.uid for o in recorded if o.kind is OperatorKind.UNION] == ["offsets"]


def test_state_that_is_declared_no_more_is_not_lost(
    storage: Storage, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(0)
    monkeypatch.setattr(state, "_states", {})
    other, function = job.list_state("other"), BatchFunction(lambda frame, batch: other.append("x"))
    driver_state.keep(CheckpointDir(storage, ROOT), "main", function)  # type: ignore[arg-type]
    function(None, 1)  # type: ignore[arg-type]
    storage.commit(1)
    assert list(Query(storage, monkeypatch).seen) == ["b0"]


def test_a_writer_that_starts_again_has_its_steps_once(storage: Storage, query: Query) -> None:
    query.run(0)
    query.start()
    assert (len(query.function.before), len(query.function.after)) == (1, 1)
    query.run(1)
    assert query.saw == ["b0"]


def test_too_large_fails_the_batch_and_the_cause_is_remembered(storage: Storage, query: Query) -> None:
    query.run(0)
    query.do = lambda batch: query.seen.append("x" * formats.SIZE_LIMIT)
    with pytest.raises(StateTooLarge, match="'main'") as e:
        query.run(1)
    assert query.manager.failure is e.value
    assert storage.batches == [0]
    query.do = lambda batch: query.seen.append("small")
    query.run(1)
    assert query.saw == ["b0"]
    assert query.manager.failure is None


def test_the_bound_is_that_of_all_queries_together(storage: Storage, query: Query) -> None:
    StateManager.sizes["other"] = formats.SIZE_LIMIT - 20
    with pytest.raises(StateTooLarge, match="whole job"):
        query.run(0)


def test_a_full_disk_fails_the_batch_and_an_old_file_that_stays_does_not(
    storage: Storage, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.full = True
    with pytest.raises(StorageError):
        query.run(0)
    assert isinstance(query.manager.failure, StorageError)
    storage.full = False

    def refuse(uri: str) -> None:
        raise StorageError(uri, "delete", "not now")

    monkeypatch.setattr(storage, "delete", refuse)
    query.run(*range(20))
    assert len(storage.batches) == 20


def test_state_of_a_query_without_a_function_is_refused(storage: Storage, query: Query) -> None:
    directory = CheckpointDir(storage, ROOT)  # type: ignore[arg-type]
    with pytest.raises(StateNotKept, match="foreachBatch"):
        driver_state.keep(directory, "main", None)
    assert driver_state.keep(directory, "another", None) is None


def test_what_is_declared_for_no_query_is_refused_by_name(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_unknown(["main"], ["main"])
    monkeypatch.setattr(job, "_edges", {})
    job.edge("clean", "widows")
    with pytest.raises(QueryNotStarted, match=r"'widows'.*has started main, clean") as e:
        refuse_unknown(["main", "clean"], ["main", "clean"])
    assert isinstance(e.value, StreamJobError)
    refuse_unknown(["clean", "widows"], ["main", "widows/0"])
    job.list_state("late")
    with pytest.raises(StateNotKept, match="'late'"):
        refuse_unknown(["clean", "widows"], ["main", "widows/0"])
    job.list_state("late").hold()
    job.list_state("seen", "mian")
    with pytest.raises(QueryNotStarted, match="'mian'"):
        refuse_unknown(["clean", "widows"], ["main", "widows/0"])
