"""A ScheduledSparkApplication becomes a StreamJob with a schedule; each of its fields is accounted for."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.api import StreamJob
from streamjob.convert.conversion import Conversion, convert_all
from streamjob.convert.source import Kind

from .inputs import DECIDED

TEMPLATE = {
    "type": "Python",
    "image": "shop/orders:1",
    "mainApplicationFile": "local:///app/orders.py",
    "restartPolicy": {"type": "Never"},
    "driver": {"memory": "1g", "labels": {}},
    "executor": {"instances": 2},
}


def converted(template: dict[str, Any] = TEMPLATE, **spec: Any) -> Conversion:
    document = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2",
        "kind": "ScheduledSparkApplication",
        "metadata": {"name": "nightly", "namespace": "shop"},
        "spec": {"schedule": "0 3 * * *", "template": template, **spec},
        "status": {"lastRunName": "nightly-1"},
    }
    (found,) = convert_all([document], DECIDED)
    return found


def account(found: Conversion) -> dict[str, Kind]:
    return {entry.path: entry.kind for entry in found.entries if entry.path}


def test_schedule_and_template_are_there() -> None:
    found = converted(timeZone="Europe/Berlin", suspend=True, concurrencyPolicy="Forbid")
    (made,) = found.objects
    made["metadata"] |= {"uid": "1", "generation": 1, "resourceVersion": "1"}
    spec = StreamJob.parse(made).spec
    assert spec.schedule is not None
    assert (spec.schedule.cron, spec.schedule.time_zone, spec.suspend) == ("0 3 * * *", "Europe/Berlin", True)
    assert (spec.image, spec.executor.instances) == ("shop/orders:1", 2)
    kinds = account(found)
    assert kinds["spec.schedule"] is kinds["spec.timeZone"] is kinds["spec.template.image"] is Kind.KEPT
    assert kinds["spec.concurrencyPolicy"] is kinds["spec.template.driver.labels"] is Kind.UNNEEDED
    assert kinds["status"] is Kind.DROPPED
    assert len(found.entries) == len({(e.path, e.to, e.message) for e in found.entries}), "each once"
    decide = [e.message for e in found.of_kind(Kind.DECIDE)]
    assert any("availableNow" in message for message in decide)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"concurrencyPolicy": "Replace"}, "is not replaced"),
        ({"concurrencyPolicy": "Allow"}, "never run at once"),
        ({}, "never run at once"),
        ({"timeZone": "Local"}, "unset is UTC"),
        ({"failedRunHistoryLimit": 3}, "failedDriversHistoryLimit"),
    ],
)
def test_what_is_different_is_told(spec: dict[str, Any], text: str) -> None:
    assert any(text in entry.message for entry in converted(**spec).entries)


def test_a_field_that_nobody_knows_is_told_with_its_own_path() -> None:
    found = converted({**TEMPLATE, "driver": {"unknown": 1}}, other=1)
    assert {"spec.template.driver.unknown", "spec.other"} <= {e.path for e in found.of_kind(Kind.DROPPED)}


@pytest.mark.parametrize(
    ("template", "spec", "text"),
    [
        ({**TEMPLATE, "type": "Scala"}, {}, "is in Scala"),
        (TEMPLATE, {"schedule": "@every 5m"}, "@every 5m"),
        (TEMPLATE, {"schedule": None}, "five fields"),
    ],
)
def test_what_has_no_streamjob_is_refused(template: Any, spec: dict[str, Any], text: str) -> None:
    found = converted(template, **spec)
    assert found.refused is not None
    assert text in found.refused.message + found.refused.remedy
