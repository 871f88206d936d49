"""The chart: a .tgz as helm makes it, and the same as an OCI layout for a registry."""

import json
import re
import shutil
from pathlib import Path

import yaml

from dev.cluster import build as programs
from dev.cluster.commands import run
from dev.cluster.console import step
from dev.docs import chart as documentation
from dev.release import archives
from dev.release.source import PLACEHOLDER, Source

ORAS_VERSION = "1.3.6"
CONFIG_TYPE = "application/vnd.cncf.helm.config.v1+json"
CHART_TYPE = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
CREATED = "org.opencontainers.image.created"


def oras() -> Path:
    return programs.go_program("oras", ORAS_VERSION, "oras.land/oras/cmd/oras")


def build(source: Source, out: Path, work: Path) -> None:
    """Package the chart, with the names under which it is published."""
    with step("chart"):
        folder = work / "chart" / "streamjob"
        shutil.copytree(source.folder / "charts" / "streamjob", folder)
        stamp(source, folder)
        helm = programs.helm()
        run(helm, "lint", "--strict", folder)
        versions = ("--version", source.version, "--app-version", source.version)
        run(helm, "package", folder, *versions, "--destination", out)
        packed = out / f"streamjob-{source.version}.tgz"
        archives.repack(packed, source.time)
        _layout(source, packed, out, work)


def stamp(source: Source, folder: Path) -> None:
    """Write into the chart where its image and its source are."""
    values = folder / "values.yaml"
    text, found = re.subn(
        rf"(?m)^  repository: {re.escape(PLACEHOLDER)}/",
        f"  repository: {source.registry}/",
        values.read_text(),
    )
    assert found == 1
    values.write_text(text)
    chart = folder / "Chart.yaml"
    text = chart.read_text()
    if source.url:
        text = text.replace("\nmaintainers:", f"\nhome: {source.url}\nsources: [{source.url}]\nmaintainers:")
    images = (
        f"  artifacthub.io/images: |\n    - name: controller\n      image: {source.image('controller')}\n"
    )
    chart.write_text(text.rstrip("\n") + "\n" + images)
    project = f"{source.url}#on-your-own-cluster" if source.url else documentation.PROJECT
    (folder / "README.md").write_text(
        documentation.readme(folder, project).replace("oci://REGISTRY/", f"oci://{source.registry}/")
    )


def _layout(source: Source, packed: Path, out: Path, work: Path) -> None:
    """Make the OCI layout that `helm push` would make in a registry."""
    layout, config = work / "chart-layout", work / "chart-config.json"
    metadata = yaml.safe_load((work / "chart" / "streamjob" / "Chart.yaml").read_text())
    config.write_text(json.dumps(metadata | {"version": source.version, "appVersion": source.version}))
    push = ["push", "--oci-layout", f"{layout}:{source.version}", "--config", f"{config}:{CONFIG_TYPE}"]
    push += ["--annotation", f"{CREATED}={source.moment}", "--no-tty", f"{packed.name}:{CHART_TYPE}"]
    run(oras(), *push, cwd=packed.parent)
    name = f"{source.registry}/charts/streamjob:{source.version}"
    with (out / f"streamjob-chart-{source.version}.oci.tar").open("wb") as file:
        archives.write_tar(file, archives.layout_files(layout, name), source.time)
