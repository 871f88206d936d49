"""Checkpoints and savepoints on the pod's own disk are refused before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.runtime.startup.own_disk import StorageNotOnVolume, mount_point, refuse_own_disk

IN_POD = {"POD_NAME": "orders-driver-1"}
MOUNTED = "/proc/checkpoints"  # a mount of every Linux, and nothing is there


def settings(checkpoints: str, savepoints: str = f"file://{MOUNTED}", **conf: str) -> DriverConfig:
    return DriverConfig(
        job=JobRef("shop", "orders", "uid"),
        epoch=1,
        application=Application("/app/orders.py"),
        checkpoints=checkpoints,
        eviction_savepoint=f"{savepoints}/eviction-1",
        spark_conf=conf,
    )


@pytest.mark.parametrize("uri", ["file:///etc/state", "file:/etc/state", "/etc/state", "file:///tmp/state"])
def test_the_pods_own_disk_is_refused(uri: str) -> None:
    with pytest.raises(StorageNotOnVolume, match=r"spec\.storage\.checkpoints is on no volume") as e:
        refuse_own_disk(settings(uri), IN_POD)
    assert not e.value.retryable
    assert "volumeMounts" in e.value.remedy
    with pytest.raises(StorageNotOnVolume, match=r"spec\.storage\.savepoints"):
        refuse_own_disk(settings(MOUNTED, uri), IN_POD)
    refuse_own_disk(settings(uri), {})  # on a laptop


@pytest.mark.parametrize("uri", [f"file://{MOUNTED}", MOUNTED, "s3a://bucket/state", "hdfs://etc/state"])
def test_other_places_are_not(uri: str) -> None:
    refuse_own_disk(settings(uri), IN_POD)


def test_a_path_may_be_on_another_file_system() -> None:
    refuse_own_disk(settings("/etc/state", **{"spark.hadoop.fs.defaultFS": "hdfs://nn"}), IN_POD)
    refuse_own_disk(settings("/etc/state"), {**IN_POD, "HADOOP_CONF_DIR": "/etc/hadoop"})


def test_what_need_not_be_there_has_a_mount_point(tmp_path: Path) -> None:
    assert mount_point(Path(MOUNTED, "a", "b")) == Path("/proc")
    assert os.path.ismount(mount_point(tmp_path / "a"))


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
