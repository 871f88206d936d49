"""Stages with parallelism above 1, without the runtime."""

from __future__ import annotations

import pytest

from streamjob import job, shards
from streamjob.protocol.formats import splits
from streamjob.shards import BadShards


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_assigner", shards.Alone())
    monkeypatch.setattr(
        shards, "_files_in", lambda folder: [splits.file(f"{folder}/{name}") for name in "ab"]
    )


def test_a_second_folder_of_a_stage_is_refused() -> None:
    """Its share would be that of the first folder, which would be read twice and the second one never."""
    first, second = job.shards("orders", 2)
    path = first.files("/data/2025")
    assert second.files("/data/2025/") != path
    with pytest.raises(BadShards, match="'orders' reads the files of /data/2025, and of /data/2026 too"):
        first.files("/data/2026")
    assert job.shards("clicks", 2)[0].files("/data/2026")


def test_a_stage_that_is_declared_again_may_have_another_folder() -> None:
    job.shards("orders", 2)[0].files("/data/2025")
    assert job.shards("orders", 3)[0].files("/data/2026")
