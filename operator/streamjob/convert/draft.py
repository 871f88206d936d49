"""The StreamJob under construction. What depends on several fields of the input is decided at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..api import GROUP, KIND, VERSION, StreamJob
from ..api.deps import Exclusion, File, Package, PyFile, Repository
from ..api.pods.executor import MOST
from ..api.program import EnvVarSource
from ..api.spec import Spec
from . import values
from .pods import DRIVER, EXECUTOR, Pod
from .source import Obj, Path, Refused, Source
from .volumes import Volumes

DEPENDENCIES = {
    "jars": TypeAdapter(File),
    "packages": TypeAdapter(Package),
    "excludePackages": TypeAdapter(Exclusion),
    "repositories": TypeAdapter(Repository),
    "pyFiles": TypeAdapter(PyFile),
    "files": TypeAdapter(File),
}
OVERHEAD_FACTOR, OVERHEAD_MIN = 0.4, 384  # Spark's defaults for PySpark, and those of our driver's pod
FACTOR = "spark.executor.memoryOverheadFactor"
OWN_SOURCES = {source.alias for source in EnvVarSource.model_fields.values()}


@dataclass
class Numbers:
    """What the input says about the number of executors, and where."""

    dynamic: bool = False
    decided: bool = False  # by a field of the resource, so that no setting changes `dynamic`
    values: dict[str, tuple[Any, Path]] = field(default_factory=dict)

    def say(self, name: str, value: Any, path: Path) -> bool:
        """Note a value, unless there is one: fields of the resource are read before Spark's settings."""
        if name in self.values:
            return False
        self.values[name] = (value, path)
        return True


@dataclass(frozen=True)
class Places:
    """What the user has decided already."""

    checkpoints: str | None = None
    savepoints: str | None = None
    restore: dict[str, str] = field(default_factory=dict)


class Draft:
    """A StreamJob, and the account of the object that it is made from."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.spec: Obj = {}
        self.driver = Pod(DRIVER, source)
        self.executor = Pod(EXECUTOR, source)
        self.volumes = Volumes(source)
        self.numbers = Numbers()
        self.overhead: int | None = None  # of the driver, in mebibytes
        self.overhead_factor: float | None = None  # of the driver
        self.objects: list[Obj] = []  # what the StreamJob needs beside it

    @property
    def pods(self) -> tuple[Pod, Pod]:
        return self.driver, self.executor

    @property
    def conf(self) -> dict[str, str]:
        conf: dict[str, str] = self.spec.setdefault("sparkConf", {})
        return conf

    def has(self, to: str) -> bool:
        value: Any = self.spec
        for part in to.split("."):
            if not isinstance(value, dict) or part not in value:
                return False
            value = value[part]
        return True

    def put(self, to: str, value: Any) -> None:
        """Set a field of the spec, such as `driver.memory`."""
        *parents, last = to.split(".")
        into = self.spec
        for part in parents:
            into = into.setdefault(part, {})
        into[last] = value

    def keep(self, path: Path, to: str, value: Any) -> None:
        """Set a field of the spec that has the same meaning, unless another field of the input has set it."""
        if self.source.get(path) is None:
            return
        if self.has(to):
            self.source.overridden(path, f"spec.{to}")
            return
        self.put(to, value)
        self.source.kept(path, f"spec.{to}")

    def setting(self, path: Path, key: str, value: Any, difference: str = "") -> None:
        """Give Spark a setting, unless there is one."""
        to = f'spec.sparkConf["{key}"]'
        if key in self.conf:
            self.source.overridden(path, to)
            return
        self.conf[key] = values.string(value)
        if difference:
            self.source.changed(path, to, difference)
        else:
            self.source.kept(path, to)

    def dependency(self, kind: str, entry: Any) -> str:
        """Add an entry to a list of `deps`.

        :returns: why it cannot be added; empty if it is.
        """
        try:
            DEPENDENCIES[kind].validate_python(entry)
        except ValidationError as e:
            return e.errors()[0]["msg"].removeprefix("Value error, ")
        entries = self.spec.setdefault("deps", {}).setdefault(kind, [])
        if entry not in entries:
            entries.append(entry)
        return ""

    def dependencies(self, path: Path, kind: str) -> None:
        """Add a list of the input to one of `deps`."""
        for child in self.source.children(path):
            if wrong := self.dependency(kind, self.source.get(child)):
                self.source.dropped(child, f"an entry of spec.deps.{kind} {wrong}")
            else:
                self.source.kept(child, f"spec.deps.{kind}")

    def finish(self, places: Places, default_executors: int) -> Obj:
        """The spec.

        :param default_executors: how many there are if the input does not say.
        :raises Refused: the input has values that no StreamJob may have.
        """
        self._numbers(default_executors)
        self._memory()
        storage = self.volumes.place(self.pods)
        self._variables()
        for pod in self.pods:
            if template := pod.template():
                self.put(f"{pod.role}.template", template)
        self._decide(places, storage)
        if not self.conf:
            del self.spec["sparkConf"]
        order = [str(f.alias) for f in Spec.model_fields.values()]
        self.spec = dict(sorted(self.spec.items(), key=lambda item: order.index(item[0])))
        self._check()
        return self.spec

    def _numbers(self, default: int) -> None:
        if self.numbers.dynamic:
            self._dynamic_allocation()
        else:
            self._instances(default)

    def _instances(self, default: int) -> None:
        said, source, to = self.numbers.values, self.source, "spec.executor.instances"
        count, path = said.pop("instances", (None, ()))
        for _, other in said.values():
            source.unneeded(other, "dynamic allocation is off")
        wanted = default
        if count is None:
            source.default(to, f"{default}, which is the other operator's default")
        else:
            wanted = values.number(count, "the number of executors")
        self.put("executor.instances", min(wanted, MOST))
        if wanted > MOST:
            source.changed(path, to, f"{MOST} is the most")
        elif not wanted:
            source.changed(path, to, "with 0 executors, the driver runs the tasks, as local[*]")
        elif path:
            source.kept(path, to)

    def _dynamic_allocation(self) -> None:
        said, source, to = self.numbers.values, self.source, "spec.executor.dynamicAllocation"
        least = values.number(said.get("min", (0, ()))[0], "the least number of executors")
        most = values.number(said.get("max", (MOST, ()))[0], "the most executors")
        bounded = min(max(most, 1), MOST)
        bounds = {"min": min(least, bounded), "max": bounded}
        self.put("executor.dynamicAllocation", bounds)
        if "max" not in said:
            source.default(f"{to}.max", f"{MOST}; Spark's default is no bound")
        for name, bound in bounds.items():
            if name in said and bound == int(said[name][0]):
                source.kept(said[name][1], f"{to}.{name}")
            elif name in said:
                message = f"{bound}: max is from 1 to {MOST}, and min not above it"
                source.changed(said[name][1], f"{to}.{name}", message)
        if "idle" in said:
            time = max(1, values.seconds(said["idle"][0], "the idle timeout"))
            self.put("executor.dynamicAllocation.idleTimeout", values.duration(time))
            source.kept(said["idle"][1], f"{to}.idleTimeout")
        for name in ("initial", "instances"):
            if name in said:
                source.dropped(said[name][1], "dynamic allocation starts with its min")

    def _memory(self) -> None:
        heap = values.mebibytes(self.spec.get("driver", {}).get("memory", 1024), "spec.driver.memory")
        if "memory" in self.spec.get("driver", {}):
            self.put("driver.memory", values.memory(heap))
        overhead, factor = self.overhead, self.overhead_factor
        if overhead is None and factor is not None and factor != OVERHEAD_FACTOR:
            overhead = max(int(heap * factor), OVERHEAD_MIN)
        if overhead is not None:
            whole = f"{heap + overhead}Mi"
            self.driver.amount("requests", "memory", whole)
            self.driver.container["resources"].setdefault("limits", {}).setdefault("memory", whole)
        if "memory" in self.spec.get("executor", {}):
            size = values.mebibytes(self.spec["executor"]["memory"], "spec.executor.memory")
            self.put("executor.memory", values.memory(size))

    def _variables(self) -> None:
        own: list[Obj] = []
        rest: list[Obj] = []
        for variable, path in self.driver.variables.values():
            strange = set(variable.get("valueFrom") or {}) - OWN_SOURCES
            (rest if strange else own).append(variable)
            to = f"{self.driver.at}.spec.containers[driver].env" if strange else "spec.application.env"
            if path:
                self.source.kept(path, to)
        if own:
            self.put("application.env", own)
        if rest:
            self.driver.container["env"] = rest
        executors = list(self.executor.variables.values())
        for _, path in executors:
            self.source.kept(path, f"{self.executor.at}.spec.containers[executor].env")
        if executors:
            self.executor.container["env"] = [variable for variable, _ in executors]

    def _decide(self, places: Places, storage: Obj) -> None:
        source = self.source
        if "image" not in self.spec:
            source.decide("spec.image", "an image with Spark 3.5 to 4.3, Python and the program")
        wanted = {"checkpoints": places.checkpoints, "savepoints": places.savepoints}
        for name, value in wanted.items():
            if value is None:
                source.decide(
                    f"spec.storage.{name}",
                    f"where the job's {name} go: a location that driver and executors reach, such as "
                    f"s3a://bucket/{name} (or convert with --{name})",
                )
        storage = {**{name: value for name, value in wanted.items() if value is not None}, **storage}
        if storage:
            self.put("storage", storage)
        if places.restore:
            self.put("restoreFrom.checkpoints", dict(places.restore))

    def _check(self) -> None:
        """:raises Refused: the spec does not fit into the resource."""
        whole = {
            "metadata": {"name": "x", "namespace": "x", "uid": "x", "generation": 1, "resourceVersion": "1"},
            "spec": {
                "image": "x",
                **self.spec,
                "storage": {"checkpoints": "/x", "savepoints": "/x", **self.spec.get("storage", {})},
            },
        }
        try:
            StreamJob.parse(whole)
        except ValidationError as e:
            first = e.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            message = first["msg"].removeprefix("Value error, ")
            raise Refused(f"{place}: {message}", remedy="Correct it in the SparkApplication") from None


def job(name: str, metadata: Obj, spec: Obj) -> Obj:
    """The whole object."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }
