"""Merging one pod template over another."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.controller.objects.merging import merge

FIELD = {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


@pytest.mark.parametrize(
    ("base", "over", "merged"),
    [
        pytest.param({"a": 1, "b": {"c": 2}}, {"b": {"d": 3}}, {"a": 1, "b": {"c": 2, "d": 3}}, id="objects"),
        pytest.param(
            [{"name": "x", "a": 1}, {"name": "y"}],
            [{"name": "x", "b": 2}],
            [{"name": "y"}, {"name": "x", "a": 1, "b": 2}],
            id="named entries",
        ),
        pytest.param(
            [{"name": "v", "mountPath": "/a"}],
            [{"name": "v", "mountPath": "/b"}],
            [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}],
            id="one volume at two paths",
        ),
        pytest.param([{"name": "A", "value": "1"}], [FIELD], [FIELD], id="value or valueFrom, not both"),
        pytest.param(["a"], ["b"], ["b"], id="plain lists"),
        pytest.param({"a": [1]}, {"a": None}, {"a": None}, id="other values"),
    ],
)
def test_merge(base: Any, over: Any, merged: Any) -> None:
    assert merge(base, over) == merged
