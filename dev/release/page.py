"""The page of `kubectl streamjob ui`, built into the exported source, from which the packages are made."""

import shutil

from dev.cluster.commands import run
from dev.cluster.console import step
from dev.cluster.layout import REPOSITORY
from dev.release.source import Source


def build(source: Source) -> None:
    """Install what the lock file names, without running anything of it, and bundle."""
    with step("the page"):
        run(REPOSITORY / "dev" / "bootstrap.sh", "node")
        folder = source.folder / "ui"
        install = ("npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund")
        run(*install, cwd=folder, timeout=600)
        run("node", "build.mjs", cwd=folder)
        shutil.rmtree(folder / "node_modules")
