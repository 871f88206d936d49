"""Generates the CustomResourceDefinition from the models.

Class docstrings and field descriptions become the texts of `kubectl explain`. Kubernetes requires a
*structural* schema: no $ref, no anyOf with null, no titles. References are therefore expanded, `X | None`
becomes an optional X, and a field whose default is a model with its own defaults gets `default: {}`.

A list is `atomic` (server-side apply replaces it whole) unless its field says by which keys its entries are
merged.
"""

from __future__ import annotations

from typing import Any

from .. import __version__
from .resource import GROUP, KIND, PLURAL, VERSION, StreamJob

VERSION_ANNOTATION = f"{GROUP}/version"  # the release that the definition is of
READY = ".status.conditions[?(@.type=='Ready')].status"
READY_REASON = ".status.conditions[?(@.type=='Ready')].reason"
COLUMNS = (
    ("Ready", "string", READY, "Whether the job is in the requested state", 0),
    ("State", "string", ".spec.state", "Requested state", 0),
    ("Phase", "string", ".status.phase", "Current phase", 0),
    ("Next", "string", ".status.rounds.next", "When the next round of a schedule is due", 1),
    ("Restarts", "integer", ".status.restarts.count", "Failures of the driver in a row, up to the last", 0),
    ("Epoch", "integer", ".status.epoch", "Number of the driver's attempt", 0),
    ("Checkpoint", "integer", ".status.checkpoint.latest", "Newest completed checkpoint", 0),
    ("Savepoint", "string", ".status.savepoint.latest", "Newest completed savepoint", 1),
    ("Executors", "integer", ".status.executors.running", "Executors that are connected to the driver", 1),
    ("Age", "date", ".metadata.creationTimestamp", "", 0),
    ("Progress", "string", ".status.termination.progress", "What a stop or drain waits for", 1),
    ("Reason", "string", READY_REASON, "Reason of the condition Ready", 1),
)
# The status that the API server shows until the controller writes one. Flux (kstatus) takes an object without
# an observed generation for finished; one that differs from metadata.generation means "in progress".
UNSEEN = {"observedGeneration": -1}
# `kubectl scale`, HorizontalPodAutoscaler and KEDA change the number of executors through this subresource.
SCALE = {
    "specReplicasPath": ".spec.executor.instances",
    "statusReplicasPath": ".status.executors.running",
    "labelSelectorPath": ".status.selector",
}
WIDE = 1 << 31  # an integer that may reach this needs 64 bits
# The keys to keep, in the order of the generated file: what a reader looks for comes first.
KEPT = (
    "type",
    "format",
    "description",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "maxProperties",
    "required",
    "properties",
    "items",
    "additionalProperties",
)


def definition() -> dict[str, Any]:
    """The CustomResourceDefinition in the form that the API server accepts."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}", "annotations": {VERSION_ANNOTATION: __version__}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["sj"],
                "categories": ["all", "streaming"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}, "scale": SCALE},
                    "additionalPrinterColumns": [_column(*c) for c in COLUMNS],
                    "schema": {"openAPIV3Schema": schema()},
                }
            ],
        },
    }


def schema() -> dict[str, Any]:
    """The structural schema of a StreamJob."""
    raw = StreamJob.model_json_schema(by_alias=True)
    root = _structural(raw, raw.get("$defs", {}))
    properties = {
        # The API server owns these three and accepts no schema for metadata.
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": root["properties"]["spec"],
        "status": {**root["properties"]["status"], "default": UNSEEN},
    }
    return {**root, "properties": properties, "required": ["spec"]}


def _column(name: str, kind: str, path: str, description: str, priority: int) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if description:
        column["description"] = description
    if priority:
        column["priority"] = priority
    return column


def _structural(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    node = _resolve(node, defs)
    out = {key: node[key] for key in KEPT if key in node and node[key] is not None}
    out |= {key: value for key, value in node.items() if key.startswith("x-kubernetes-")}
    if "description" in out:
        out["description"] = " ".join(out["description"].split())
    if "properties" in node:
        required = set(node.get("required", ()))
        out["properties"] = {
            name: _property(child, defs, optional=name not in required)
            for name, child in node["properties"].items()
        }
    if "x-kubernetes-int-or-string" in out:
        del out["type"]  # either of the two; a structural schema must not say which
        return out
    if out["type"] == "integer":
        out["format"] = "int32" if node.get("maximum", WIDE) < WIDE else "int64"
    if out["type"] == "number":
        out["format"] = "double"
    if out["type"] == "array":
        out.setdefault("x-kubernetes-list-type", "atomic")
    if isinstance(node.get("items"), dict):
        out["items"] = _structural(node["items"], defs)
    if isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = _structural(node["additionalProperties"], defs)
    else:
        out.pop("additionalProperties", None)
    if out.get("default") in ([], {}):
        del out["default"]
    return out


def _property(node: dict[str, Any], defs: dict[str, Any], *, optional: bool) -> dict[str, Any]:
    out = _structural(node, defs)
    # Without a default for the object, the API server does not apply the defaults of its fields.
    if optional and "$ref" in node and "default" not in out and out.get("type") == "object":
        out["default"] = {}
    return out


def _resolve(node: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """Expand references, and reduce `X | None` to X. A key next to a reference overrides the key of its
    target.
    """
    node = dict(node)
    if "anyOf" in node:
        (inner,) = [n for n in node.pop("anyOf") if n.get("type") != "null"]
        node = {**inner, **node}
    if "$ref" in node:
        target = defs[node.pop("$ref").rpartition("/")[2]]
        node = {**_resolve(target, defs), **node}
    return node
