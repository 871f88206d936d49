"""The models read what the API server stores and write what it takes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.aio.client import V1Volume
from pydantic import ValidationError

from streamjob.api import OnDelete, RestartPolicy, Spec, State, Status, StreamJob
from streamjob.api.specification import Specification, digest
from streamjob.api.storage import KINDS
from streamjob.api.types import duration, mebibytes, whole_cores
from streamjob.protocol.times import moment, timestamp

SPEC = {
    "image": "orders:1",
    "application": {"file": "/app/orders.py"},
    "storage": {"checkpoints": "s3a://bucket/cp", "savepoints": "/data/sp"},
}
METADATA = {"name": "orders", "namespace": "shop", "uid": "u-1", "generation": 3, "resourceVersion": "7"}


def test_defaults_are_those_of_the_manual() -> None:
    spec = Spec.model_validate(SPEC)
    assert spec.state is State.RUNNING
    assert spec.executor.instances == 0
    assert spec.restart.policy is RestartPolicy.ON_FAILURE
    assert spec.termination.on_delete is OnDelete.STOP
    assert spec.driver.service_account_name == "streamjob-driver"


def test_a_stored_object_is_read() -> None:
    job = StreamJob.parse({"metadata": {**METADATA, "labels": {"a": "b"}}, "spec": SPEC, "kind": "StreamJob"})
    assert job.metadata.resource_version == "7"
    assert not job.deleting
    assert job.status == Status()
    assert job.status.plain() == {
        "conditions": [],
        "term": 0,
        "epoch": 0,
        "startedEpoch": 0,
        "stages": [],
        "warnings": [],
    }


@pytest.mark.parametrize("text", ["", "-10s", "10", "1.5h", "10 m", "5m1h", "1d", "10m\n"])
def test_no_duration(text: str) -> None:
    with pytest.raises(ValidationError, match="stopTimeout"):
        Spec.model_validate({**SPEC, "termination": {"stopTimeout": text}})


@given(st.integers(0, 999), st.integers(0, 999), st.integers(0, 999))
def test_durations(h: int, m: int, s: int) -> None:
    assert duration(f"{h}h{m}m{s}s") == timedelta(hours=h, minutes=m, seconds=s)
    assert duration(f"{h}h{s}s") == timedelta(hours=h, seconds=s)
    assert duration(f"{m}m") == timedelta(minutes=m)


@pytest.mark.parametrize(
    "uri", ["", "relative", "s3a//x", "/a/../b", "s3a://b/..", "/a b", "/a\x00", "C:\\x", "../x", "/a\n"]
)
def test_no_location(uri: str) -> None:
    with pytest.raises(ValidationError, match="checkpoints"):
        Spec.model_validate({**SPEC, "storage": {"checkpoints": uri, "savepoints": "/s"}})


@pytest.mark.parametrize(
    "uri", ["/data", "file:///data", "file:/data", "s3a://b/x..y", "hdfs://nn:8020/a", "/a/..b"]
)
def test_locations(uri: str) -> None:
    assert (
        Spec.model_validate({**SPEC, "storage": {"checkpoints": uri, "savepoints": uri}}).storage.checkpoints
        == uri
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512Mi", 512),
        ("2Gi", 2048),
        ("1.5Gi", 1536),
        ("1048576Ki", 1024),
        ("1073741824", 1024),
        ("1Ti", 1 << 20),
    ],
)
def test_memory(text: str, size: int) -> None:
    assert mebibytes(Spec.model_validate({**SPEC, "driver": {"memory": text}}).driver.memory) == size


@pytest.mark.parametrize(
    "text", ["0Mi", "512m", "1g", "1", "-1Gi", "1G", "1.5Mi", "449Mi", "2Ti", "", "Gi", "1Gi\n", "1 Gi", True]
)
def test_no_memory(text: str) -> None:
    with pytest.raises(ValidationError, match=r"driver\.memory"):
        Spec.model_validate({**SPEC, "driver": {"memory": text}})


@pytest.mark.parametrize(
    ("text", "request_", "tasks"),
    [(2, "2", 2), ("2", "2", 2), ("500m", "500m", 1), ("1500m", "1500m", 2), ("1.5", "1.5", 2)],
)
def test_cores(text: str | int, request_: str, tasks: int) -> None:
    cores = Spec.model_validate({**SPEC, "executor": {"cores": text}}).executor.cores
    assert (cores, whole_cores(cores)) == (request_, tasks)


@pytest.mark.parametrize("text", [0, "0", "-1", 1025, "100u", "two", ""])
def test_no_cores(text: str | int) -> None:
    with pytest.raises(ValidationError, match=r"driver\.cores"):
        Spec.model_validate({**SPEC, "driver": {"cores": text}})


@pytest.mark.parametrize("name", ["Europe/Atlantis", "+02:00", "", "Local", "../etc/passwd", "Europe"])
def test_no_time_zone(name: str) -> None:
    with pytest.raises(ValidationError, match="timeZone"):
        Spec.model_validate({**SPEC, "savepoint": {"timeZone": name}})


def test_each_kind_of_volume_is_there() -> None:
    """V1Volume is Kubernetes' own list."""
    assert {"name", *KINDS} == set(V1Volume.attribute_map.values())


@given(
    st.datetimes(
        min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(timezone.utc)
    )
)
def test_timestamps_survive(when: datetime) -> None:
    assert moment(timestamp(when)) == when.replace(microsecond=0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("jars", "x.jar"),
        ("jars", "/a,/b"),
        ("jars", "s3a://b/"),
        ("files", "https://me:secret@host/f"),
        ("pyFiles", "/x-1-cp311-cp311-linux_x86_64.whl"),
        ("packages", "a:b"),
        ("excludePackages", "a:b:1"),
        ("repositories", "s3a://b/m2"),
    ],
)
def test_no_dependency(field: str, value: str) -> None:
    with pytest.raises(ValidationError, match=field):
        Spec.model_validate({**SPEC, "deps": {field: [value]}})


def test_a_change_of_the_dependencies_is_another_specification() -> None:
    deps = {"packages": ["a:b:1"], "pyFiles": ["s3a://b/m.py", "/w-1-py3-none-any.whl"]}
    before, after = Spec.model_validate(SPEC), Spec.model_validate({**SPEC, "deps": deps})
    assert digest(before) != digest(after)
    assert "deps" not in Specification.of(before).text
    assert Specification.of(after).onto(before) == after
