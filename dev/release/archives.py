"""Archives whose bytes depend on nothing but their content and one given time."""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Names of an image in an OCI layout: containerd and Docker read the first, everybody else the second.
CONTAINERD_NAME, REF_NAME = "io.containerd.image.name", "org.opencontainers.image.ref.name"


def write_tar(
    out: Any, files: Mapping[str, bytes | Path], time: int, executable: frozenset[str] = frozenset()
) -> None:
    """Write a tar archive of these files, in the order of their names, to a binary stream.

    :param executable: names of those that are programs.
    """
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.mode = time, 0o755 if name in executable else 0o644
            if isinstance(content, bytes):
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                entry.size = content.stat().st_size
                with content.open("rb") as stream:
                    archive.addfile(entry, stream)


def write_tar_gz(
    path: Path, files: Mapping[str, bytes | Path], time: int, executable: frozenset[str] = frozenset()
) -> None:
    with path.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=time) as out:
        write_tar(out, files, time, executable)


def repack(path: Path, time: int) -> None:
    """Write a .tgz again with this time for every file, and the files in the order of their names."""
    with tarfile.open(path) as archive:
        members = [(m.name, archive.extractfile(m)) for m in archive.getmembers() if m.isfile()]
        files = {name: stream.read() for name, stream in members if stream is not None}
    write_tar_gz(path, files, time)


def layout_files(folder: Path, name: str) -> dict[str, bytes | Path]:
    """Return the files of an OCI layout with one image, which gets this full name.

    :returns: paths in the layout, with the content or the file to copy.
    """
    index = json.loads((folder / "index.json").read_text())
    (manifest,) = index["manifests"]
    tag = name.rpartition(":")[2]
    named: dict[str, Any] = {key: manifest[key] for key in ("mediaType", "digest", "size")}
    named["annotations"] = {CONTAINERD_NAME: name, REF_NAME: tag}
    new = {"schemaVersion": 2, "manifests": [named]}
    blobs = {f"blobs/sha256/{blob.name}": blob for blob in sorted((folder / "blobs" / "sha256").iterdir())}
    return {
        **blobs,
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": json.dumps(new, sort_keys=True).encode(),
    }


def revision(archive: Path) -> str:
    """Return the commit of which the image in a tar archive of an OCI layout was built."""
    with tarfile.open(archive) as opened:

        def blob(descriptor: Any) -> Any:
            stream = opened.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}")
            assert stream is not None
            return json.load(stream)

        index = opened.extractfile("index.json")
        assert index is not None
        manifest = blob(json.load(index)["manifests"][0])
        return str(blob(manifest["config"])["config"]["Labels"]["org.opencontainers.image.revision"])


def manifest_digest(archive: Path) -> str:
    """Return the digest of the image or chart in a tar archive of an OCI layout: what a registry names it."""
    return str(_manifest(archive)["digest"])


def full_name(archive: Path) -> str:
    """Return the full name, with registry and tag, of the image in a tar archive of an OCI layout."""
    return str(_manifest(archive)["annotations"][CONTAINERD_NAME])


def _manifest(archive: Path) -> Any:
    """Return the descriptor of the only manifest in a tar archive of an OCI layout."""
    with tarfile.open(archive) as opened:
        stream = opened.extractfile("index.json")
        assert stream is not None
        (manifest,) = json.load(stream)["manifests"]
    return manifest
