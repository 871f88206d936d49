"""The checksums of all files, and a signature of the checksums."""

import hashlib
import os
from pathlib import Path

from dev.cluster import build as programs
from dev.cluster.commands import run
from dev.cluster.console import step

COSIGN_VERSION = "3.1.3"
SUMS, PUBLIC, BUNDLE = "SHA256SUMS", "cosign.pub", "SHA256SUMS.sigstore.json"
# No transparency log here. On a forge, cosign needs no key and writes to one (release.yml).
OFFLINE = ("--use-signing-config=false", "--tlog-upload=false")


def cosign() -> Path:
    return programs.go_program("cosign", COSIGN_VERSION, "github.com/sigstore/cosign/v3/cmd/cosign")


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_sums(folder: Path) -> dict[str, str]:
    """Write SHA256SUMS, which `sha256sum --check` reads.

    :returns: the digests by file name.
    """
    sums = {path.name: digest(path) for path in sorted(folder.iterdir()) if path.is_file()}
    (folder / SUMS).write_text("".join(f"{value}  {name}\n" for name, value in sums.items()))
    return sums


def sign(folder: Path, work: Path) -> None:
    """Sign the checksums with the key in COSIGN_KEY, or with a new one."""
    with step("signature"):
        key, secret = os.environ.get("COSIGN_KEY"), {"COSIGN_PASSWORD": os.environ.get("COSIGN_PASSWORD", "")}
        if not key:
            run(cosign(), "generate-key-pair", env=secret, cwd=work)
            key = str(work / "cosign.key")
        public = run(cosign(), "public-key", "--key", key, env=secret)
        (folder / PUBLIC).write_text(public)
        options = (*OFFLINE, "--yes", "--key", key, "--bundle", folder / BUNDLE)
        run(cosign(), "sign-blob", *options, folder / SUMS, env=secret)
        (folder / BUNDLE).chmod(0o644)  # cosign writes it for its user only; it is for everybody
        verify(folder)


def verify(folder: Path) -> None:
    """Check the signature as a user does.

    :raises ClusterError: it is not valid.
    """
    options = ("--insecure-ignore-tlog", "--key", folder / PUBLIC, "--bundle", folder / BUNDLE)
    run(cosign(), "verify-blob", *options, folder / SUMS)
