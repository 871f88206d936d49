"""A savepoint is of its batch or there is none."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from streamjob.runtime.spark.checkpoint_dir import NotAtBoundary
from streamjob.storage.hadoop import FileInfo, NotFound

from ..localfiles import LocalFiles
from ..moments import Interrupted, each_moment
from ..queries import Query, contents


@pytest.fixture
def query(tmp_path: Path) -> Query:
    made = Query(LocalFiles(), tmp_path)
    made.batch()
    made.batch()
    return made


def test_a_savepoint_is_not_of_a_batch_that_the_directory_is_not_at(query: Query) -> None:
    query.write("offsets/2", "planned")
    with pytest.raises(NotAtBoundary):
        query.save("one")
    assert not (query.root / "one" / "manifest.json").exists()


def test_nor_of_one_that_goes_on_while_it_is_copied(tmp_path: Path) -> None:
    """At any moment: there is no manifest, or all was copied before."""

    def run(at: int) -> bool:
        files: Any = Interrupted()
        query = Query(files, tmp_path / str(at))
        query.batch()
        before = contents(query.folder)
        files.arm(at, lambda: query.write("offsets/1", "planned"))
        with contextlib.suppress(NotAtBoundary):
            query.save("one")
        happened = files.disarm()
        if (query.root / "one" / "manifest.json").exists():
            assert query.restored(query.uri("one"), "again") == before
        return happened

    assert each_moment(run) > 15


def test_a_folder_that_vanishes_while_it_is_listed_is_not_an_empty_one(tmp_path: Path) -> None:
    class Vanishing(LocalFiles):
        """Spark deletes a folder between the listing of the one above it and its own."""

        def list(self, uri: str, recursive: bool = False) -> list[FileInfo]:
            if uri.endswith("checkpoint") and recursive:
                raise NotFound(f"{uri}/state/0/1", "list", "it is not there")
            return super().list(uri, recursive)

    query = Query(Vanishing(), tmp_path)
    query.batch()
    with pytest.raises(NotAtBoundary, match="while it was listed") as refused:
        query.save("one")
    assert refused.value.retryable
    assert not (query.root / "one" / "manifest.json").exists()
