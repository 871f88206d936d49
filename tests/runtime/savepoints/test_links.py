"""Nothing is read through a link that lies in a checkpoint directory or a savepoint.

No JVM: a disk is read without one.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from streamjob.storage.errors import LinkFound
from streamjob.storage.file_systems import FileSystems
from streamjob.storage.listing import Listing


@pytest.fixture
def listing() -> Listing:
    return Listing(FileSystems(MagicMock(), None))


@pytest.mark.parametrize("to", ["/var/run/streamjob", "/etc/passwd", "nowhere", "."])
@pytest.mark.parametrize("where", ["0", "state/0/1.delta"])
def test_a_link_is_refused_by_its_name(listing: Listing, tmp_path: Path, where: str, to: str) -> None:
    link = tmp_path / where
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(to)
    with pytest.raises(LinkFound, match=f"{link.name} is a link"):
        listing.of(f"file:{tmp_path}", recursive=True)


def test_the_way_to_a_directory_may_be_one(listing: Listing, tmp_path: Path) -> None:
    """It is the user who says where state is."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "0").write_text("v1")
    (tmp_path / "data").symlink_to("real")
    assert [f.path for f in listing.of(f"file:{tmp_path}/data", recursive=True)] == ["0"]
