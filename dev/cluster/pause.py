"""The image of the process that holds a pod's namespaces open. It is built here, because there is no
registry.
"""

import hashlib
import io
import json
import tarfile
from pathlib import Path

PAUSE_IMAGE = "streamjob.dev/pause:1"


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def write_archive(program: Path, archive: Path) -> None:
    """Write a docker archive with a single layer that contains a single static program."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        _add(layer, "pause", program.read_bytes(), 0o755)
    content = buffer.getvalue()
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": ["/pause"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as image:
        _add(image, "config.json", config)
        _add(image, "layer.tar", content)
        _add(image, "manifest.json", json.dumps(manifest).encode())
