"""The plugin of kubectl: one file that needs only Python, in an archive, with the manifest for krew.

The file is a ZIP archive that Python runs: the command, click and rich. `convert` is not in it, because
pydantic is not pure Python.
"""

import hashlib
import io
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from dev.cluster.commands import run
from dev.cluster.console import step
from dev.release import archives
from dev.release.source import Source

NAME = "kubectl-streamjob"
COMPLETE = "kubectl_complete-streamjob"
SHEBANG = b"#!/usr/bin/env python3\n"
START = "import sys\nfrom streamjob.cli.__main__ import main\nsys.exit(main())\n"
PARTS = ("cli", "protocol")  # of our package
LEFT_OUT = ("__pycache__", "tests", ".dist-info")
# kubectl calls this one for what comes next in the shell.
COMPLETION = f"""\
#!/bin/sh
STREAMJOB_COMPLETE=1 exec "$(dirname "$0")/{NAME}" "$@"
"""
MANIFEST = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: streamjob
spec:
  version: v{version}
  homepage: {homepage}
  shortDescription: Stop, drain and diagnose StreamJobs
  description: |
    Shows what StreamJobs (PySpark Structured Streaming on Kubernetes) are doing, and ends them gracefully:
    stop with a savepoint, drain, resume, upgrade; savepoints, timelines and a diagnosis. It uses your kubectl
    and your permissions.
  caveats: |
    Needs Python 3.10 or newer.
  platforms:
  - selector:
      matchExpressions:
      - {{key: os, operator: In, values: [linux, darwin]}}
    uri: {uri}
    sha256: {sha256}
    bin: {name}
    files:
    - {{from: "*", to: .}}
"""


def build(source: Source, out: Path, work: Path) -> None:
    """Build the archive and the manifest into `out`."""
    with step("plugin of kubectl"):
        packages = work / "plugin"
        lock = source.folder / "requirements" / "plugin.lock"
        install = (
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-compile",
        )
        run(sys.executable, *install, "--require-hashes", "--target", packages, "-r", lock, timeout=600)
        ours = source.folder / "operator" / "streamjob"
        program = archive({"streamjob": ours, "click": packages / "click", "rich": packages / "rich"})
        write(source, out, program)


def write(source: Source, out: Path, program: bytes) -> None:
    """Write the archive with the program, and the manifest that names its digest."""
    packed = out / f"{NAME}-{source.version}.tar.gz"
    files: dict[str, bytes | Path] = {
        NAME: program,
        COMPLETE: COMPLETION.encode(),
        "LICENSE": source.folder / "LICENSE",
    }
    archives.write_tar_gz(packed, files, source.time, executable=frozenset({NAME, COMPLETE}))
    sha256 = hashlib.sha256(packed.read_bytes()).hexdigest()
    place = source.url or "https://example.com/streamjob"
    uri = f"{place}/releases/download/v{source.version}/{packed.name}"
    text = MANIFEST.format(version=source.version, homepage=place, uri=uri, sha256=sha256, name=NAME)
    (out / f"{NAME}.krew.yaml").write_text(text)


def archive(packages: Mapping[str, Path]) -> bytes:
    """The program: equal packages give equal bytes.

    :param packages: folders by the name that they are imported by.
    """
    out = io.BytesIO(SHEBANG)
    out.seek(0, io.SEEK_END)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED, compresslevel=9) as into:
        _add(into, "__main__.py", START.encode())
        for name, folder in sorted(packages.items()):
            for file in sorted(p for p in folder.rglob("*") if p.is_file()):
                place = file.relative_to(folder)
                if _belongs(name, place):
                    _add(into, f"{name}/{place.as_posix()}", file.read_bytes())
    return out.getvalue()


def _belongs(package: str, place: Path) -> bool:
    if any(part in LEFT_OUT for part in place.parts) or place.suffix in (".pyc", ".pyi", ".so"):
        return False
    return package != "streamjob" or len(place.parts) == 1 or place.parts[0] in PARTS


def _add(into: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    into.writestr(entry, content, zipfile.ZIP_DEFLATED)
