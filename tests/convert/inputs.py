"""The SparkApplications of the tests, and what has to hold for each result."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from streamjob.api import StreamJob
from streamjob.api.crd import schema
from streamjob.convert.conversion import Conversion, convert_all
from streamjob.convert.draft import Places
from streamjob.convert.source import Kind, leaves

DATA = Path(__file__).parent / "data"
DECIDED = Places("s3a://streams/checkpoints", "s3a://streams/savepoints")
KUBEFLOW, APACHE = "sparkoperator.k8s.io/v1beta2", "spark.apache.org/v1"
Obj = dict[str, Any]
# An image's name in braces is no YAML. The file is made into one by its reader.
PLACEHOLDER = "{IMAGE_REGISTRY}/{IMAGE_REPOSITORY}/"
PRESERVED = "x-kubernetes-preserve-unknown-fields"


@cache
def read(path: Path) -> tuple[Obj, ...]:
    documents = yaml.safe_load_all(path.read_text().replace(PLACEHOLDER, "registry.example/"))
    return tuple(document for document in documents if document)


@cache
def streamjob_schema() -> Obj:
    return schema()


def files(folder: str) -> list[Path]:
    return sorted(path for path in (DATA / folder).glob("*.yaml") if ".expected." not in path.name)


def applications() -> Iterator[tuple[str, Obj]]:
    """The SparkApplications of both projects, with the names of their files."""
    for folder in ("kubeflow", "apache"):
        for path in files(folder):
            for document in read(path):
                if document["kind"] == "SparkApplication":
                    yield f"{folder}/{path.stem}/{document['metadata']['name']}", document


def as_python(document: Obj) -> Obj:
    """The same application with a Python program."""
    changed = copy.deepcopy(document)
    spec = changed["spec"]
    if changed["apiVersion"] == KUBEFLOW:
        spec["type"], spec["mainApplicationFile"] = "Python", "local:///app/orders.py"
    else:
        spec.pop("jars", None)
        spec["pyFiles"] = "local:///app/orders.py"
    return changed


def kubeflow(spec: Obj | None = None, **metadata: Any) -> Obj:
    """A small application of Kubeflow's operator with these fields."""
    base: Obj = {
        "type": "Python",
        "mode": "cluster",
        "image": "orders:1",
        "mainApplicationFile": "local:///app/orders.py",
        "sparkVersion": "4.1.1",
        "driver": {},
        "executor": {"instances": 1},
        "restartPolicy": {"type": "OnFailure", "onFailureRetries": 3},
    }
    return {
        "apiVersion": KUBEFLOW,
        "kind": "SparkApplication",
        "metadata": {"name": "orders", **metadata},
        "spec": {**base, **(spec or {})},
    }


def apache(spec: Obj | None = None, **conf: str) -> Obj:
    """A small application of Apache's operator with these fields and settings."""
    settings = {"spark.kubernetes.container.image": "orders:1", **conf}
    return {
        "apiVersion": APACHE,
        "kind": "SparkApplication",
        "metadata": {"name": "orders"},
        "spec": {"pyFiles": "local:///app/orders.py", "sparkConf": settings, **(spec or {})},
    }


def convert(document: Obj, places: Places = DECIDED) -> Conversion:
    """Convert one object; what has to hold for every result holds."""
    (conversion,) = convert_all([copy.deepcopy(document)], places)
    if conversion.objects:
        check(document, conversion)
    return conversion


def spec_of(document: Obj) -> Obj:
    conversion = convert(document)
    assert conversion.refused is None, conversion.refused
    spec: Obj = conversion.objects[-1]["spec"]
    return spec


def check(document: Obj, conversion: Conversion) -> None:
    """Every field is accounted for once, and the result is a StreamJob without fields that nobody knows."""
    accounted = sum(entry.fields for entry in conversion.entries)
    assert accounted == len(list(leaves(document)))
    for entry in conversion.entries:
        assert entry.message or entry.kind is Kind.KEPT
        assert entry.to or entry.kind in (Kind.DROPPED, Kind.UNNEEDED)
    job = conversion.objects[-1]
    assert list(unknown(job, streamjob_schema(), "")) == []
    own = {"uid": "1", "generation": 1, "resourceVersion": "1", "namespace": "streams"}
    spec = {"image": "to decide", **job["spec"]}
    StreamJob.parse({**job, "metadata": {**own, **job["metadata"]}, "spec": spec})


def unknown(value: Any, node: Obj, path: str) -> Iterator[str]:
    """Fields that the API server would silently drop."""
    if isinstance(value, dict) and "properties" in node and PRESERVED not in node:
        for key, child in value.items():
            if key in node["properties"]:
                yield from unknown(child, node["properties"][key], f"{path}.{key}")
            elif path != ".metadata" and (path or key != "metadata"):
                yield f"{path}.{key}"
    elif isinstance(value, list):
        for child in value:
            yield from unknown(child, node.get("items", {}), f"{path}[]")


def entries(conversion: Conversion, kind: Kind) -> dict[str, str]:
    """Path and message of the account's entries of a kind; what is to decide by its field."""
    return {entry.path or entry.to: entry.message for entry in conversion.of_kind(kind)}


def within(path: str, whole: str) -> bool:
    return path == whole or path.startswith((f"{whole}.", f"{whole}["))


def fate(conversion: Conversion, path: str) -> Kind:
    """What became of a field: the kind of the entry with the longest matching path."""
    found = [e for e in conversion.entries if e.path and within(path, e.path)]
    assert found, path
    return max(found, key=lambda e: len(e.path)).kind
