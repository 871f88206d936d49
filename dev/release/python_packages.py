"""The wheel and the source distribution."""

import venv
from pathlib import Path

from dev.cluster.commands import run
from dev.cluster.console import step
from dev.release.source import Source


def build(source: Source, out: Path, work: Path) -> None:
    """Build both into `out`. hatchling takes the files' time from SOURCE_DATE_EPOCH."""
    with step("wheel and source distribution"):
        tools = work / "build-tools"
        venv.create(tools, with_pip=True)
        python = tools / "bin" / "python"
        lock = source.folder / "requirements" / "build.lock"
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes")
        run(python, *install, "-r", lock, timeout=600)
        targets = ("-t", "wheel", "-t", "sdist")
        build = ("-m", "hatchling", "build", *targets, "--directory", out)
        run(python, *build, cwd=source.folder, env=source.environment)
