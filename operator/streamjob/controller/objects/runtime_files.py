"""The runtime as a ConfigMap: an archive of its modules and the launcher, as this controller has them.

The name of the ConfigMap is a hash of its content, so that controllers of two versions never change each
other's. The modules are an archive and not one key each: as files they would come close to the limit of a
ConfigMap (1 MiB), and each pod would list all of them.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from functools import lru_cache
from pathlib import Path

from . import Obj, names

ARCHIVE, LAUNCHER = "streamjob.zip", "driver.sh"
# What a driver has no use for. It needs packages that users' images do not have.
LEFT_OUT = ("api", "cli", "controller", "convert")
LIMIT = 1 << 20  # bytes that a ConfigMap may hold
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same modules are the same archive, whenever they were installed


@lru_cache(maxsize=1)
def archive() -> bytes:
    """The modules, as a ZIP file that Python imports from."""
    package = Path(__file__).parents[2]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as into:
        for file in sorted(package.rglob("*.py")):
            place = file.relative_to(package)
            if place.parts[0] not in LEFT_OUT:
                entry = zipfile.ZipInfo(f"{package.name}/{place.as_posix()}", _EPOCH)
                into.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return out.getvalue()


@lru_cache(maxsize=1)
def launcher() -> str:
    """The shell script that starts the driver with the image's own Python and Spark."""
    return (Path(__file__).parent / LAUNCHER).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def name() -> str:
    """The ConfigMap's name: equal names mean equal content."""
    return f"streamjob-runtime-{hashlib.sha256(archive() + launcher().encode()).hexdigest()[:12]}"


def config_map(namespace: str) -> Obj:
    """Build the ConfigMap. It is immutable, so no kubelet watches it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name(), "namespace": namespace, "labels": names.runtime_labels()},
        "immutable": True,
        "data": {LAUNCHER: launcher()},
        "binaryData": {ARCHIVE: base64.b64encode(archive()).decode()},
    }
