"""Parsing the index: the problem of an index that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.controller.objects import names
from streamjob.controller.rules.parse_index import parse_index
from streamjob.protocol.formats import index as indices

from ..factories import UID, index, job, ran, record


def config_map(text: str, uid: str = UID) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": "3", "labels": {names.LABEL_UID: uid}},
        "data": {indices.KEY: text},
    }


def test_an_index() -> None:
    known = index(record())
    assert parse_index(config_map(indices.dumps(known)), job()) == (known, "3", None)
    assert parse_index(None, job()) == (None, None, None)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "IndexMissing"),
        (config_map("{"), "MalformedDocument"),
        (config_map('{"format":"streamjob.index","version":99}'), "UnknownFormatVersion"),
        (config_map(indices.dumps(index()), "another"), "NameTaken"),
        (config_map(indices.dumps(indices.empty("another"))), "ForeignIndex"),
        ({**config_map(""), "data": None}, "MalformedDocument"),
    ],
)
def test_an_index_that_cannot_be_used_has_a_reason_and_a_remedy(found: Any, reason: str) -> None:
    status = ran(checkpoint={"latest": 9, "epoch": 1, "completedAt": "2026-01-01T00:00:00Z"})
    known, _, problem = parse_index(found, job(status=status))
    assert known is None
    assert problem is not None
    assert problem.reason == reason
    assert problem.remedy
