"""What a release is made of: the last commit, exported to a folder of its own."""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dev.cluster.commands import run
from dev.cluster.console import say
from dev.cluster.layout import REPOSITORY

PLACEHOLDER = "streamjob.dev"  # the registry in charts/streamjob/values.yaml and in the examples


@dataclass(frozen=True)
class Source:
    """An exported commit.

    :param time: of the commit, in seconds since 1970: the time of every file of the release.
    :param registry: the prefix of the names under which images and chart will be published.
    :param url: the address of the repository; empty if it is not known.
    """

    folder: Path
    version: str
    revision: str
    time: int
    registry: str
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """For programs that understand SOURCE_DATE_EPOCH."""
        return {"SOURCE_DATE_EPOCH": str(self.time)}

    @property
    def moment(self) -> str:
        """The time in the form of RFC 3339."""
        return datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def image(self, name: str) -> str:
        return f"{self.registry}/{name}:{self.version}"


def export(folder: Path, commit: str = "HEAD") -> Source:
    """Export a commit, by default the last one, into an empty folder."""
    revision, time = run("git", "log", "-1", "--format=%H %ct", commit, cwd=REPOSITORY).split()
    changed = run("git", "status", "--porcelain", "--untracked-files=no", cwd=REPOSITORY)
    if changed.strip():
        say("  the release is made of the last commit: what is not committed is not in it")
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    run("git", "archive", "--output", archive, revision, cwd=REPOSITORY)
    run("tar", "--extract", "--file", archive, "--directory", folder)
    registry = os.environ.get("REGISTRY") or PLACEHOLDER
    version = version_in((folder / "operator" / "streamjob" / "__init__.py").read_text())
    return Source(folder, version, revision, int(time), registry, os.environ.get("SOURCE_URL", ""))


def version_in(text: str) -> str:
    """Return the version that the package's __init__.py names."""
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found is not None
    return found[1]
