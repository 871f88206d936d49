"""Lend the machine's package settings to a build: certificates, and the configuration of apt, pip and Maven.

Everything goes through read-only mounts on folders that exist in the base image, so an image does not even
get an empty mount point. The build arguments name files in these mounts; only stages that are discarded
declare them.
"""

import configparser
import os
import shutil
from pathlib import Path

from dev.cluster.commands import run

# A folder that exists in every Debian and is empty.
INSIDE = "/mnt"
PIP_FILES = ("/etc/xdg/pip/pip.conf", "/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
JAVA_CERTIFICATES = Path("/etc/ssl/certs/java/cacerts")


def certificate_bundle() -> Path | None:
    """Return the machine's bundle of trusted authorities. Behind a proxy that re-signs, only this bundle
    trusts it.
    """
    named = [Path(os.environ[name]) for name in CERTIFICATES if os.environ.get(name)]
    return next(
        (path for path in [*named, Path("/etc/ssl/certs/ca-certificates.crt")] if path.is_file()), None
    )


def pip_settings() -> dict[str, str]:
    """Return pip's settings as pip itself finds them: files first, then PIP_* of the environment."""
    settings: dict[str, str] = {}
    for name in (*PIP_FILES, os.environ.get("PIP_CONFIG_FILE", "")):
        parser = configparser.RawConfigParser()
        if name and parser.read(Path(name).expanduser()) and parser.has_section("global"):
            settings |= dict(parser.items("global"))
    for name, value in os.environ.items():
        if name.startswith("PIP_") and name not in {"PIP_CONFIG_FILE", "PIP_CERT"}:
            settings[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    # The machine's folders do not exist in the build, and the certificates are elsewhere.
    return {
        name: value for name, value in settings.items() if name not in {"cert", "find-links", "cache-dir"}
    }


def lend(folder: Path) -> tuple[list[str], list[str]]:
    """Write the settings to a folder. Return the mounts (`outside:inside:ro`) and the build arguments."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "apt.conf.d").mkdir(parents=True)
    mounts = [f"{folder}:{INSIDE}:ro", f"{folder / 'apt.conf.d'}:/etc/apt/apt.conf.d:ro"]
    arguments = [f"PIP_CONFIG_FILE={INSIDE}/pip.conf"]
    if time := os.environ.get("SOURCE_DATE_EPOCH"):
        arguments.append(f"SOURCE_DATE_EPOCH={time}")
    pip = {"disable-pip-version-check": "1", "root-user-action": "ignore"} | pip_settings()
    apt = [line for line in run("apt-config", "dump").splitlines() if line.startswith("Acquire::")]
    bundle = certificate_bundle()
    if bundle:
        shutil.copy(bundle, folder / "ca.pem")
        pip["cert"] = f"{INSIDE}/ca.pem"
        apt.append(f'Acquire::https::CAInfo "{INSIDE}/ca.pem";')
    (folder / "pip.conf").write_text(
        "[global]\n" + "".join(f"{name} = {value}\n" for name, value in pip.items())
    )
    (folder / "apt.conf.d" / "90machine").write_text("\n".join(apt) + "\n")
    mounts += [f"{path}:{path}:ro" for path in _apt_sources()]
    maven = []
    if JAVA_CERTIFICATES.is_file():
        shutil.copy(JAVA_CERTIFICATES, folder / "cacerts")
        maven.append(f"-Djavax.net.ssl.trustStore={INSIDE}/cacerts")
    arguments.append(f"MAVEN_OPTS={' '.join(maven)}")
    settings = Path("~/.m2/settings.xml").expanduser()
    if settings.is_file():
        shutil.copy(settings, folder / "settings.xml")
        arguments.append(f"MAVEN_SETTINGS={INSIDE}/settings.xml")
    return mounts, arguments


def _apt_sources() -> list[Path]:
    apt = Path("/etc/apt")
    folders = [apt / "sources.list.d", apt / "auth.conf.d", apt / "trusted.gpg.d"]
    found = [folder for folder in folders if folder.is_dir()]
    return [*found, apt / "sources.list"] if (apt / "sources.list").is_file() else found


def apt_source_files() -> list[Path]:
    """Return the files that name this machine's Debian mirrors."""
    apt = Path("/etc/apt")
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    return [path for path in files if path.suffix in {".list", ".sources"} and path.is_file()]
