"""SparkApplications of Apache's Spark operator, `spark.apache.org` v1, v1beta1 and v1alpha1."""

from __future__ import annotations

from .. import values
from ..draft import Draft, Places
from ..pods import Pod
from ..source import Obj, Path, Refused, Source
from . import ui
from .metadata import file_of, metadata_of, name_of, old_state, version
from .policies import RESTARTS_MOST, backoff, grace_period, never
from .spark_conf import settings_of, translate

SPEC: Path = ("spec",)
TOLERATIONS: Path = (*SPEC, "applicationTolerations")
DEFAULT_EXECUTORS = 2  # Spark's own
PYTHON_RUNNER = "org.apache.spark.deploy.PythonRunner"
VERSION_OF_IMAGE = "{{SPARK_VERSION}}"
STAYS = (
    "a StreamJob stays until it is deleted, so that it can be resumed; restart.failedDriversHistoryLimit "
    "says how many pods of failed drivers stay with it"
)
DROPPED = {
    "proxyUser": "the driver runs as its own user: give its service account or keytab the permissions",
    "driverGrpcRouteList": ui.OTHER_PORTS,
}
DROPPED_TOLERATIONS = {
    "applicationTimeoutConfig": "the job waits until its pods start; the status says what it waits for, and "
    "upgrade.startTimeout bounds the start of an upgrade's driver",
    "instanceConfig": "the job runs with the executors that it gets; status.executors has their number",
    "resourceRetainDurationMillis": STAYS,
    "ttlAfterStopMillis": STAYS,
}


def convert(source: Source, places: Places) -> tuple[str, Obj, Draft]:
    """The name, the metadata and the draft of the StreamJob.

    :raises Refused: the application is no Python program, or has values that no StreamJob may have.
    """
    _refuse_other_languages(source)
    name, metadata = name_of(source), metadata_of(source)
    draft = Draft(source)
    _program(draft)
    _restarts(draft)
    _retained(draft)
    translate(draft, _settings(source))
    for pod in draft.pods:
        _template(draft, pod)
    _defaults(draft)
    ui.of_apache(draft, (*SPEC, "driverServiceIngressList"), (*SPEC, "driverHttpRouteList"))
    draft.finish(places, DEFAULT_EXECUTORS)
    old_state(draft)
    for at, messages in ((SPEC, DROPPED), (TOLERATIONS, DROPPED_TOLERATIONS)):
        for field, message in messages.items():
            source.dropped((*at, field), message)
    _config_maps(draft, metadata)
    return name, metadata, draft


def _refuse_other_languages(source: Source) -> None:
    get = source.get
    language = (
        "Java or Scala"
        if get((*SPEC, "jars")) or not (get((*SPEC, "pyFiles")) or get((*SPEC, "sparkRFiles")))
        else ""
        if get((*SPEC, "pyFiles"))
        else "R"
    )
    if language:
        main = get((*SPEC, "mainClass"))
        raise Refused(
            f"its program is in {language}{f' ({main})' if main else ''}, and a StreamJob's is in Python",
            remedy="It stays a SparkApplication; StreamJob has no runtime for other languages",
        )


def _program(draft: Draft) -> None:
    source = draft.source
    path: Path = (*SPEC, "pyFiles")
    file, *more = values.listed(source.get(path))
    draft.put("application.file", file_of(file))
    wrong = [f"{entry} {message}" for entry in more if (message := draft.dependency("pyFiles", entry))]
    if wrong:
        source.changed(path, "spec.application.file and deps.pyFiles", f"left out: {'; '.join(wrong)}")
    source.kept(path, "spec.application.file and deps.pyFiles")
    arguments = [values.string(a) for a in source.get((*SPEC, "driverArgs"), [])]
    draft.keep((*SPEC, "driverArgs"), "application.args", arguments)
    files: Path = (*SPEC, "files")
    if source.get(files):
        wrong = [f"{e} {m}" for e in values.listed(source.get(files)) if (m := draft.dependency("files", e))]
        message = "the Apache operator ignores the field; here executors get the files"
        source.changed(files, "spec.deps.files", "; ".join([message, *wrong]))
    source.unneeded((*SPEC, "mainClass"), "a Python program has none")
    source.unneeded((*SPEC, "sparkRFiles"), "the program is Python")
    source.unneeded((*SPEC, "deploymentMode"), "the driver always runs in a pod of its own")
    version(source, (*SPEC, "runtimeVersions", "sparkVersion"))
    source.unneeded((*SPEC, "runtimeVersions"), "the image has them")


def _settings(source: Source) -> dict[str, tuple[str, Path]]:
    """The settings, with Spark's version in the names of images."""
    spark = str(source.get((*SPEC, "runtimeVersions", "sparkVersion"), "UNKNOWN"))
    found = settings_of(source, (*SPEC, "sparkConf"))
    for key, (value, path) in found.items():
        if key.startswith("spark.kubernetes.") and key.endswith("container.image"):
            found[key] = (value.replace(VERSION_OF_IMAGE, spark), path)
    return found


def _template(draft: Draft, pod: Pod) -> None:
    source = draft.source
    template: Path = (*SPEC, f"{pod.role}Spec", "podTemplateSpec")
    spec: Path = (*template, "spec")
    if pod is draft.driver:
        grace_period(draft, (*spec, "terminationGracePeriodSeconds"))
        account: Path = (*spec, "serviceAccountName")
        draft.keep(account, "driver.serviceAccountName", source.get(account))
    named = f"spark.kubernetes.{pod.role}.podTemplateContainerName"
    container = source.get((*SPEC, "sparkConf"), {}).get(named)
    source.unneeded((*spec, "serviceAccount"), "it is the old name of serviceAccountName")
    pod.merge(template, container=container, first=True)


def _restarts(draft: Draft) -> None:
    source = draft.source
    at: Path = (*TOLERATIONS, "restartConfig")
    policy: Path = (*at, "restartPolicy")
    kind = source.get(policy, "Never")
    if kind == "Never":
        never(draft, policy, at)
        return
    draft.put("restart.policy", "OnFailure")
    if kind != "OnFailure":
        message = "OnFailure: a script that has ended with 0 is Finished, and failures are not told apart"
        source.changed(policy, "spec.restart.policy", message)
    source.kept(policy, "spec.restart.policy")
    general: Path = (*at, "maxRestartAttempts")
    limit: Path = (*at, "maxRestartOnFailure")
    chosen = limit if source.get(limit) is not None else general
    restarts = values.number(source.get(chosen, 3), "the number of restarts")
    draft.put("restart.limit", min(max(restarts, 0), RESTARTS_MOST))
    source.changed(chosen, "spec.restart.limit", "it counts failures in a row")
    interval: Path = (*at, "restartBackoffMillisForFailure")
    delay = interval if source.get(interval) is not None else (*at, "restartBackoffMillis")
    millis = values.number(source.get(delay, 30000), "the backoff")
    draft.put("restart.backoff", backoff(-(-millis // 1000)))
    source.changed(delay, "spec.restart.backoff", "it doubles with each failure in a row")
    source.dropped((*at, "restartCounterResetMillis"), "ten minutes of running reset the count")
    source.dropped(at, "there is one limit and one backoff for all kinds of failures")


def _retained(draft: Draft) -> None:
    """What stays of a driver that has ended."""
    source, policy = draft.source, (*TOLERATIONS, "resourceRetainPolicy")
    field, kind = "restart.failedDriversHistoryLimit", source.get(policy)
    if kind == "Never":
        draft.put(field, 0)
        source.changed(policy, f"spec.{field}", "without it, the pod of a failed driver stays for its log")
    elif kind is not None:
        draft.put(field, 1)
        message = "the pod of the newest failed driver stays, and its executors go"
        source.changed(policy, f"spec.{field}", message + ("; others go" if kind == "Always" else ""))


def _defaults(draft: Draft) -> None:
    for key in ("spark.authenticate", "spark.io.encryption.enabled"):
        if key not in draft.conf:
            message = "the Apache operator turns it on unless it is set; set it to true to keep that"
            draft.source.default(f'spec.sparkConf["{key}"]', message)


def _config_maps(draft: Draft, metadata: Obj) -> None:
    """ConfigMaps that the other operator makes for the application."""
    source = draft.source
    for child in source.children((*SPEC, "configMapSpecs")):
        own = {key: metadata[key] for key in ("namespace",) if key in metadata}
        own |= {
            key: source.get((*child, key)) for key in ("labels", "annotations") if source.get((*child, key))
        }
        name = source.get((*child, "name"))
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, **own},
            "data": source.get((*child, "data"), {}),
        }
        draft.objects.append(body)
        source.changed(
            child, f"ConfigMap {name}", "an object of its own, which stays when the job is deleted"
        )
