"""Build the base image in FROM from Debian packages, once."""

from dev.cluster.commands import PATH, run
from dev.cluster.console import step
from dev.cluster.layout import ClusterError
from dev.images import host, store
from dev.images.dockerfile import debian_suite

# Folders of /usr/share that Debian's own slim image leaves out as well.
LEFT_OUT = ("man", "doc", "info", "locale", "groff", "lintian", "linda")


def ensure(image: str) -> None:
    """Build the image unless the storage has it. An image that somebody else put there is left as it is.

    :raises ClusterError: the image is not Debian's.
    """
    if store.exists(image):
        return
    suite = debian_suite(image)
    if suite is None:
        raise ClusterError(f"FROM names {image}: only debian:<release>[-slim] can be made without a registry")
    archive = store.folder() / f"{suite}.tar"
    log = store.folder() / f"{suite}.log"
    with step(f"base image {suite} from Debian packages"):
        store.folder().mkdir(parents=True, exist_ok=True)
        exclude = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in LEFT_OUT]
        # Each build borrows the machine's package sources, so the image must not name a mirror.
        forget = [
            "--customize-hook=rm -rf $1/etc/apt/sources.list $1/etc/apt/apt.conf.d/99mmdebstrap",
            "--customize-hook=rm -f $1/etc/apt/sources.list.d/* $1/etc/resolv.conf $1/etc/hostname",
        ]
        settings = [f"--aptopt={line}" for line in run("apt-config", "dump").splitlines() if _wanted(line)]
        sources = host.apt_source_files() if _same_release(suite) else []
        options = ["--variant=minbase", "--mode=root", *settings, *exclude, *forget]
        run("mmdebstrap", *options, suite, archive, *sources, timeout=1200, log=log)
        container = store.buildah("from", "scratch").strip()
        try:
            store.buildah("add", container, archive, "/", timeout=300)
            store.buildah("config", "--cmd", "bash", "--env", f"PATH={PATH}", container)
            store.buildah(
                "commit", "--disable-compression", *store.time_options(), container, image, timeout=300
            )
        finally:
            store.buildah("rm", container)
            archive.unlink(missing_ok=True)


def _wanted(line: str) -> bool:
    return line.startswith("Acquire::") and not line.endswith('"";')


def _same_release(suite: str) -> bool:
    """Whether the machine's mirrors serve this release. For another release mmdebstrap uses its default
    mirror.
    """
    return any(suite in path.read_text(errors="replace") for path in host.apt_source_files())
