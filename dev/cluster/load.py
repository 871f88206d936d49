"""Move built images into the node, and of those only the layers that it does not have.

buildah writes an image into a folder (an OCI layout), uncompressed, where a layer that is there already is not written
again. From it a stream is made for containerd that leaves out every layer the node has.
"""

import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import IO, Any

from dev.cluster import images
from dev.cluster.console import say, step
from dev.cluster.layout import ClusterError, Layout
from dev.images import store

# containerd finds the name of an image in an OCI layout here.
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
    image_id = store.names().get(name)
    if image_id is None:
        raise ClusterError(f"there is no image {name}: build it with `python3 -m dev.images build`")
    blobs = store.folder() / "layout"
    with step(f"loading {name}"):
        descriptor = _export(name, image_id, blobs)
        loaded = images.digests(layout).get(name) == descriptor["digest"]
        if not loaded:
            send(layout, name, descriptor, blobs)
    if loaded:
        say("    the node has it already")


def _export(name: str, image_id: str, folder: Path) -> dict[str, Any]:
    """Write the image into the layout folder unless this very image is there. Return the manifest's descriptor."""
    index = folder / "index.json"
    known = json.loads(index.read_text())["manifests"] if index.exists() else []
    for manifest in known:
        if manifest.get("annotations", {}).get("org.opencontainers.image.ref.name") == image_id:
            return dict(manifest)
    store.buildah(
        "push", "--disable-compression", "--quiet", image_id, f"oci:{folder}:{image_id}", timeout=600
    )
    found = [
        manifest
        for manifest in json.loads(index.read_text())["manifests"]
        if manifest.get("annotations", {}).get("org.opencontainers.image.ref.name") == image_id
    ]
    if not found:
        raise ClusterError(f"buildah did not write {name} into {folder}")
    prune(folder, set(store.names().values()))
    return dict(found[0])


def prune(folder: Path, image_ids: set[str]) -> None:
    """Drop images that no name points to any more, and layers that no image uses."""
    index = json.loads((folder / "index.json").read_text())
    keep = [
        m
        for m in index["manifests"]
        if _named(m["annotations"]["org.opencontainers.image.ref.name"], image_ids)
    ]
    (folder / "index.json").write_text(json.dumps(index | {"manifests": keep}))
    used = {digest for manifest in keep for digest in digests_of(folder, manifest)}
    for blob in (folder / "blobs" / "sha256").iterdir():
        if f"sha256:{blob.name}" not in used:
            blob.unlink()


def _named(reference: str, image_ids: set[str]) -> bool:
    return any(reference.startswith(image_id) for image_id in image_ids)


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
    """Write an OCI archive without the layers that are present. Manifest and configuration always go along."""
    named = {key: value for key, value in descriptor.items() if key != "annotations"} | {
        "annotations": {NAME: name}
    }
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
    command = [
        "ctr",
        "--address",
        str(layout.containerd_socket),
        "--namespace",
        "k8s.io",
        "images",
        "import",
        "-",
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as importer:
        assert importer.stdin is not None
        assert importer.stderr is not None
        try:
            write_stream(importer.stdin, name, descriptor, folder, present)
            importer.stdin.close()
        except BrokenPipeError:
            pass  # it ended early and says why
        said = importer.stderr.read().decode()
        if importer.wait() != 0:
            raise ClusterError(f"containerd did not take {name}: {said.strip()}")
