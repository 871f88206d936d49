"""What may become of one of Spark's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import values
from ..draft import FACTOR, Draft
from ..pods import Pod
from ..source import Path, Source, text

CLAIMS = "set driver.claimsOnDemand=true in the chart: the driver needs a permission for claims on demand"
NOT_SUBMITTED = "it is a setting of spark-submit, and a StreamJob's driver is not submitted"
OPERATORS = "the operator sets it"
TEMPLATE_FILE = "copy the file's content into spec.{role}.template"
NO_SERVICE = "the driver has no Service; executors connect to its pod's address"


@dataclass(frozen=True)
class Setting:
    """One setting of the input.

    :param rest: what follows the prefix of the rule.
    """

    draft: Draft
    key: str
    value: str
    path: Path
    rest: str = ""

    @property
    def source(self) -> Source:
        return self.draft.source


Rule = Callable[[Setting], None]


def field(to: str) -> Rule:
    return lambda s: s.draft.keep(s.path, to, s.value)


def dropped(message: str) -> Rule:
    return lambda s: s.source.dropped(s.path, message)


def unneeded(message: str) -> Rule:
    return lambda s: s.source.unneeded(s.path, message)


def kept(s: Setting) -> None:
    s.draft.setting(s.path, s.key, s.value)


def changed(message: str) -> Rule:
    return lambda s: s.draft.setting(s.path, s.key, s.value, message)


def number(name: str) -> Rule:
    def note(s: Setting) -> None:
        if not s.draft.numbers.say(name, s.value, s.path):
            _, by = s.draft.numbers.values[name]
            s.source.unneeded(s.path, f"{text(by)} overrides it")

    return note


def dynamic(s: Setting) -> None:
    if s.draft.numbers.decided:
        s.source.unneeded(s.path, "spec.dynamicAllocation overrides it")
        return
    s.draft.numbers.dynamic = values.truth(s.value)
    s.source.kept(s.path, "spec.executor.dynamicAllocation")


def dependencies(kind: str) -> Rule:
    def add(s: Setting) -> None:
        if kind in s.draft.spec.get("deps", {}):
            s.source.unneeded(s.path, f"spec.deps.{kind} overrides it")
            return
        to = f"spec.deps.{kind}"
        wrong = [f"{e} {m}" for e in values.listed(s.value) if (m := s.draft.dependency(kind, e))]
        if wrong and kind in s.draft.spec.get("deps", {}):
            s.source.changed(s.path, to, f"left out: {'; '.join(wrong)}")
        elif wrong:
            s.source.dropped(s.path, f"{to}: {'; '.join(wrong)}")
        else:
            s.source.kept(s.path, to)

    return add


def overhead(s: Setting) -> None:
    if s.draft.overhead is None:
        s.draft.overhead = values.mebibytes(s.value, s.key)
    s.source.kept(s.path, "spec.driver.template: the container's memory")


def factor(*, driver: bool, executors: bool) -> Rule:
    def apply(s: Setting) -> None:
        if driver and s.draft.overhead_factor is None:
            s.draft.overhead_factor = float(s.value)
        if executors:
            s.draft.conf.setdefault(FACTOR, s.value)
        parts = ["spec.driver.template"] * driver + [f'spec.sparkConf["{FACTOR}"]'] * executors
        s.source.kept(s.path, " and ".join(parts))

    return apply


def image_of(role: str) -> Rule:
    def check(s: Setting) -> None:
        one_image(s.draft, s.path, role)

    return check


def one_image(draft: Draft, path: Path, role: str) -> None:
    """The image of one of the pods: a StreamJob has one for both."""
    image = draft.source.get(path)
    if not image:
        return
    if draft.spec.get("image") in (None, image):
        draft.put("image", image)
        draft.source.kept(path, "spec.image")
    else:
        message = "driver and executors have one image, spec.image: build one that serves both"
        draft.source.dropped(path, message)
        draft.source.decide("spec.image", f"the {role} had another image")


def pull_secrets(s: Setting) -> None:
    s.draft.keep(s.path, "imagePullSecrets", [{"name": name} for name in values.listed(s.value)])


def of_pod(role: str, apply: Callable[[Pod, Setting], None]) -> Rule:
    def run(s: Setting) -> None:
        apply(getattr(s.draft, role), s)

    return run


def both(name: str) -> Rule:
    """A field of both pods' specs."""

    def run(s: Setting) -> None:
        value = {s.rest: s.value} if s.rest else s.value
        for pod in s.draft.pods:
            pod.set(name, value, s.path)

    return run


def secret_variable(pod: Pod, s: Setting) -> None:
    name, _, key = s.value.partition(":")
    reference = {"secretKeyRef": {"name": name, "key": key}}
    pod.variable({"name": s.rest, "valueFrom": reference}, s.path, unless_set=True)


def secret_mount(pod: Pod, s: Setting) -> None:
    volume = {"name": values.volume_name(f"{s.rest}-secret"), "secret": {"secretName": s.rest}}
    s.draft.volumes.mount(pod, volume, {"mountPath": s.value}, s.path)


def named_hadoop_config(s: Setting) -> None:
    config_map(s.draft, s.path, s.value, "hadoop-conf", "/etc/hadoop/conf", "HADOOP_CONF_DIR")


def config_map(draft: Draft, path: Path, name: str, volume: str, folder: str, variable: str) -> None:
    """Mount a ConfigMap into both pods, and name the folder in a variable."""
    for pod in draft.pods:
        source = {"name": volume, "configMap": {"name": name}}
        draft.volumes.mount(pod, source, {"mountPath": folder, "readOnly": True}, path)
        pod.variables[variable] = ({"name": variable, "value": folder}, ())


def location(s: Setting) -> None:
    s.draft.setting(
        s.path,
        s.key,
        s.value,
        "a query without a checkpointLocation of its own gets one below spec.storage.checkpoints: this "
        "setting no longer chooses it",
    )
