"""Build one target of a Dockerfile with buildah."""

from dataclasses import dataclass
from pathlib import Path

from dev.cluster import preconditions
from dev.cluster.console import say, step
from dev.cluster.layout import REPOSITORY, cache_folder
from dev.cluster.locks import locked
from dev.images import base, host, store
from dev.images.dockerfile import base_images


@dataclass(frozen=True)
class Source:
    dockerfile: Path
    stage: str


TARGETS = {
    "controller": Source(REPOSITORY / "Dockerfile", "controller"),
    "driver": Source(REPOSITORY / "Dockerfile", "driver"),
    "driver-s3": Source(REPOSITORY / "Dockerfile", "driver-s3"),
    "kafka": Source(REPOSITORY / "dev" / "kafka" / "Dockerfile", "kafka"),
}
USUAL = ("controller", "driver", "kafka")  # what the demonstration and most tests run


def build(targets: list[str], tag: str | None, build_args: list[str]) -> None:
    """Build the targets one after the other: parallel builds would build the same layers twice."""
    missing = preconditions.require(preconditions.IMAGE_PROGRAMS)
    if missing:
        with step(f"installing {' '.join(missing)}"):
            preconditions.install(missing, cache_folder() / "logs" / "apt")
    with locked(store.lock(), "another build of images"):
        for target in targets:
            _build(target, tag or store.full_name(target), build_args)


def _build(target: str, name: str, build_args: list[str]) -> None:
    source = TARGETS[target]
    for image in base_images(source.dockerfile.read_text()):
        base.ensure(image)
    mounts, arguments = host.lend(store.folder() / "lent")
    words: list[str | Path] = ["bud", "--isolation", "chroot", "--layers", "--pull-never", "--format", "oci"]
    words += ["--target", source.stage, "--tag", name, "--file", source.dockerfile]
    words += store.time_options()
    for mount in mounts:
        words += ["--volume", mount]
    for argument in [*arguments, *build_args]:
        words += ["--build-arg", argument]
    with step(f"image {name}"):
        store.buildah(*words, REPOSITORY, timeout=1800, log=store.logs() / f"image-{target}")
    say(f"    log: {store.logs() / f'image-{target}'}")
