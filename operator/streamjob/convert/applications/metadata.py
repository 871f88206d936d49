"""The metadata of the object, and what both operators' SparkApplications have in common."""

from __future__ import annotations

from ...api.deps import FILE_RULES
from .. import values
from ..draft import Draft
from ..source import Obj, Path, Refused, Source
from .spark_conf import LOCATION

METADATA: Path = ("metadata",)
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUEUE = "kueue.x-k8s.io/"
KUEUE_LABEL = (
    "Kueue does not know StreamJobs: for plain pods, put the label into spec.driver.template and "
    "spec.executor.template; or let a queue controller set spec.suspend"
)
OLDEST, NEWEST = (3, 5), (4, 3)


def name_of(source: Source) -> str:
    """The StreamJob's name.

    :raises Refused: the object has none.
    """
    path: Path = (*METADATA, "name")
    if not source.get(path):
        path = (*METADATA, "generateName")
    name = source.get(path)
    if not name:
        raise Refused("a SparkApplication without metadata.name", remedy="Give it a name")
    plain = values.job_name(str(name))
    if plain == name:
        source.kept(path, "metadata.name")
    else:
        message = "a StreamJob's name has at most 40 lower-case letters, digits and '-'"
        source.changed(path, "metadata.name", f"{plain}: {message}")
    return plain


def metadata_of(source: Source) -> Obj:
    """Namespace, labels and annotations."""
    out: Obj = {}
    namespace = (*METADATA, "namespace")
    if source.get(namespace):
        out["namespace"] = source.get(namespace)
        source.kept(namespace, "metadata.namespace")
    for kind in ("labels", "annotations"):
        for child in source.children((*METADATA, kind)):
            key = str(child[-1])
            if key == APPLIED:
                source.unneeded(child, "kubectl apply writes it again")
            elif key.startswith(KUEUE):
                source.dropped(child, KUEUE_LABEL)
            else:
                out.setdefault(kind, {})[key] = str(source.get(child))
                source.kept(child, f"metadata.{kind}")
    for field in ("finalizers", "ownerReferences"):
        source.dropped((*METADATA, field), "it belongs to the old object: who owns the new one sets it again")
    source.unneeded(METADATA, "the API server sets it")
    source.unneeded(("status",), "it is the state of the old object")
    return out


def file_of(uri: str) -> str:
    """The value of `application.file`: a path in the image, or a URI.

    :raises Refused: no driver can fetch it.
    """
    file = uri.removeprefix("local://")
    for pattern, message in FILE_RULES:
        if ":/" in file and not values.matches(pattern, file):
            raise Refused(f"the program {uri!r} {message}", remedy="Name one file, without options")
    return file


def version(source: Source, path: Path) -> None:
    """Spark's version, which the image has."""
    said = str(source.get(path, ""))
    found = tuple(int(part) for part in said.split(".")[:2] if part.isdigit())
    source.unneeded(path, "the driver asks the Spark of its image for its version")
    if len(found) == 2 and not OLDEST <= found <= NEWEST:
        source.decide("spec.image", f"an image with Spark 3.5 to 4.3: this one has {said}")


def old_state(draft: Draft) -> None:
    """Say how the job continues from the state of the old one."""
    source = draft.source
    if "restoreFrom" in draft.spec:
        return
    hints = _locations(draft)
    root = draft.conf.get(LOCATION)
    if root:
        hints = [f"{root.rstrip('/')}/QUERY", *(hint for hint in hints if hint != root)]
    where = f" ({', '.join(dict.fromkeys(hints))}?)" if hints else ""
    source.decide(
        "spec.restoreFrom.checkpoints",
        f"{{QUERY: URI}}, the checkpoint directories of the old job's queries{where}, by query name, main "
        "for a query without one (or convert with --restore QUERY=URI). They are copied; the old job must "
        "have ended. A query whose script sets checkpointLocation goes on in that directory anyway. Without "
        "either, the job reads everything again",
    )


def _locations(draft: Draft) -> list[str]:
    """Arguments and variables that look like a checkpoint directory, or whose name says so."""
    application = draft.spec.get("application", {})
    arguments = application.get("args", [])
    named = [*zip(["", *arguments], arguments, strict=False)]
    named += [(v["name"], v["value"]) for v in application.get("env", ()) if v.get("value")]
    return [
        text.rpartition("=")[2]
        for name, text in named
        if "/" in text and "checkpoint" in (text if text.startswith("-") else f"{name} {text}").lower()
    ]
