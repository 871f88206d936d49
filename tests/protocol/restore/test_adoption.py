"""Row 8: version 1, a bare Structured Streaming checkpoint directory, is read as a record or refused as it
is.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.errors import FormatError, StreamJobError
from streamjob.protocol.formats import index
from streamjob.protocol.formats.records import CheckpointRecord, FinishedStatus, OperatorKind, OperatorRecord
from streamjob.protocol.restore.adoption import BareDirectory, adopt

ID = "6d6c4e3b-4d1c-4f6a-9a33-0f5a6a6f8f10"
METADATA = json.dumps({"id": ID}).encode()
GOOD = BareDirectory("orders", "s3a://b/cp/orders", METADATA, (40, 41, 42), (40, 41, 42), (1,))


def adopted(*found: BareDirectory) -> CheckpointRecord:
    return adopt(found, 1, 1, "2026-01-01T00:00:00Z")


ADOPTED = [
    pytest.param({}, 42, id="row8-at a boundary"),
    pytest.param({"offsets": (42,), "commits": (42,)}, 42, id="row8-with all but the last batch purged"),
    pytest.param({"commits": (42,)}, 42, id="row8-with commits purged before offsets"),
    pytest.param({"offsets": (), "commits": ()}, None, id="row8-a query that has not run a batch"),
    pytest.param({"offsets": (41, 42, 43)}, 42, id="row8-killed in a batch, which is run again"),
    pytest.param({"offsets": (0,), "commits": ()}, None, id="row8-killed in its first batch"),
    pytest.param(
        {"offsets": (0,), "commits": (0,), "log_versions": (2,)}, 0, id="row8-the second version of the logs"
    ),
    pytest.param({"log_versions": ()}, 42, id="row8-the version of the logs not looked at"),
]


@pytest.mark.parametrize(("change", "batch"), ADOPTED)
def test_adopted(change: dict[str, Any], batch: int | None) -> None:
    record = adopted(replace(GOOD, **change))
    (stage,) = record.stages
    (task,) = stage.tasks
    assert (stage.uid, task.index, task.location) == ("orders", 0, "s3a://b/cp/orders")
    assert (task.batch, task.query_id, task.finished) == (batch, ID, False)
    assert stage.status is FinishedStatus.NOT
    assert not record.drained
    text = index.dumps(index.add(index.empty("uid"), record))
    assert index.loads(text, "x").latest == record


REFUSED = [
    pytest.param(
        {"offsets": (42, 43, 44)}, "BatchNotCommitted", "last 2 batches", id="row8-two batches uncommitted"
    ),
    pytest.param({"commits": ()}, "BatchNotCommitted", "batches up to 42", id="row8-no batch committed"),
    pytest.param(
        {"commits": (42, 43)}, "MalformedDocument", "batch 43", id="row8-a committed batch without offsets"
    ),
    pytest.param({"offsets": ()}, "MalformedDocument", "offsets are missing", id="row8-no offsets"),
    pytest.param({"offsets": (-1,)}, "MalformedDocument", "negative", id="row8-a negative batch"),
    pytest.param({"metadata": None}, "MalformedDocument", "no file 'metadata'", id="row8-no metadata"),
    pytest.param({"metadata": b"{}"}, "MalformedDocument", "no query id", id="row8-metadata without an id"),
    pytest.param(
        {"metadata": b'{"id": 3}'}, "MalformedDocument", "no query id", id="row8-an id that is a number"
    ),
    pytest.param(
        {"metadata": b'{"id": "x"}'}, "MalformedDocument", "no query id", id="row8-an id that is no UUID"
    ),
    pytest.param({"metadata": b"["}, "MalformedDocument", "not JSON", id="row8-metadata cut off"),
    pytest.param(
        {"metadata": b" " * 70000}, "MalformedDocument", "at most", id="row8-metadata of another kind of file"
    ),
    pytest.param(
        {"log_versions": (1, 3)}, "UnknownFormatVersion", "log version 3", id="row8-logs of a newer Spark"
    ),
    pytest.param(
        {"uid": ".."}, "MalformedDocument", "stay inside", id="row8-a name that leads out of a savepoint"
    ),
]


@pytest.mark.parametrize(("change", "reason", "text"), REFUSED)
def test_refused(change: dict[str, Any], reason: str, text: str) -> None:
    with pytest.raises(StreamJobError) as e:
        adopted(replace(GOOD, **change))
    assert e.value.reason == reason
    assert text in e.value.message


def test_row8_several_queries_become_several_stages() -> None:
    operator = OperatorRecord("other/sink", OperatorKind.SINK, "sink", False)
    record = adopted(GOOD, replace(GOOD, uid="other", operators=(operator,)))
    assert [s.uid for s in record.stages] == ["orders", "other"]
    assert record.stages[1].operators == (operator,)


def test_row8_one_name_twice_is_refused() -> None:
    with pytest.raises(FormatError, match="two checkpoint directories"):
        adopted(GOOD, GOOD)


numbers = st.lists(st.integers(-2, 2**40), max_size=4).map(tuple)


@given(st.text(max_size=6), st.none() | st.binary(max_size=60) | st.just(METADATA), numbers, numbers, numbers)
def test_whatever_is_found_is_adopted_or_refused(
    uid: str, metadata: Any, offsets: Any, commits: Any, logs: Any
) -> None:
    try:
        record = adopted(BareDirectory(uid, "file:/x", metadata, offsets, commits, logs))
    except StreamJobError:
        return
    batch = record.stages[0].tasks[0].batch
    assert batch == max(offsets, default=None) == max(commits, default=None)
