"""buildah with its own storage, in its own mount namespace, so that no overlay mount stays on the host."""

import os
from pathlib import Path

from dev.cluster.commands import run
from dev.cluster.layout import cache_folder

PREFIX = "streamjob.dev"

# Even with its own storage, buildah caches known layers in the machine's storage. A tmpfs hides that.
ALONE = 'mkdir -p /var/lib/containers && mount -n -t tmpfs tmpfs /var/lib/containers && exec "$@"'


def folder() -> Path:
    """Return the storage: STREAMJOB_IMAGES_DIR, or else a folder of the cache."""
    named = os.environ.get("STREAMJOB_IMAGES_DIR")
    return Path(named).resolve() if named else cache_folder() / "buildah"


def lock() -> Path:
    """Return the lock file of the storage."""
    return folder().parent / "images.lock"


def logs() -> Path:
    return folder().parent / "logs"


def time_options() -> list[str]:
    """Return buildah's option for the time of the image and of all its files, if SOURCE_DATE_EPOCH is set.

    buildah does not look at the time when it takes a layer from an earlier build: start with an empty
    storage.
    """
    time = os.environ.get("SOURCE_DATE_EPOCH")
    return ["--timestamp", time] if time else []


def full_name(image: str) -> str:
    """Complete a short name: `driver` is `streamjob.dev/driver:dev`."""
    name = image if "/" in image else f"{PREFIX}/{image}"
    return name if ":" in name.rpartition("/")[2] else f"{name}:dev"


def buildah(*words: str | Path, timeout: float = 300, log: Path | None = None) -> str:
    base = folder()
    base.mkdir(parents=True, exist_ok=True)
    store = ("--root", base / "storage", "--runroot", base / "run", "--storage-driver", "overlay")
    alone = ("unshare", "--mount", "--propagation", "private", "sh", "-c", ALONE, "sh")
    # Otherwise buildah would create a folder in /etc for networks, which these builds do not use.
    configuration = base / "containers.conf"
    configuration.write_text(f'[network]\nnetwork_config_dir = "{base / "networks"}"\n')
    environment = {"TMPDIR": str(base), "CONTAINERS_CONF": str(configuration)}
    command = (*alone, "buildah", *store, *words)
    return run(*command, timeout=timeout, log=log, env=environment, title=f"buildah {words[0]}")


def exists(image: str) -> bool:
    return image in names()


def names() -> dict[str, str]:
    """Return the id of each image by its name."""
    lines = buildah("images", "--format", "{{.Name}}:{{.Tag}} {{.ID}}").splitlines()
    return {words[0]: words[1] for words in (line.split() for line in lines) if len(words) == 2}
