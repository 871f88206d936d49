"""The reference of the custom resource, from the models of `streamjob.api`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from streamjob.api.crd import schema
from streamjob.api.types import (
    CORES_MESSAGE,
    CRON_MESSAGE,
    DURATION_MESSAGE,
    LOCATION_MESSAGE,
    MEMORY_MESSAGE,
    ZONE_MESSAGE,
)

# The scalars of `streamjob.api.types`, by the message with which the API server refuses another text.
SCALARS = {
    CORES_MESSAGE: "cores",
    CRON_MESSAGE: "schedule",
    DURATION_MESSAGE: "duration",
    LOCATION_MESSAGE: "location",
    MEMORY_MESSAGE: "memory",
    ZONE_MESSAGE: "time zone",
}
INTRODUCTION = """
`apiVersion: streamjob.dev/v1alpha1`, `kind: StreamJob`. The API server refuses a value that the columns
*type* and *allowed* exclude, and what breaks a rule. A field is optional unless it is marked as required.

| type | what the string is |
|---|---|
| timestamp | a moment in the form of RFC 3339, in UTC |
"""


def reference() -> str:
    """The page, as Markdown."""
    root = schema()["properties"]
    scalars = sorted((name, escape(message.removeprefix("must be "))) for message, name in SCALARS.items())
    lines = [INTRODUCTION + "".join(f"| {name} | {message} |\n" for name, message in scalars)]
    for name in ("spec", "status"):
        lines += section(name, root[name], 2)
    return "\n".join(lines)


def section(path: str, node: dict[str, Any], level: int) -> Iterator[str]:
    """A heading and a table for an object, and the same for each object in it."""
    yield f"{'#' * min(level, 3)} {path} {{#{path.replace('[]', '')}}}\n"
    if node.get("description"):
        yield f"{escape(node['description'])}\n"
    fields: dict[str, dict[str, Any]] = node.get("properties", {})
    if not fields:
        yield "An empty object: `{}`.\n"
        return
    required = set(node.get("required", ()))
    yield "| field | type | default | allowed | description |\n|---|---|---|---|---|"
    for name, child in fields.items():
        cells = (
            f"`{name}`",
            kind(child, path, name),
            default(child, name in required),
            allowed(child),
            text(child),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    rules = [r["message"] for r in node.get("x-kubernetes-validations", ())]
    rules += [
        r["message"]
        for child in fields.values()
        if child.get("type") == "object" and "properties" not in child
        for r in child.get("x-kubernetes-validations", ())
    ]
    if rules:
        yield "Rules:\n"
        yield from (f"- {escape(rule)}" for rule in rules)
        yield ""
    for name, child in fields.items():
        if "properties" in child:
            yield from section(f"{path}.{name}", child, level + 1)
        elif "properties" in child.get("items", {}):
            yield from section(f"{path}.{name}[]", child["items"], level + 1)


def kind(node: dict[str, Any], path: str, name: str) -> str:
    """The type of a field; an object's leads to its section."""
    link = f"{path}.{name}".replace("[]", "")
    if node.get("type") == "array":
        items = node["items"]
        return f"list of [{name}](#{link})" if "properties" in items else f"list of {scalar(items)}s"
    if node.get("type") == "object":
        if "properties" in node:
            return f"[object](#{link})"
        values = node.get("additionalProperties")
        return f"map of string to {scalar(values)}" if values else "object"
    return scalar(node)


def scalar(node: dict[str, Any]) -> str:
    if node.get("format") == "date-time":
        return "timestamp"
    messages = [rule["message"] for rule in node.get("x-kubernetes-validations", ())]
    return next((SCALARS[m] for m in messages if m in SCALARS), str(node.get("type", "string")))


def default(node: dict[str, Any], required: bool) -> str:
    if required:
        return "**required**"
    value = node.get("default")
    return (
        f"`{value if isinstance(value, str) else json.dumps(value)}`" if value not in (None, {}, "") else ""
    )


def allowed(node: dict[str, Any]) -> str:
    """The values, numbers or lengths that the field may have."""
    source = node["items"] if node.get("type") == "array" and "enum" in node["items"] else node
    if "enum" in source:
        return ", ".join(f"`{value}`" for value in source["enum"])
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None or high is not None:
        return f"{low} to {high}" if high is not None else f"{low} or more"
    for key, unit in (("maxItems", "entries"), ("maxProperties", "entries"), ("maxLength", "characters")):
        if key in node:
            return f"up to {node[key]} {unit}"
    return ""


def text(node: dict[str, Any]) -> str:
    """What the field's own description says; for a list, else that of its entries."""
    return escape(node.get("description") or node.get("items", {}).get("description") or "")


def escape(words: str) -> str:
    """Plain text as Markdown in a cell of a table. Code between backquotes stays code."""
    parts = re.split(r"(`[^`]*`)", " ".join(words.split()))
    return "".join(p if i % 2 else re.sub(r"([*_<\[\]])", r"\\\1", p) for i, p in enumerate(parts)).replace(
        "|", r"\|"
    )
