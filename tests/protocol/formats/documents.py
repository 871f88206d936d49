"""Hypothesis strategies for what the protocol writes down, and what can happen to a text on its way."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st

from streamjob.protocol.errors import FormatError
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario

texts = st.text(max_size=12)
uids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).filter(
    lambda u: u.strip(".") != ""
)
numbers = st.integers(0, 2**53)
batches = st.none() | numbers
jobs = st.builds(JobRef, texts, texts, texts)
operators = st.builds(OperatorRecord, texts, st.sampled_from(OperatorKind), texts, st.booleans())
stages = st.builds(
    StageRecord,
    uids,
    st.lists(
        st.builds(
            TaskRecord,
            numbers,
            texts,
            batches,
            st.booleans(),
            st.none() | texts,
            st.dictionaries(texts, st.lists(texts, max_size=2).map(tuple), max_size=2),
            exhausted=st.booleans(),
        ),
        max_size=3,
    ).map(tuple),
    st.lists(operators, max_size=3).map(tuple),
    upstream=st.lists(uids, max_size=2).map(tuple),
    carried_from=st.none() | numbers,
)


def records(number: st.SearchStrategy[int] = numbers) -> st.SearchStrategy[CheckpointRecord]:
    return st.builds(
        CheckpointRecord,
        checkpoint=number,
        epoch=numbers,
        scenario=st.none() | st.sampled_from(Scenario),
        request_id=st.none() | texts,
        savepoint=st.none() | texts,
        completed_at=texts,
        stages=st.lists(stages, max_size=3).map(tuple),
    )


def record(number: int = 1, stages: int = 1, **fields: Any) -> CheckpointRecord:
    """A plain record for cases that are not about its contents."""
    source = OperatorRecord("orders/source", OperatorKind.SOURCE, "kafka", False)
    task = TaskRecord(0, "s3a://bucket/checkpoints/orders", 41, False, "id", {"splits": ("a", "b")})
    values: dict[str, Any] = {
        "checkpoint": number,
        "epoch": 1,
        "scenario": Scenario.STOP,
        "request_id": "r1",
        "savepoint": f"s3a://bucket/savepoints/{number}",
        "completed_at": "2026-01-01T00:00:00Z",
        "stages": tuple(StageRecord(f"orders{i}", (task,), (source,)) for i in range(stages)),
    }
    return CheckpointRecord(**{**values, **fields})


JUNK = [
    b"",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b"{}",
    b"\x00",
    b"\xff\xfe",
    b"\xff\xfe{\x00}",
    b"\xef\xbb\xbf[]",
    b"NaN",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"9" * 5000,
    b'{"format": [], "version": {}}',
]


def only_format_errors(read: Callable[[Any], Any], data: bytes | str) -> None:
    """Whatever `data` is, reading it succeeds or says FormatError (UnknownVersion is one)."""
    error = ""
    try:
        read(data)
    except FormatError as e:
        error = str(e)
    assert len(error) < 1000, "an error is for a person to read"


def refused(read: Callable[[Any], Any], data: bytes | str) -> str:
    with pytest.raises(FormatError) as e:
        read(data)
    return str(e.value)


values: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 1.5, 10**400, "", "x", "\ud800", "é" * 9, [], {}, [[]], {"": 0}, [None], "a" * 5000]
)


@st.composite
def edited(draw: st.DrawFn, text: str) -> str:
    """A JSON document in which one value, anywhere, has become another, or a field was
    added or taken away.
    """
    document = json.loads(text)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in items:
            places.append((node, key))
            walk(child)

    walk(document)
    node, key = draw(st.sampled_from(places))
    how = draw(st.sampled_from(["replace", "remove", "add"]))
    if how == "replace":
        node[key] = draw(values)
    elif how == "remove":
        del node[key]
    elif isinstance(node, dict):
        node[draw(texts)] = draw(values)
    else:
        node.append(draw(values))
    return json.dumps(document)


def damaged(text: bytes) -> st.SearchStrategy[bytes]:
    """Cut off, or one bit flipped."""
    cut = st.integers(0, len(text) - 1).map(lambda n: text[:n])

    def flip(at: int) -> bytes:
        i, bit = divmod(at, 8)
        return text[:i] + bytes([text[i] ^ (1 << bit)]) + text[i + 1 :]

    return cut | st.integers(0, len(text) * 8 - 1).map(flip)
