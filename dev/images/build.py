"""Build one target of a Dockerfile with buildah."""

from dataclasses import dataclass
from pathlib import Path

from dev.cluster import preconditions
from dev.cluster.console import say, step
from dev.cluster.layout import REPOSITORY, cache_folder
from dev.cluster.locks import locked
from dev.images import base, host, sparks, store
from dev.images.dockerfile import base_images

PRODUCT = REPOSITORY / "Dockerfile"
KAFKA = REPOSITORY / "dev" / "kafka" / "Dockerfile"
STOCK = REPOSITORY / "dev" / "stock" / "Dockerfile"


@dataclass(frozen=True)
class Source:
    """A stage of some Dockerfiles, which buildah reads as one: each may use the stages of those before."""

    stage: str
    dockerfiles: tuple[Path, ...] = (PRODUCT,)


TARGETS = {
    "controller": Source("controller"),
    "driver": Source("driver"),
    "driver-s3": Source("driver-s3"),
    "kafka": Source("kafka", (PRODUCT, KAFKA)),
    "stock": Source("stock", (PRODUCT, STOCK)),
    "stock-kafka": Source("stock-kafka", (PRODUCT, STOCK)),
    "stock-numeric": Source("stock-numeric", (PRODUCT, STOCK)),
}
BY_SPARK = ("driver", "stock", "stock-kafka", "stock-numeric")
USUAL = ("controller", "driver", "kafka")  # what the demonstration and most tests run


def build(targets: list[str], tag: str | None, build_args: list[str], spark: str = sparks.DEFAULT) -> None:
    """Build the targets one after the other: parallel builds would build the same layers twice.

    :param tag: the image's name, instead of the usual one.
    :param spark: the line of Spark, for the targets that have a Spark.
    """
    missing = preconditions.require(preconditions.IMAGE_PROGRAMS)
    if missing:
        with step(f"installing {' '.join(missing)}"):
            preconditions.install(missing, cache_folder() / "logs" / "apt")
    with locked(store.lock(), "another build of images"):
        for target in targets:
            another = target in BY_SPARK and spark != sparks.DEFAULT
            version = [f"PYSPARK_VERSION={sparks.version(spark)}"] if another else []
            _build(target, tag or store.full_name(short(target, spark)), [*version, *build_args])


def short(target: str, spark: str = sparks.DEFAULT) -> str:
    """The name of a target's image, without its registry: `driver:dev`, or `driver:dev-spark35`."""
    return f"{target}:{sparks.tag(spark) if target in BY_SPARK else 'dev'}"


def _build(target: str, tag: str, build_args: list[str]) -> None:
    source = TARGETS[target]
    for image in base_images("".join(file.read_text() for file in source.dockerfiles)):
        base.ensure(image)
    mounts, arguments = host.lend(store.folder() / "lent")
    words: list[str | Path] = ["bud", "--isolation", "chroot", "--layers", "--pull-never", "--format", "oci"]
    words += ["--target", source.stage, "--tag", tag]
    for file in source.dockerfiles:
        words += ["--file", file]
    words += store.time_options()
    for mount in mounts:
        words += ["--volume", mount]
    for argument in [*arguments, *build_args]:
        words += ["--build-arg", argument]
    with step(f"image {tag}"):
        store.buildah(*words, REPOSITORY, timeout=1800, log=store.logs() / f"image-{target}")
    say(f"    log: {store.logs() / f'image-{target}'}")
