"""The recorded resources are such as the API server takes, statuses included."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from . import recorded

NOW = datetime(2026, 11, 26, 3, 0, tzinfo=timezone.utc)
CRD = Path(__file__).parents[2] / "crds/streamjobs.yaml"
JOBS = {
    f.__name__: f(NOW)
    for f in (
        recorded.orders,
        recorded.draining,
        recorded.drained,
        recorded.failed,
        recorded.rolled_back,
    )
}


def closed(schema: Any) -> Any:
    """The schema with unknown fields refused: the API server would drop them."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    if isinstance(found.get("properties"), dict) and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


@pytest.mark.parametrize("name", JOBS)
def test_spec_and_status_fit_the_crd(name: str) -> None:
    crd = yaml.safe_load(CRD.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    for part in ("spec", "status"):
        validator = jsonschema.Draft202012Validator(closed(schema[part]))
        found = [f"{e.json_path}: {e.message}" for e in validator.iter_errors(JOBS[name][part])]
        assert found == []
