"""Every field of both projects' CustomResourceDefinitions, one at a time: nothing is dropped silently.

`data/fields/*.expected.txt` has what becomes of each, to be read by people. Write it anew with
`python -m tests.convert.test_fields`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from streamjob.convert.conversion import Conversion
from streamjob.convert.source import NOT_KNOWN, Kind, Path, text

from .inputs import DATA, Obj, apache, convert, fate, kubeflow, within

RESOURCES = {"kubeflow-v1beta2": kubeflow, "apache-v1": apache, "apache-v1beta1": apache}
SENTINEL = "sentinel"
# Values that the other operator would accept; other strings are the sentinel.
VALUES: dict[str, Any] = {
    r".*\.(memory|memoryOverhead|memoryLimit)": "777m",
    r"spec\.(driver|executor)\.core(Request|Limit)": "777m",
    r"spec\.(driver|executor)\.cores": 7,
    r"spec\.executor\.instances|.*\.(min|max|initial)Executors": 77,
    r"spec\.mainApplicationFile": "local:///app/sentinel.py",
    r"spec\.pyFiles": "local:///app/sentinel.py,s3a://bucket/more.zip",
    r"spec\.files": "s3a://bucket/sentinel",
    r"spec\.deps\.(jars|files)\[0\]": "s3a://bucket/sentinel",
    r"spec\.deps\.archives\[0\]": "s3a://bucket/sentinel.zip",
    r"spec\.deps\.pyFiles\[0\]": "s3a://bucket/sentinel.py",
    r"spec\.deps\.packages\[0\]": "org.example:sentinel:1",
    r"spec\.deps\.excludePackages\[0\]": "org.example:sentinel",
    r"spec\.deps\.repositories\[0\]": "https://sentinel.example/maven2",
    r"spec\.memoryOverheadFactor": "0.77",
    r".*\.mountPath|spec\.(driver|executor)\.(configMaps|secrets)\[0\]\.path": "/sentinel",
    r"spec\.imagePullPolicy": "Always",
    r"spec\.sparkVersion": "4.1.1",
    r"spec\.(driver|executor)\.image": "orders:1",
    r".*\.resources\.(limits|requests).*": "777",
    r"spec\.driver\.template\.spec\.containers\[0\]\.name": "spark-kubernetes-driver",
    r"spec\.executor\.template\.spec\.containers\[0\]\.name": "spark-kubernetes-executor",
    r"spec\.jars": "",  # with it, the program is a jar
    r"spec\.volumes\[0\]\.name": SENTINEL,
}
# What Kubernetes needs although a definition does not say so.
NAMES = {"name", "key", "mountPath", "claimName", "path", "secretName", "fieldPath", "resource"}


@cache
def tree(name: str) -> Obj:
    node: Obj = json.loads((DATA / "fields" / f"{name}.json").read_text())
    if name == "kubeflow-v1beta2":
        # It has pods' templates without a schema. They are Kubernetes' own, as in the other project.
        for role in ("driver", "executor"):
            template = tree("apache-v1")["properties"][f"{role}Spec"]["properties"]["podTemplateSpec"]
            node["properties"][role]["properties"]["template"] = template
    return node


def fields(node: Obj, path: Path) -> Iterator[tuple[Path, Obj]]:
    """Each field with a value, and its schema."""
    if "properties" in node:
        for name, child in node["properties"].items():
            yield from fields(child, (*path, name))
    elif "items" in node:
        yield from fields(node["items"], (*path, 0))
    elif "additionalProperties" in node:
        yield from fields(node["additionalProperties"], (*path, "some-key"))
    else:
        yield path, node


def values(path: Path, node: Obj) -> list[Any]:
    place = text(path)
    for pattern, value in VALUES.items():
        if re.fullmatch(pattern, place):
            return [value]
    if "enum" in node:
        return ["Python"] if path == ("spec", "type") else list(node["enum"])
    kinds: Obj = {"integer": [77], "boolean": [True, False], "object": [{}], "number": [7.5]}
    found: list[Any] = kinds.get(node.get("type", ""), [SENTINEL])
    return found


def place(node: Obj, into: Any, path: Path, at: Path, value: Any) -> Any:
    """`into` with the value at `path`, and what a schema requires on the way there."""
    if at == path:
        return value
    step = path[len(at)]
    if isinstance(step, int):
        return [place(node["items"], {}, path, (*at, step), value)]
    child = node["properties"][step] if "properties" in node else node["additionalProperties"]
    out = dict(into or {})
    out[str(step)] = place(child, out.get(str(step)), path, (*at, step), value)
    own = node.get("properties", {})
    for name in {*node.get("required", ()), *NAMES} & set(own) if len(at) > 1 else ():
        if name not in out and own[name].get("type") != "object":
            out[name] = [] if own[name].get("type") == "array" else values((*at, name), own[name])[0]
    return out


def with_field(name: str, path: Path, value: Any) -> Obj:
    document = RESOURCES[name]()
    spec = document["spec"]
    spec = place(tree(name), spec, path, ("spec",), value)
    if "volumes" in path[:2]:
        volume = spec["volumes"][0].setdefault("name", SENTINEL)
        spec["driver"] = {"volumeMounts": [{"name": volume, "mountPath": "/data"}]}
    if len(path) > 2 and path[2] == "volumeMounts" and path[1] in ("driver", "executor"):
        spec["volumes"] = [{"name": spec[path[1]]["volumeMounts"][0].get("name") or SENTINEL, "emptyDir": {}}]
    return {**document, "spec": spec}


@cache
def converted(name: str) -> list[tuple[str, Any, Conversion]]:
    return [
        (text(path), value, convert(with_field(name, path, value)))
        for path, node in fields(tree(name), ("spec",))
        for value in values(path, node)
    ]


def scalars(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            yield str(key)
            yield from scalars(child)
    elif isinstance(value, list):
        for child in value:
            yield from scalars(child)
    else:
        yield str(value)


def expected(name: str) -> str:
    """What becomes of each field, but for what a pod's own fields hold."""
    lines = set()
    for path, _, conversion in converted(name):
        for entry in conversion.entries:
            if entry.path and within(path, entry.path):
                field = re.sub(r"\[\d+\]", "[]", entry.path)
                lines.add(f"{field}: {entry.kind.value}{f' {entry.to}' if entry.to else ''}")
    return "".join(f"{line}\n" for line in sorted(lines))


def test_these_are_all_fields() -> None:
    count = {name: len(list(fields(tree(name), ("spec",)))) for name in RESOURCES}
    assert count == {"kubeflow-v1beta2": 2924, "apache-v1": 2152, "apache-v1beta1": 1727}


@pytest.mark.parametrize("name", RESOURCES)
def test_every_field_is_known(name: str) -> None:
    assert [path for path, _, c in converted(name) if c.refused] == []
    strange = {e.path for _, _, c in converted(name) for e in c.entries if e.message == NOT_KNOWN}
    assert strange == set()


@pytest.mark.parametrize("name", RESOURCES)
def test_the_value_of_a_kept_field_is_in_the_streamjob(name: str) -> None:
    lost = []
    for path, value, conversion in converted(name):
        if isinstance(value, bool) or value in ("", {}) or fate(conversion, path) is not Kind.KEPT:
            continue
        out = set(scalars(conversion.objects))
        wanted = "777Mi" if value == "777m" and path.endswith(("memory", "Limit")) else str(value)
        wanted = SENTINEL if SENTINEL in wanted else wanted
        if not any(wanted in text or wanted.removesuffix("Mi") in text for text in out):
            lost.append(path)
    assert [
        p for p in lost if not re.search(r"memoryOverhead|\.enabled$|secretType|restartPolicy|type$", p)
    ] == []


@pytest.mark.parametrize("name", RESOURCES)
def test_what_becomes_of_each_field(name: str) -> None:
    assert expected(name) == (DATA / "fields" / f"{name}.expected.txt").read_text()


def test_a_field_that_nobody_knows_is_reported() -> None:
    conversion = convert(kubeflow({"newField": {"a": 1, "b": [2]}}))
    unknown = [e for e in conversion.entries if e.message == NOT_KNOWN]
    assert {(e.path, e.kind) for e in unknown} == {
        ("spec.newField.a", Kind.DROPPED),
        ("spec.newField.b[0]", Kind.DROPPED),
    }


SETTING = 'spec.sparkConf["spark.kubernetes.driver.request.cores"]'


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            {"driver": {"memory": "1g"}, "sparkConf": {"spark.driver.memory": "3g"}},
            'spec.sparkConf["spark.driver.memory"]',
            "spec.driver.memory overrides it",
        ),
        (
            {"driver": {"coreRequest": "500m"}, "sparkConf": {"spark.driver.cores": "3"}},
            'spec.sparkConf["spark.driver.cores"]',
            "spec.driver.coreRequest overrides it in spec.driver.cores",
        ),
        (
            {"driver": {"cores": 2}, "sparkConf": {"spark.kubernetes.driver.request.cores": "1"}},
            "spec.driver.cores",
            f"{SETTING} overrides it",
        ),
        (
            {
                "driver": {"coreRequest": "500m", "cores": 2},
                "sparkConf": {"spark.kubernetes.driver.request.cores": "1"},
            },
            "spec.driver.cores",
            "spec.driver.coreRequest overrides it in spec.driver.cores",
        ),
        (
            {"executor": {"instances": 2}, "sparkConf": {"spark.executor.instances": "5"}},
            'spec.sparkConf["spark.executor.instances"]',
            "spec.executor.instances overrides it",
        ),
        (
            {
                "driver": {
                    "labels": {"team": "a"},
                    "template": {"metadata": {"labels": {"team": "b"}}},
                }
            },
            "spec.driver.template.metadata.labels.team",
            "spec.driver.labels.team overrides it in spec.driver.template.metadata.labels",
        ),
        (
            {"driver": {"env": [{"name": "A", "value": "1"}], "envVars": {"A": "2"}}},
            "spec.driver.envVars.A",
            "spec.driver.env[0] overrides it",
        ),
    ],
)
def test_a_field_that_loses_names_the_one_that_wins(spec: Obj, field: str, message: str) -> None:
    (entry,) = (e for e in convert(kubeflow(spec)).entries if e.path == field)
    assert (entry.kind, entry.message) == (Kind.UNNEEDED, message)


def test_what_the_drivers_pod_requests_counts_and_is_said_once() -> None:
    """Beside the cores that Spark's driver is told of, which have no field of their own here."""
    spec = {"driver": {"cores": 2}, "sparkConf": {"spark.kubernetes.driver.request.cores": "500m"}}
    conversion = convert(kubeflow(spec))
    said = [(e.path, e.kind, e.to) for e in conversion.entries if e.path in ("spec.driver.cores", SETTING)]
    assert sorted(said) == [
        ("spec.driver.cores", Kind.UNNEEDED, ""),
        (SETTING, Kind.KEPT, "spec.driver.cores"),
    ]
    assert conversion.objects[-1]["spec"]["driver"]["cores"] == "500m"


if __name__ == "__main__":
    for resource in RESOURCES:
        (DATA / "fields" / f"{resource}.expected.txt").write_text(expected(resource))
