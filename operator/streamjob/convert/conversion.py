"""From the documents of the input to StreamJobs and accounts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import draft
from .applications import apache, kubeflow, kubeflow_scheduled
from .draft import Places
from .source import FieldRecord, Kind, Obj, Refused, Source

KUBEFLOW, APACHE = "sparkoperator.k8s.io", "spark.apache.org"
CONVERTERS = {
    (KUBEFLOW, "SparkApplication"): kubeflow.convert,
    (KUBEFLOW, "ScheduledSparkApplication"): kubeflow_scheduled.convert,
    (APACHE, "SparkApplication"): apache.convert,
}
VERSIONS = {KUBEFLOW: ("v1beta2",), APACHE: ("v1", "v1beta1", "v1alpha1")}
REMEDIES = {
    (KUBEFLOW, "SparkConnect"): (
        "it is a Spark Connect server, and a StreamJob's script has the session in its own process",
        "Make a StreamJob for each stream that a client of the server runs",
    ),
    (APACHE, "SparkCluster"): (
        "it is a cluster for many applications, and a StreamJob's driver brings its own executors",
        "Make a StreamJob for each stream that is submitted to the cluster",
    ),
}


@dataclass(frozen=True)
class Conversion:
    """What became of one object of the input.

    :param objects: the StreamJob, after the objects that it needs; empty if it is refused or passed over.
    :param entries: the account of its fields.
    """

    kind: str
    api_version: str
    namespace: str
    name: str
    objects: tuple[Obj, ...] = ()
    entries: tuple[FieldRecord, ...] = ()
    refused: Refused | None = None

    @property
    def passed_over(self) -> bool:
        """Whether the object is none of the two operators'."""
        return not self.objects and self.refused is None

    def of_kind(self, kind: Kind) -> tuple[FieldRecord, ...]:
        return tuple(entry for entry in self.entries if entry.kind is kind)


def convert_all(documents: Iterable[Any], places: Places) -> Iterator[Conversion]:
    """Convert each object; a List is the objects in it.

    :param places: what the user has decided already.
    """
    for document in documents:
        if not isinstance(document, dict):
            if document is not None:
                refusal = Refused(
                    "the document is no Kubernetes object", remedy="Give YAML or JSON of kubectl"
                )
                yield Conversion("", "", "", "", refused=refusal)
        elif str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
            yield from convert_all(document["items"], places)
        else:
            yield _convert(document, places)


def _convert(document: Obj, places: Places) -> Conversion:
    metadata = document.get("metadata") or {}
    kind, api_version = str(document.get("kind", "")), str(document.get("apiVersion", ""))
    group, _, version = api_version.partition("/")
    namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
    base = Conversion(kind, api_version, namespace, name)
    if group not in VERSIONS:
        return base
    try:
        if (group, kind) not in CONVERTERS:
            message, remedy = REMEDIES.get((group, kind), (f"{kind} is no SparkApplication", ""))
            raise Refused(message, remedy=remedy)
        if version not in VERSIONS[group]:
            known = ", ".join(VERSIONS[group])
            raise Refused(f"{api_version} is not {known}", remedy="Read it from the cluster with kubectl get")
        source = Source(document)
        source.unneeded(("apiVersion",), "a StreamJob has its own")
        source.unneeded(("kind",), "a StreamJob has its own")
        own, meta, result = CONVERTERS[group, kind](source, places)
    except Refused as e:
        return Conversion(kind, api_version, namespace, name, refused=e)
    objects = (*result.objects, draft.job(own, meta, result.spec))
    return Conversion(kind, api_version, namespace, name, objects, source.finish())
