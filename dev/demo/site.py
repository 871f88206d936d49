"""The site of the demonstration and the end-to-end tests: a cluster with the images and the installed chart.

The cluster is the local one of dev.cluster or, with CLUSTER=context, one of the user's own. There we own only
a namespace and, if it was missing, the CustomResourceDefinition. The user must provide the images where that
cluster's nodes can pull them.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace

from dev.cluster import lifecycle
from dev.cluster.layout import REPOSITORY, Layout
from dev.cluster.volumes import CLASS
from dev.demo.console import Console
from dev.demo.kubectl import LATER, LIMIT, Kubectl, Object
from dev.demo.programs import stream
from dev.demo.waiting import PATIENCE, Failure, until
from dev.images import build, sparks

CHART = REPOSITORY / "charts" / "streamjob"
DEFINITION = "streamjobs.streamjob.dev"
PREFIX = "streamjob.dev"
MADE_DEFINITION = "streamjob.dev/made-definition"
MADE_FOR = "streamjob.dev/made-for"


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    :param context: kubeconfig context of the user's cluster; empty for the local cluster.
    :param images: prefix of the images' names.
    :param keep: leave everything in place at the end.
    :param spark: the line of Spark in the jobs' image.
    :param stock: run the demonstration's job in an image as Spark's own Dockerfiles make it (dev/stock).
    """

    context: str
    images: str
    keep: bool
    spark: str = sparks.DEFAULT
    stock: bool = False

    @staticmethod
    def from_environment() -> "Settings":
        """:raises Failure: a variable has a value that does not exist."""
        env = os.environ
        spark, image = env.get("SPARK") or sparks.DEFAULT, env.get("IMAGE", "")
        if spark not in (known := sorted((sparks.DEFAULT, *sparks.OTHERS))):
            raise Failure(f"SPARK={spark}: there is none", f"Use one of {', '.join(known)}")
        if image not in ("", "stock"):
            raise Failure(f"IMAGE={image}: there is none", "Use IMAGE=stock, or leave it out")
        return Settings(
            env.get("CLUSTER", ""),
            env.get("IMAGES") or PREFIX,
            env.get("KEEP", "") not in ("", "0"),
            spark,
            image == "stock",
        )

    def image(self, name: str) -> str:
        return f"{self.images}/{build.short(name, self.spark)}"

    @property
    def driver(self) -> str:
        """The short name of the image in which the demonstration's job runs."""
        return "stock-kafka" if self.stock else "driver"


@dataclass(frozen=True)
class Site:
    """A namespace of a cluster.

    :param booted: whether we booted the cluster, and so have to end it.
    """

    settings: Settings
    kubectl: Kubectl
    helm: str
    booted: bool = False

    @property
    def namespace(self) -> str:
        return self.kubectl.namespace

    @property
    def local(self) -> bool:
        return not self.settings.context

    def within(self, namespace: str) -> "Site":
        return replace(self, kubectl=replace(self.kubectl, namespace=namespace))


def reach_cluster(settings: Settings, namespace: str, console: Console) -> Site:
    """The cluster that the user names, or the local one, which is booted if it is not up."""
    if settings.context:
        programs = {name: shutil.which(name) for name in ("kubectl", "helm")}
        for name, path in programs.items():
            if not path:
                raise Failure(f"CLUSTER={settings.context} needs {name} on the PATH", f"Install {name}")
        site = Site(
            settings,
            Kubectl(str(programs["kubectl"]), namespace, context=settings.context),
            str(programs["helm"]),
        )
        console.did(f"context {settings.context}: Kubernetes {_version(site)}")
        return site
    layout = Layout.from_environment()
    running = lifecycle.is_up(layout)
    if not running:
        stream(console, sys.executable, "-m", "dev.cluster", "up")
    kubectl = Kubectl(str(layout.bin / "kubectl"), namespace, str(layout.kubeconfig))
    site = Site(settings, kubectl, str(layout.bin / "helm"), booted=not running)
    console.did(
        f"a node of its own on this machine: Kubernetes {_version(site)}" + (", was up" if running else "")
    )
    return site


def bring_images(site: Site, console: Console) -> None:
    """Build the images, and load those that changed into the node."""
    settings = site.settings
    targets = ("controller", settings.driver, "kafka")
    images = [settings.image(name) for name in targets]
    if not site.local:
        console.saw(f"taken as they are: {', '.join(images)} (IMAGES={settings.images})")
        return
    wanted = [word for name in targets for word in ("--target", name)]
    stream(console, sys.executable, "-m", "dev.images", "build", *wanted, "--spark", settings.spark)
    stream(console, sys.executable, "-m", "dev.cluster", "load", *images)
    console.did(f"in the node: {', '.join(images)}")


def make_namespace(site: Site) -> None:
    """Create the namespace if it does not exist.

    :raises Failure: a namespace of this name exists and is not ours.
    """
    found = site.kubectl.get("namespace", site.namespace)
    if found and MADE_DEFINITION not in found["metadata"].get("annotations", {}):
        raise Failure(
            f"there is a namespace {site.namespace} that the demonstration did not make",
            f"Look what it is for; `kubectl delete namespace {site.namespace}` if it can go",
        )
    if not found:
        made = site.kubectl.get("crd", DEFINITION) is None
        metadata = {"name": site.namespace, "annotations": {MADE_DEFINITION: str(made).lower()}}
        site.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def install_chart(site: Site, console: Console, release: str = "streamjob") -> None:
    """Install the chart, or upgrade it, so that it watches this namespace only."""
    repository, _, tag = site.settings.image("controller").rpartition(":")
    values = {"image.repository": repository, "image.tag": tag}
    command = ["upgrade", "--install", release, str(CHART), "--wait", "--timeout", f"{PATIENCE:.0f}s"]
    for name, value in values.items():
        command += ["--set", f"{name}={value}"]
    helm(site, *command)
    console.did(f"helm install {release}: the controller is ready")


def define(site: Site) -> bool:
    """Apply the CustomResourceDefinition if helm has not installed it yet.

    :returns: whether it was missing.
    """
    missing = site.kubectl.get("crd", DEFINITION) is None
    if missing:
        text = (CHART / "crds" / "streamjobs.yaml").read_text()
        site.kubectl.run("apply", "--server-side", "-f", "-", stdin=text)
    # `kubectl wait` fails on a definition that has no conditions yet.
    until(lambda: _established(site), f"{DEFINITION} is established", LATER)
    return missing


def _established(site: Site) -> bool:
    found = site.kubectl.get("crd", DEFINITION) or {}
    conditions = found.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def undefine(site: Site) -> None:
    """Delete the CustomResourceDefinition, unless there are StreamJobs: they would go with it."""
    jobs = ("get", DEFINITION, "--all-namespaces", "--output=name", "--ignore-not-found")
    if site.kubectl.run(*jobs, check=False).strip():
        return
    site.kubectl.run("delete", "crd", "--ignore-not-found", DEFINITION)


def helm(site: Site, *words: str) -> str:
    where = ["--kube-context", site.settings.context] if site.settings.context else []
    command = [site.helm, *words, "--namespace", site.namespace, *where]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=site.kubectl.environment(),
        timeout=LATER,
        check=False,
    )
    if done.returncode:
        raise Failure(f"`helm {words[0]}`: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


def remove(site: Site, console: Console) -> None:
    """Delete the namespace with everything in it, its volumes, and the CustomResourceDefinition if we created
    it.

    The cluster stays, even if we booted it.
    """
    ours = (site.kubectl.get("namespace", site.namespace) or {}).get("metadata", {}).get("annotations", {})
    if ours:
        delete_jobs(site)
        site.kubectl.run("delete", "namespace", site.namespace, LIMIT, timeout=LATER)
        site.kubectl.run("delete", "persistentvolume", "--selector", f"{MADE_FOR}={site.namespace}")
        if ours.get(MADE_DEFINITION) == "true":
            undefine(site)
        console.did(f"namespace {site.namespace} is gone, and all that was in it")


def delete_jobs(site: Site) -> None:
    """Delete all StreamJobs of the namespace. Without a controller they would wait forever for their
    finalizer, so it is removed from those that are left.
    """
    if site.kubectl.get("crd", DEFINITION) is None:
        return
    site.kubectl.run("delete", DEFINITION, "--all", "--timeout=60s", check=False)
    for job in site.kubectl.list(DEFINITION):
        site.kubectl.patch(DEFINITION, job["metadata"]["name"], {"metadata": {"finalizers": None}})


def end_cluster(console: Console) -> None:
    stream(console, sys.executable, "-m", "dev.cluster", "down")


def volume(site: Site, claim: str, storage_class: str = "") -> list[Object]:
    """The PersistentVolume for a claim: on the local cluster a folder of this machine. A user's cluster has
    its own storage and needs none.

    :param storage_class: make it for any one claim of this class instead; `claim` is then a part of its name.
    """
    if not site.local:
        return []
    name = f"{site.namespace}-{claim}"
    of_one = {"claimRef": {"namespace": site.namespace, "name": claim}}
    folder = Layout.from_environment().volumes / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o777)  # the pods' user does not exist on this machine
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {MADE_FOR: site.namespace}},
            "spec": {
                "capacity": {"storage": "5Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": storage_class or CLASS,
                **({} if storage_class else of_one),
                "hostPath": {"path": str(folder)},
            },
        }
    ]


def a_claim(name: str, volumes: list[Object], size: str = "1Gi") -> Object:
    """For the volume that `volume` has made, or for one that a user's cluster makes."""
    bound = {"volumeName": volumes[0]["metadata"]["name"]} if volumes else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **bound},
    }


def remove_volume(site: Site, claim: str) -> None:
    """Remove what `volume` made, once no claim refers to it any more."""
    if site.local:
        site.kubectl.run("delete", "persistentvolume", f"{site.namespace}-{claim}", "--ignore-not-found")


def _version(site: Site) -> str:
    version: str = json.loads(site.kubectl.run("version", "-o", "json"))["serverVersion"]["gitVersion"]
    return version
