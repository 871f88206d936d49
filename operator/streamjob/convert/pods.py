"""The pod templates of the StreamJob, under construction."""

from __future__ import annotations

from typing import Any

from ..api.pods.template import OURS, SPARK_LABELS, TAKEN_PATHS
from ..api.program import SECRET_ENV
from .source import Obj, Path, Source, text

DRIVER, EXECUTOR = "driver", "executor"
# What Spark, or the Kubeflow operator, calls its containers.
SPARK_CONTAINERS = ("spark-kubernetes-driver", "spark-kubernetes-executor")
OF_THE_OPERATOR = "the operator sets it"
RESTARTS = "a restart of the driver is a new epoch, and Spark replaces an executor"
LIFECYCLE = "it is Spark's in an executor, which is decommissioned before its end"
CREDENTIAL = (
    "a credential must not stand in the StreamJob, which more people may read than a Secret: put it into a "
    "Secret, and name that in valueFrom.secretKeyRef"
)
PATH_TAKEN = "the operator mounts an emptyDir or its own files there: choose another path"
# Fields of a template that are read on their own.
READ = {
    DRIVER: (
        "containers",
        "volumes",
        "serviceAccount",
        "serviceAccountName",
        "terminationGracePeriodSeconds",
    ),
    EXECUTOR: ("containers", "volumes", "serviceAccount"),
}
# Fields of a pod's spec that a template of ours refuses, and of Spark's container in it.
NOT_IN_SPEC = {
    DRIVER: {
        "restartPolicy": RESTARTS,
        "automountServiceAccountToken": "the operator mounts a token where the driver needs one",
    },
    EXECUTOR: {"restartPolicy": RESTARTS},
}
NOT_IN_CONTAINER = {
    DRIVER: {
        "args": "the operator starts the driver; the program's are spec.application.args",
        "terminationMessagePath": OF_THE_OPERATOR,
        "terminationMessagePolicy": OF_THE_OPERATOR,
    },
    EXECUTOR: {
        "command": "Spark starts the executor",
        "args": "Spark starts the executor",
        "lifecycle": LIFECYCLE,
    },
}


class Pod:
    """The template of the driver's pod or of the executors', and the variables of Spark's container in it."""

    def __init__(self, role: str, source: Source) -> None:
        self.role = role
        self.source = source
        self.at = f"spec.{role}.template"
        self.labels: dict[str, str] = {}
        self.annotations: dict[str, str] = {}
        self.spec: Obj = {}
        self.container: Obj = {}
        self.variables: dict[str, tuple[Obj, Path]] = {}  # by name, and where each comes from

    def set(self, field: str, value: Any, path: Path, *, source_is: str = "") -> None:
        """Set a field of the pod's spec. A list or an object gets more entries; else what is set first stays.

        :param source_is: what is different from the input; empty if nothing is.
        """
        self._set(self.spec, field, value, path, f"{self.at}.spec.{field}", source_is)

    def set_in_container(self, field: str, value: Any, path: Path, *, source_is: str = "") -> None:
        """The same in Spark's container."""
        to = f"{self.at}.spec.containers[{self.role}].{field}"
        self._set(self.container, field, value, path, to, source_is)

    def amount(self, kind: str, resource: str, amount: str) -> None:
        """Set what Spark's container requests, or its limit.

        :param kind: `requests` or `limits`.
        """
        self.container.setdefault("resources", {}).setdefault(kind, {})[resource] = amount

    def label(self, key: str, value: Any, path: Path) -> None:
        """Set a label, unless it is set."""
        if key.startswith(OURS) or key in SPARK_LABELS:
            self.source.unneeded(path, f"{OURS}* and Spark's own labels are set by themselves")
            return
        self._set(self.labels, key, str(value), path, f"{self.at}.metadata.labels", "")

    def annotation(self, key: str, value: Any, path: Path) -> None:
        """Set an annotation, unless it is set."""
        if key.startswith(OURS):
            self.source.unneeded(path, f"{OURS}* is set by the operator")
            return
        self._set(self.annotations, key, str(value), path, f"{self.at}.metadata.annotations", "")

    def variable(self, variable: Obj, path: Path, *, unless_set: bool = False) -> None:
        """Set a variable of Spark's container.

        :param unless_set: keep the variable of that name if there is one; else the later one counts.
        """
        name = str(variable.get("name", ""))
        if name.startswith("STREAMJOB_") or name in ("POD_IP", "POD_NAME"):
            self.source.dropped(path, "the operator has a variable of that name: choose another")
            return
        if name in SECRET_ENV and variable.get("value"):
            self.source.dropped(path, CREDENTIAL)
            self.source.decide("spec.application.env", f"a Secret for {name}")
            return
        of_field = (variable.get("valueFrom") or {}).get("resourceFieldRef") or {}
        if of_field.get("containerName") in SPARK_CONTAINERS:
            of_field = {**of_field, "containerName": self.role}
            variable = {**variable, "valueFrom": {"resourceFieldRef": of_field}}
        if name in self.variables and unless_set:
            self.source.unneeded(path, f"{text(self.variables[name][1])} overrides it")
            return
        if name in self.variables:
            self.source.unneeded(self.variables[name][1], f"{text(path)} overrides it")
        self.variables[name] = (variable, path)

    def sidecar(self, container: Obj, path: Path) -> None:
        """Add a container beside Spark's."""
        if not container.get("image") or container.get("name") in (DRIVER, EXECUTOR):
            self.source.dropped(path, "it has no image, or the name of Spark's own container")
            return
        self.set("containers", [container], path)

    def merge(self, path: Path, *, container: str | None, first: bool) -> None:
        """Take a pod template of the input, without what a template of ours refuses.

        :param container: how the input calls Spark's container.
        :param first: without a container of that name, the first one is Spark's.
        """
        metadata, spec = (*path, "metadata"), (*path, "spec")
        for child in self.source.children((*metadata, "labels")):
            self.label(str(child[-1]), self.source.get(child), child)
        for child in self.source.children((*metadata, "annotations")):
            self.annotation(str(child[-1]), self.source.get(child), child)
        self.source.dropped(metadata, "of the metadata, only labels and annotations are the user's")
        containers = self.source.children((*spec, "containers"))
        named = [c for c in containers if self.source.get((*c, "name")) == container]
        spark = (named or (containers if first else []))[:1]
        for child in spark:
            self._merge_container(child)
        for child in containers:
            if child not in spark:
                self.sidecar(self.source.get(child), child)
        for child in self.source.children((*spec, "volumes")):
            if str(self.source.get((*child, "name"))).startswith("streamjob-"):
                self.source.dropped(child, "names of volumes that begin with streamjob- are taken")
            else:
                self.set("volumes", [self.source.get(child)], child)
        for child in self.source.children(spec):
            field = str(child[-1])
            if field in NOT_IN_SPEC[self.role]:
                self.source.dropped(child, NOT_IN_SPEC[self.role][field])
            elif field not in READ[self.role]:
                self.set(field, self.source.get(child), child)

    def _merge_container(self, path: Path) -> None:
        self.source.unneeded((*path, "name"), f"the container is called {self.role}")
        for child in self.source.children(path):
            field = str(child[-1])
            value = self.source.get(child)
            if field == "env":
                for entry in self.source.children(child):
                    self.variable(self.source.get(entry), entry, unless_set=True)
            elif field == "resources":
                self._merge_resources(child)
            elif field == "volumeMounts":
                for entry in self.source.children(child):
                    self.mount(self.source.get(entry), entry)
            elif field == "image":
                self.source.unneeded(child, "Spark's own container has the image of the job")
            elif field in NOT_IN_CONTAINER[self.role]:
                self.source.dropped(child, NOT_IN_CONTAINER[self.role][field])
            elif field != "name":
                self.set_in_container(field, value, child)

    def _merge_resources(self, path: Path) -> None:
        for resource in ("cpu", "memory"):
            overridden = "Spark computes it from its cores and memory, also where a template has it"
            self.source.unneeded((*path, "requests", resource), overridden)
            if resource == "memory":
                self.source.unneeded((*path, "limits", resource), overridden)
        for kind in ("requests", "limits"):
            for child in self.source.children((*path, kind)):
                resource = str(child[-1])
                if resource == "memory" or (resource, kind) == ("cpu", "requests"):
                    continue
                to = f"{self.at}.spec.containers[{self.role}].resources.{kind}"
                amounts = self.container.setdefault("resources", {}).setdefault(kind, {})
                self._set(amounts, resource, str(self.source.get(child)), child, to, "")
        for child in self.source.children(path):
            if child[-1] not in ("requests", "limits"):
                self.container.setdefault("resources", {})[child[-1]] = self.source.get(child)
                self.source.kept(child, f"{self.at}.spec.containers[{self.role}].resources")

    def mount(self, mount: Obj, path: Path) -> None:
        """Mount a volume into Spark's container."""
        if mount.get("mountPath") in TAKEN_PATHS:
            self.source.dropped(path, PATH_TAKEN)
        else:
            self.set_in_container("volumeMounts", [mount], path)

    def template(self) -> Obj:
        """The template; empty if there is nothing in it."""
        metadata = {"labels": self.labels, "annotations": self.annotations}
        metadata = {key: value for key, value in metadata.items() if value}
        spec = dict(self.spec)
        if self.container:
            spec["containers"] = [{"name": self.role, **self.container}, *spec.get("containers", ())]
        return {key: value for key, value in {"metadata": metadata, "spec": spec}.items() if value}

    def _set(self, into: Obj, field: str, value: Any, path: Path, to: str, difference: str) -> None:
        old = into.get(field)
        if isinstance(old, list) and isinstance(value, list):
            into[field] = [*old, *(entry for entry in value if entry not in old)]
        elif isinstance(old, dict) and isinstance(value, dict):
            self._overridden(old, value, path, to)
            into[field] = {**value, **old}
        elif field in into and old != value:
            self.source.overridden(path, to)
        else:
            into[field] = value
        if difference:
            self.source.changed(path, to, difference)
        else:
            self.source.kept(path, to)

    def _overridden(self, old: Obj, value: Obj, path: Path, to: str) -> None:
        for key in value:
            if key in old and old[key] != value[key]:
                self.source.overridden((*path, key), to)
