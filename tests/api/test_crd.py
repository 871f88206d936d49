"""crds/ and the chart's copy are what the models say, and the schema is one that Kubernetes takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamjob.api.__main__ import render
from streamjob.api.crd import READY, READY_REASON, definition, schema

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", ["crds/streamjobs.yaml", "charts/streamjob/crds/streamjobs.yaml"])
def test_files_are_generated(path: str) -> None:
    assert (ROOT / path).read_text() == render(), f"python -m streamjob.api > {path}"


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from nodes(node[key], f"{path}[{key}]")


def test_schema_is_structural() -> None:
    allowed = {
        "type",
        "format",
        "description",
        "enum",
        "default",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
    }
    allowed |= {
        "minItems",
        "maxItems",
        "maxProperties",
        "required",
        "properties",
        "items",
        "additionalProperties",
    }
    for path, node in nodes(schema()):
        unknown = {k for k in node if k not in allowed and not k.startswith("x-kubernetes-")}
        assert not unknown, f"{path}: {unknown}"
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path
        assert not ("properties" in node and "additionalProperties" in node), path


def test_numbers_have_a_size_and_lists_say_how_they_merge() -> None:
    for path, node in nodes(schema()):
        if node.get("type") == "integer":
            assert node["format"] in ("int32", "int64"), path
        if node.get("type") == "array":
            keys = node.get("x-kubernetes-list-map-keys", [])
            assert node["x-kubernetes-list-type"] == ("map" if keys else "atomic"), path
            assert set(keys) <= set(node["items"].get("required", ())), path


def test_a_closed_set_of_strings_is_an_enum() -> None:
    """The descriptions of the others say what a value looks like, not which there are."""
    found = {path.removeprefix(".") for path, node in nodes(schema()) if "enum" in node}
    status = (
        "driver.phase lastExit.phase termination.mode termination.step savepointRequest.cause "
        "escalation.mode upgrade.step"
    )
    assert found >= {f"status.{field}" for field in status.split()}
    assert found >= {"status.stages[items].tasks[items].state", "status.stages[items].operators[items].kind"}


def test_every_rule_has_a_sentence() -> None:
    for path, node in nodes(schema()):
        for rule in node.get("x-kubernetes-validations", ()):
            assert rule["message"], path
            assert "self" in rule["rule"], path


def test_a_job_that_is_drained_is_not_told_to_break_the_drain_off() -> None:
    """The rule cannot see the phase, so its sentence speaks of both."""
    rules = [r for _, node in nodes(schema()) for r in node.get("x-kubernetes-validations", ())]
    (text,) = [r["message"] for r in rules if "a drain is an end" in r["message"]]
    drained, draining = text.split(";")
    assert "If the job is Drained, make a new StreamJob with restoreFrom.savepoint" in drained
    assert "Cancelled" not in drained
    assert "while it is still Draining, Cancelled breaks the drain off" in draining
    manual = " ".join((Path(__file__).parents[2] / "docs" / "operations.md").read_text().split())
    assert "while `spec.state` is Drained, the API server takes only Cancelled" in manual


def test_the_scale_subresource_leads_to_fields_that_exist() -> None:
    (version,) = definition()["spec"]["versions"]
    kinds = {}
    for name, path in version["subresources"]["scale"].items():
        node = version["schema"]["openAPIV3Schema"]
        for field in path.removeprefix(".").split("."):
            node = node["properties"][field]
        kinds[name] = node["type"]
    assert kinds == {
        "specReplicasPath": "integer",
        "statusReplicasPath": "integer",
        "labelSelectorPath": "string",
    }


def test_names_columns_and_status() -> None:
    spec = definition()["spec"]
    assert spec["names"]["shortNames"] == ["sj"]
    (version,) = spec["versions"]
    assert set(version["subresources"]) == {"status", "scale"}
    wide = [c["name"] for c in version["additionalPrinterColumns"] if not c.get("priority")]
    assert wide == ["Ready", "State", "Phase", "Restarts", "Epoch", "Checkpoint", "Age"]


def test_printed_columns_exist() -> None:
    (version,) = definition()["spec"]["versions"]
    known = {path for path, _ in nodes(schema())} | {".metadata.creationTimestamp", READY, READY_REASON}
    assert {c["jsonPath"] for c in version["additionalPrinterColumns"]} <= known


def test_is_plain_yaml() -> None:
    assert yaml.safe_load(render()) == definition()


def test_a_job_cannot_name_another_namespace() -> None:
    """Secrets, ConfigMaps and claims are those of its own: Kubernetes gives a pod no others, and no field of
    ours says where. That of a template is known only to be refused. A Gateway says itself whose routes it
    takes.
    """
    named = [path for path, _ in nodes(schema()["properties"]["spec"]) if "namespace" in path.lower()]
    templates = [f".{pod}.template.metadata.namespace" for pod in ("driver", "executor")]
    assert named == [*templates, ".ui.httpRoute.parentRefs[items].namespace"]
