"""Spellings of one place have one form, and places that differ have two."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamjob.storage.file_systems import canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/data/out", "file:///data/out/"),
        ("file:/data/out", "file://localhost/data/in/../out"),
        ("s3a://shop/out", "s3://shop/out/"),
        ("s3a://shop/out", "S3N://shop/out"),
        ("hdfs://names:8020/out", "hdfs://NAMES/out"),
        ("abfss://box@shop.dfs.core.windows.net/out", "abfss://box@shop.dfs.core.windows.net/out/"),
        ("gs://shop", "gs://shop/"),
    ],
)
def test_spellings_of_one_place(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("file:/data/out", "file:/data/Out"),
        ("file:/data/out", "file:/data/out%20"),
        ("s3a://shop/out", "s3a://other/out"),
        ("s3a://shop/out", "gs://shop/out"),
        ("hdfs://names:8020/out", "hdfs://names:9000/out"),
        ("abfss://box@shop.dfs.core.windows.net/out", "abfss://crate@shop.dfs.core.windows.net/out"),
    ],
)
def test_places_that_differ(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


def test_links_are_followed_also_above_what_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    assert canonical(f"file:{tmp_path}/data/day=*/out") == f"file:{tmp_path.resolve()}/disk/day=*/out"


def test_a_form_is_its_own_form() -> None:
    for uri in ("file:/data/out", "s3://shop/out/", "hdfs://NAMES/out"):
        assert canonical(canonical(uri)) == canonical(uri)
