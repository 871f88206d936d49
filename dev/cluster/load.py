"""Load built images into the node, but only the layers that the node lacks.

buildah exports an image uncompressed. The blobs are kept, so an image is exported once, not for each cluster.
The stream to containerd is made from the blobs and leaves out every layer that the node has.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import IO, Any

from dev.cluster import images
from dev.cluster.console import say, step
from dev.cluster.layout import ClusterError, Layout
from dev.cluster.locks import locked
from dev.images import store

# The annotation in which containerd finds the name of an image in an OCI layout.
NAME = "io.containerd.image.name"


def load(layout: Layout, names: list[str]) -> None:
    images.require_up(layout)
    for name in names:
        if name.endswith((".tar", ".oci")) or Path(name).is_file():
            if not Path(name).is_file():
                raise ClusterError(f"there is no archive {name}")
            with step(f"loading {Path(name).name}"):
                images.import_archive(layout, Path(name))
        else:
            _load(layout, store.full_name(name))


def _load(layout: Layout, name: str) -> None:
    blobs = store.folder() / "exported"
    # Clones share the storage: another one must not prune the blobs of an image that is being sent.
    with locked(store.lock(), "another command on the images"):
        image_id = store.names().get(name)
        if image_id is None:
            raise ClusterError(f"there is no image {name}: build it with `python3 -m dev.images build`")
        with step(f"loading {name}"):
            descriptor = _export(name, image_id, blobs)
            loaded = images.digests(layout).get(name) == descriptor["digest"]
            if not loaded:
                send(layout, name, descriptor, blobs)
    if loaded:
        say("    the node has it already")


def _export(name: str, image_id: str, folder: Path) -> dict[str, Any]:
    """Export the image unless the folder has all its blobs. Return the descriptor of its manifest."""
    known = folder / "images" / image_id
    if known.exists():
        return dict(json.loads(known.read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    # Not to an OCI layout: for that, buildah would compress every layer each time.
    store.buildah("push", "--disable-compression", "--quiet", image_id, f"dir:{fresh}", timeout=600)
    descriptor = adopt(fresh, folder)
    known.parent.mkdir(exist_ok=True)
    known.write_text(json.dumps(descriptor))
    prune(folder, set(store.names().values()))
    return descriptor


def adopt(fresh: Path, folder: Path) -> dict[str, Any]:
    """Move the blobs of buildah's `dir:` format, which are files named by their digest, into the folder of
    blobs.

    :returns: the descriptor of the image's manifest.
    """
    (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    manifest = (fresh / "manifest.json").read_bytes()
    digest = "sha256:" + hashlib.sha256(manifest).hexdigest()
    descriptor = {"mediaType": json.loads(manifest)["mediaType"], "digest": digest, "size": len(manifest)}
    _blob(folder, digest).write_bytes(manifest)
    for inner in digests_of(folder, descriptor)[1:]:
        file = fresh / inner.removeprefix("sha256:")
        if file.exists():
            file.replace(_blob(folder, inner))
    shutil.rmtree(fresh)
    return descriptor


def prune(folder: Path, image_ids: set[str]) -> None:
    """Remove images that no name refers to, and blobs that no image uses."""
    used: set[str] = set()
    for known in (folder / "images").iterdir():
        if known.name in image_ids:
            used.update(digests_of(folder, json.loads(known.read_text())))
        else:
            known.unlink()
    for blob in (folder / "blobs" / "sha256").iterdir():
        if f"sha256:{blob.name}" not in used:
            blob.unlink()


def _blob(folder: Path, digest: str) -> Path:
    return folder / "blobs" / digest.replace(":", "/")


def digests_of(folder: Path, descriptor: dict[str, Any]) -> list[str]:
    """Return the digests of an image: manifest, configuration, layers."""
    manifest = json.loads(_blob(folder, descriptor["digest"]).read_text())
    return [
        descriptor["digest"],
        manifest["config"]["digest"],
        *(layer["digest"] for layer in manifest["layers"]),
    ]


def write_stream(
    out: IO[bytes], name: str, descriptor: dict[str, Any], folder: Path, present: set[str]
) -> None:
    """Write an OCI archive without the layers that are present. It always includes manifest and
    configuration.
    """
    named = descriptor | {"annotations": {NAME: name}}
    index = {"schemaVersion": 2, "manifests": [named]}
    with tarfile.open(fileobj=out, mode="w|") as archive:
        for position, digest in enumerate(digests_of(folder, descriptor)):
            if position < 2 or digest not in present:
                archive.add(_blob(folder, digest), arcname=f"blobs/{digest.replace(':', '/')}")
        for file, content in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", index)):
            data = json.dumps(content).encode()
            entry = tarfile.TarInfo(file)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def send(layout: Layout, name: str, descriptor: dict[str, Any], folder: Path) -> None:
    present = images.blobs(layout)
    command = [*images.ctr(layout), "images", "import", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as importer:
        assert importer.stdin is not None
        assert importer.stderr is not None
        try:
            write_stream(importer.stdin, name, descriptor, folder, present)
            importer.stdin.close()
        except BrokenPipeError:
            pass  # the importer exited early; its stderr says why
        said = importer.stderr.read().decode()
        if importer.wait() != 0:
            raise ClusterError(f"containerd did not take {name}: {said.strip()}")
