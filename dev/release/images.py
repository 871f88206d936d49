"""The images, as archives of OCI layouts: `podman load`, `docker load`, `ctr images import`, `oras cp`."""

import os
import shutil
import sys
from pathlib import Path

from dev.cluster.commands import run
from dev.cluster.console import step
from dev.cluster.layout import ClusterError
from dev.images import store
from dev.release import archives
from dev.release.source import Source

IMAGES = ("controller", "driver")
LOCK = Path("requirements") / "debian.lock"
DPKG = ("dpkg-query", "--show", "--showformat", "${Package}=${Version}\\n")


def build(source: Source, out: Path, work: Path) -> list[str]:
    """Build the images from nothing, with the tools of the exported commit, and write their archives.

    :param work: gets a storage of its own: a layer of an earlier build would have that build's time.
    :returns: the Debian packages in them, as `name=version`.
    """
    os.environ["STREAMJOB_IMAGES_DIR"] = str(work / "images")
    try:
        found: set[str] = set()
        for name in IMAGES:
            _build(source, name, work)
            found.update(debian_packages(source.image(name)))
            with step(f"archive of {name}"):
                _archive(source, name, out, work)
        return sorted(found)
    finally:
        shutil.rmtree(work / "images", ignore_errors=True)
        del os.environ["STREAMJOB_IMAGES_DIR"]


def _build(source: Source, name: str, work: Path) -> None:
    # The archive of Spark's classes is another one each time: threads load classes in any order.
    command = [sys.executable, "-m", "dev.images", "build", "--target", name, "--tag", source.image(name)]
    about = (f"VERSION={source.version}", f"REVISION={source.revision}", f"SOURCE_URL={source.url}")
    for argument in (*about, "CLASS_ARCHIVE=false"):
        command += ["--build-arg", argument]
    with step(f"image {source.image(name)}"):
        run(*command, cwd=source.folder, env=source.environment, timeout=3600)


def _archive(source: Source, name: str, out: Path, work: Path) -> None:
    layout = work / f"layout-{name}"
    store.buildah("push", "--quiet", source.image(name), f"oci:{layout}:{source.version}", timeout=900)
    with (out / f"streamjob-{name}-{source.version}.oci.tar").open("wb") as file:
        archives.write_tar(file, archives.layout_files(layout, source.image(name)), source.time)
    shutil.rmtree(layout)


def debian_packages(image: str) -> list[str]:
    """Return the Debian packages of an image, as `name=version`."""
    container = store.buildah("from", "--pull-never", image).strip()
    try:
        return store.buildah("run", "--isolation", "chroot", container, "--", *DPKG).split()
    finally:
        store.buildah("rm", container)


def check_lock(source: Source, found: list[str]) -> None:
    """Compare the packages with requirements/debian.lock.

    :raises ClusterError: Debian has published other versions since.
    """
    locked = (source.folder / LOCK).read_text().split() if (source.folder / LOCK).exists() else []
    differences = [f"-{line}" for line in locked if line not in found]
    differences += [f"+{line}" for line in found if line not in locked]
    if differences:
        raise ClusterError(
            f"Debian's packages are not those of {LOCK}: {' '.join(differences)}. Write it again with "
            "`python -m dev.release lock`, look at the difference, and commit it"
        )
