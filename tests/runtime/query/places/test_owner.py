"""The record of the query that has a place to itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamjob.runtime.query.places.owner import NAME, Owner, owner_of, taken

from ...localfiles import LocalFiles

FILES: Any = LocalFiles()
ME = Owner("streamjob.owner", 1, "shop/orders", "uid-1", "file:/chk", "counts", "file:/chk/counts/0")


def fail(log: Path) -> None:
    """Spark refuses the query that starts there."""
    with taken(FILES, f"file:{log}", ME, None) as faster:
        assert faster is None
        assert owner_of(FILES, f"file:{log}") == ME
        raise ValueError("output mode complete is not supported")


def test_the_place_of_a_query_that_spark_refuses_is_gone_again(tmp_path: Path) -> None:
    """With a log, even an empty one, readers of the folder would see no file that it does not name."""
    log = tmp_path / "out" / "_spark_metadata"
    with pytest.raises(ValueError, match="complete"):
        fail(log)
    assert not log.exists()


def test_a_log_that_was_there_stays_when_a_query_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "0").touch()
    with pytest.raises(ValueError, match="complete"):
        fail(log)
    assert (log / "0").exists()


def test_the_place_of_a_query_that_has_started_is_its_own(tmp_path: Path) -> None:
    log = tmp_path / "out" / "_spark_metadata"
    with taken(FILES, f"file:{log}", ME, None) as faster:
        assert faster is None
    assert owner_of(FILES, f"file:{log}") == ME
    assert (log / NAME).exists()
