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


def build(
    targets: list[str],
    tag: str | None,
    build_args: list[str],
    labels: list[str] | None = None,
    timestamp: int | None = None,
) -> None:
    """Build the targets one after the other: parallel builds would build the same layers twice.

    :param timestamp: the time of every file and of the image, so that the same source gives the same image.
        buildah does not look at it when it takes a layer from an earlier build, so start with an empty store.
    """
    missing = preconditions.require(preconditions.IMAGE_PROGRAMS)
    if missing:
        with step(f"installing {' '.join(missing)}"):
            preconditions.install(missing, cache_folder() / "logs" / "apt")
    with locked(store.folder().with_suffix(".lock"), "another build of images"):
        for target in targets:
            _build(target, tag or store.full_name(target), build_args, labels or [], timestamp)


def _build(target: str, name: str, build_args: list[str], labels: list[str], timestamp: int | None) -> None:
    source = TARGETS[target]
    for image in base_images(source.dockerfile.read_text()):
        base.ensure(image, timestamp)
    mounts, arguments = host.lend(store.folder() / "lent")
    words: list[str | Path] = ["bud", "--isolation", "chroot", "--layers", "--pull-never", "--format", "oci"]
    words += ["--target", source.stage, "--tag", name, "--file", source.dockerfile]
    for mount in mounts:
        words += ["--volume", mount]
    if timestamp is not None:
        words += ["--timestamp", str(timestamp)]
        arguments.append(f"SOURCE_DATE_EPOCH={timestamp}")
    for argument in [*arguments, *build_args]:
        words += ["--build-arg", argument]
    for label in labels:
        words += ["--label", label]
    log = store.folder().parent / "logs" / f"image-{target}"
    with step(f"image {name}"):
        store.buildah(*words, REPOSITORY, timeout=1800, log=log)
    say(f"    log: {log}")
