"""What is in the images (a bill of materials), as syft finds it: CycloneDX, a file for each image."""

import json
import uuid
from pathlib import Path
from typing import Any

from dev.cluster import build as programs
from dev.cluster.commands import run
from dev.cluster.console import step
from dev.release import archives
from dev.release.images import IMAGES
from dev.release.source import Source

SYFT_VERSION = "1.57.1"
# Packages only: a list of every file is of no use to a scanner. And no look for a newer syft.
QUIET = {"SYFT_FILE_METADATA_SELECTION": "none", "SYFT_CHECK_FOR_APP_UPDATE": "false"}


def syft() -> Path:
    return programs.go_program("syft", SYFT_VERSION, "github.com/anchore/syft/cmd/syft")


def build(source: Source, out: Path) -> None:
    for name in IMAGES:
        with step(f"contents of {name}"):
            archive = out / f"streamjob-{name}-{source.version}.oci.tar"
            scan = ("scan", f"oci-archive:{archive}", "--quiet", "--output", "cyclonedx-json")
            named = ("--source-name", f"streamjob/{name}", "--source-version", source.version)
            found = json.loads(run(syft(), *scan, *named, timeout=900, env=QUIET))
            fixed = settle(found, archives.manifest_digest(archive), source.moment)
            text = json.dumps(fixed, indent=1, sort_keys=True) + "\n"
            (out / f"streamjob-{name}-{source.version}.cdx.json").write_text(text)


def settle(sbom: dict[str, Any], digest: str, moment: str) -> dict[str, Any]:
    """Replace what is another in each run, the serial number and the time, by what follows from the image.

    :param digest: of the image.
    :param moment: the time of the release.
    """
    metadata = sbom["metadata"] | {"timestamp": moment}
    return sbom | {"serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}", "metadata": metadata}
