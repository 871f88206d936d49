"""What `make release` builds, tried as a user does: only its files are taken, and nothing of the checkout but
the demonstration's own job, Kafka and steps.
"""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dev import ports
from dev.cluster import build as programs
from dev.cluster import images
from dev.cluster.layout import REPOSITORY, Layout
from dev.demo import site as sites
from dev.demo import steps
from dev.demo.console import Console
from dev.demo.programs import stream
from dev.demo.site import Settings, Site
from dev.demo.waiting import PATIENCE, until
from dev.release import archives, chart, sign
from dev.release.source import version_in

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(5400)]
NAMESPACE, ROWS = "streamjob-release", 60_000
REGISTRY_VERSION = "3.1.2"
RELEASED = ("controller", "driver")


class Released(Settings):
    """The images of the release; Kafka is the demonstration's."""

    def image(self, name: str) -> str:
        return archives.full_name(archive_of(name)) if name in RELEASED else super().image(name)


def version() -> str:
    return version_in((REPOSITORY / "operator" / "streamjob" / "__init__.py").read_text())


def folder() -> Path:
    return REPOSITORY / "dist" / "release" / version()


def archive_of(name: str) -> Path:
    return folder() / f"streamjob-{name}-{version()}.oci.tar"


@pytest.fixture(scope="module")
def release() -> Path:
    """The folder of the release of the last commit, which is built unless it is there, for any registry."""
    revision = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()
    archive = archive_of("driver")
    if not archive.is_file() or archives.revision(archive) != revision:
        stream(Console(), sys.executable, "-m", "dev.release")
    return folder()


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """A registry on this machine.

    :returns: its address.
    """
    program = programs.go_program(
        "registry", REGISTRY_VERSION, "github.com/distribution/distribution/v3/cmd/registry"
    )
    address = f"127.0.0.1:{ports.free()}"
    settings = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "registry")}},
        "http": {"addr": address},
    }
    (folder / "registry.yml").write_text(yaml.safe_dump(settings))
    with (folder / "registry.log").open("w") as log:
        process = subprocess.Popen(
            [program, "serve", folder / "registry.yml"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: answers(address), "the registry answers", PATIENCE)
        yield address
    finally:
        process.terminate()
        process.wait()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture
def place(cluster: Site) -> Iterator[Site]:
    """A namespace of its own with the released images."""
    if not cluster.local:
        pytest.skip("puts the images into the node itself")
    place = replace(cluster.within(NAMESPACE), settings=Released(**vars(cluster.settings)))
    sites.make_namespace(place)
    yield place
    sites.remove(place, Console())


def test_the_files_are_signed_and_whole(release: Path) -> None:
    sign.verify(release)
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", sign.SUMS], cwd=release, check=True)


def test_the_wheel_runs_on_a_laptop(release: Path, tmp_path: Path) -> None:
    (wheel,) = release.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", wheel], check=True)
    environment = {"PATH": "/usr/bin:/bin"}
    for words in (
        ("-c", "import streamjob; print(streamjob.__version__)"),
        ("-m", "streamjob.runtime", "--help"),
    ):
        done = subprocess.run(
            [python, *words], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
        )
        assert version() in done.stdout or "usage:" in done.stdout


def test_the_main_job_runs_on_the_installed_release(release: Path, place: Site, tmp_path: Path) -> None:
    layout, console = Layout.from_environment(), Console()
    for name in RELEASED:
        archive = archive_of(name)
        images.import_archive(layout, archive)
        assert images.digests(layout)[place.settings.image(name)] == archives.manifest_digest(archive)
    with registry(tmp_path) as address:
        published = f"{address}/charts/streamjob"
        archive = release / f"streamjob-chart-{version()}.oci.tar"
        copy = (chart.oras(), "cp", "--from-oci-layout", "--to-plain-http", f"{archive}:{version()}")
        subprocess.run([*copy, f"{published}:{version()}"], check=True, capture_output=True)
        wait = ("--wait", "--timeout", f"{PATIENCE:.0f}s")
        where = ("--version", version(), "--plain-http", "--create-namespace")
        sites.helm(place, "install", "streamjob", f"oci://{published}", *where, *wait)
    assert "Succeeded" in sites.helm(place, "test", "streamjob", *wait[1:])
    (deployment,) = place.kubectl.list("deployments")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == place.settings.image("controller")

    outcome = steps.tell(place, console, ROWS)
    assert outcome.check["equal"], outcome.check
    assert outcome.check["messages"] == ROWS
    assert outcome.drained.drained
