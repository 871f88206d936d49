"""Files of driver-side state: which one holds for a batch, and which ones nobody needs any more."""

from __future__ import annotations

import json

import pytest

from streamjob.protocol.errors import FormatError, UnknownVersion
from streamjob.protocol.formats import driver_state

ENTRIES = {"seen": ("a", "ü\n"), "rules": ()}


def test_what_is_written_is_read() -> None:
    data = driver_state.dumps(7, ENTRIES)
    assert driver_state.loads(data, "7.json") == ENTRIES
    assert json.loads(data)["batch"] == 7


@pytest.mark.parametrize(
    "broken", [b"", b'{"format"', b"[]", b'{"format": "streamjob.savepoint", "version": 2}']
)
def test_what_is_no_such_file_is_refused_by_its_name(broken: bytes) -> None:
    with pytest.raises(FormatError, match=r"7\.json"):
        driver_state.loads(broken, "7.json")


def test_a_newer_version_is_refused() -> None:
    newer = driver_state.dumps(7, ENTRIES).replace(b'"version":1', b'"version":2')
    with pytest.raises(UnknownVersion, match="Upgrade"):
        driver_state.loads(newer, "7.json")


def test_an_entry_that_is_no_string_is_refused() -> None:
    with pytest.raises(FormatError, match=r"7\.json"):
        driver_state.loads(driver_state.dumps(7, {"seen": (1,)}), "7.json")  # type: ignore[dict-item]


def test_only_whole_files_count() -> None:
    assert driver_state.batches(["0.json", "12.json", ".13.json.ab.tmp", ".12.json.crc", "14"]) == {0, 12}


@pytest.mark.parametrize(("batch", "newest"), [(-1, None), (2, None), (3, 3), (8, 3), (9, 9), (100, 9)])
def test_row9_the_state_after_a_batch_is_in_the_newest_file_up_to_it(batch: int, newest: int | None) -> None:
    assert driver_state.newest([9, 3], batch) == newest


@pytest.mark.parametrize(
    ("files", "gone"),
    [
        (range(200, 301), []),
        (range(190, 301), list(range(190, 200))),
        ([5, 150, 300], [5]),  # 150 has the state after batch 200
        ([5, 300], []),  # 5 has it
        ([300], []),
        ([150, 200, 301], [150]),
    ],
)
def test_files_stay_that_a_batch_needs_which_can_be_resumed(files: list[int], gone: list[int]) -> None:
    assert driver_state.superfluous(files, 300, 100) == gone
