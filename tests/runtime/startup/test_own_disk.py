"""Checkpoints and savepoints on the pod's own disk are refused before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.runtime.startup import own_disk
from streamjob.runtime.startup.own_disk import (
    StorageNotOnVolume,
    mount_point,
    refuse_own_disk,
    warn_of_own_disk,
)

IN_POD = {"POD_NAME": "orders-driver-1"}
MOUNTED = "/proc/checkpoints"  # a mount of every Linux, and nothing is there


def settings(checkpoints: str, savepoints: str = f"file://{MOUNTED}") -> DriverConfig:
    return DriverConfig(
        job=JobRef("shop", "orders", "uid"),
        epoch=1,
        application=Application("/app/orders.py"),
        checkpoints=checkpoints,
        eviction_savepoint=f"{savepoints}/eviction-1",
    )


def on_hdfs(uri: str) -> str:
    """As `HadoopFiles.qualify`, where Hadoop's default file system is another one than the local disk."""
    return f"hdfs://nn{uri}" if uri.startswith("/") else uri


def on_disk(uri: str) -> str:
    return f"file:{uri}" if uri.startswith("/") else uri


@pytest.mark.parametrize(
    "uri",
    ["file:///etc/state", "file:/etc/state", "/etc/state", "file:///tmp/state", "file:///dev/shm/state"],
)
def test_the_pods_own_disk_is_refused(uri: str) -> None:
    with pytest.raises(StorageNotOnVolume, match=r"spec\.storage\.checkpoints is on no volume") as e:
        refuse_own_disk(settings(uri), IN_POD, on_disk)
    assert not e.value.retryable
    assert "volumeMounts" in e.value.remedy
    assert "make the StreamJob again" in e.value.remedy, "the field cannot change"
    with pytest.raises(StorageNotOnVolume, match=r"spec\.storage\.savepoints"):
        refuse_own_disk(settings(MOUNTED, uri), IN_POD, on_disk)
    refuse_own_disk(settings(uri), {}, on_disk)  # on a laptop


@pytest.mark.parametrize("uri", [f"file://{MOUNTED}", MOUNTED, "s3a://bucket/state", "hdfs://etc/state"])
def test_other_places_are_not(uri: str) -> None:
    refuse_own_disk(settings(uri), IN_POD, on_disk)


def test_a_path_is_judged_when_its_file_system_is_known() -> None:
    """The image, its core-site.xml or the script may set the default one: before the script nobody knows."""
    refuse_own_disk(settings("/etc/state"), IN_POD)
    refuse_own_disk(settings("/etc/state"), IN_POD, on_hdfs)


def test_the_path_that_is_meant_is_said() -> None:
    with pytest.raises(StorageNotOnVolume, match="file://etc/state, which is /state, would be lost"):
        refuse_own_disk(settings("file://etc/state"), IN_POD)


def test_a_scripts_own_location_is_warned_of() -> None:
    (problem,) = warn_of_own_disk("sums", "file:/etc/state", IN_POD)
    assert "the checkpointLocation of query 'sums' is on no volume: /etc/state" in problem.message
    assert not warn_of_own_disk("sums", f"file:{MOUNTED}", IN_POD)
    assert not warn_of_own_disk("sums", "s3a://bucket/state", IN_POD)
    assert not warn_of_own_disk("sums", "file:/etc/state", {})


@pytest.mark.parametrize("mounts", ["", "612 530 0:141", "612 530 0:141 / /data rw - ext4 /dev/sda1 rw"])
def test_what_is_not_known_is_not_refused(mounts: str) -> None:
    assert mount_point(Path("/etc/state"), mounts) is None


def test_the_name_of_another_mount_may_have_any_character() -> None:
    odd = "641 612 8:1 /v /mnt/a\x85b\rc\u2028d rw - ext4 /dev/sda1 rw"
    assert mount_point(Path("/mnt/more room/state"), f"{odd}\n{IN_A_POD}") == Path("/mnt/more room")


def test_a_list_that_cannot_be_read_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_disk, "MOUNTS", tmp_path / "none")
    refuse_own_disk(settings("file:///etc/state"), IN_POD)
    (tmp_path / "bytes").write_bytes(b"641 612 8:1 /v /mnt/caf\xe9 rw - ext4 /dev/sda1 rw\n")
    monkeypatch.setattr(own_disk, "MOUNTS", tmp_path / "bytes")
    refuse_own_disk(settings("file:///etc/state"), IN_POD)


def test_what_need_not_be_there_has_a_mount_point(tmp_path: Path) -> None:
    assert mount_point(Path(MOUNTED, "a", "b")) == Path("/proc")
    point = mount_point(tmp_path / "a")
    assert point is not None
    assert os.path.ismount(point)


# Of a pod: both volumes are on the node's disk (8:1).
IN_A_POD = r"""
612 530 0:141 / / rw,relatime - overlay overlay rw
640 612 8:1 /pods/u/volumes/kubernetes.io~empty-dir/streamjob-tmp /tmp rw,relatime - ext4 /dev/sda1 rw
641 640 8:1 /volumes/orders /tmp/orders rw,relatime - ext4 /dev/sda1 rw
642 612 8:1 /volumes/more /mnt/more\040room rw,relatime - ext4 /dev/sda1 rw
""".strip()


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/tmp/orders/state", "/tmp/orders"),
        ("/tmp/ordersx", "/tmp"),
        ("/tmp/state", "/tmp"),
        ("/mnt/more room/state", "/mnt/more room"),
        ("/mnt/state", "/"),
    ],
)
def test_a_volume_may_be_on_the_disk_of_what_it_is_mounted_in(path: str, point: str) -> None:
    assert mount_point(Path(path), IN_A_POD) == Path(point)
