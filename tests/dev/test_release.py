"""The release's parts that need no build: archives of equal bytes, names, locks, checksums, workflows."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.cluster import build as programs
from dev.cluster.layout import REPOSITORY, ClusterError
from dev.docs.chart import PROJECT
from dev.images import store
from dev.release import archives, images, sbom, sign
from dev.release import chart as charts
from dev.release.__main__ import table
from dev.release.source import PLACEHOLDER, Source, export, version_in

TIME = 1_790_000_000
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))


def source(folder: Path, registry: str = "registry.example/streamjob", url: str = "") -> Source:
    return Source(folder, "0.1.0", "c0ffee", TIME, registry, url)


def tar(files: dict[str, bytes | Path]) -> bytes:
    out = io.BytesIO()
    archives.write_tar(out, files, TIME)
    return out.getvalue()


def test_an_archive_depends_on_names_and_content_only(tmp_path: Path) -> None:
    file = tmp_path / "b"
    file.write_bytes(b"two")
    one = tar({"a": b"one", "b": file})
    file.chmod(0o700)
    file.touch()
    assert tar({"b": file, "a": b"one"}) == one
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        assert [(m.name, m.mtime, m.mode, m.uid, m.uname) for m in archive.getmembers()] == [
            ("a", TIME, 0o644, 0, ""),
            ("b", TIME, 0o644, 0, ""),
        ]


def test_a_chart_that_was_packed_at_another_time_has_the_same_bytes(tmp_path: Path) -> None:
    packed = []
    for moment in (1, 2):
        path = tmp_path / f"{moment}.tgz"
        with tarfile.open(path, "w:gz") as archive:
            for name in ("streamjob/values.yaml", "streamjob/Chart.yaml"):
                entry = tarfile.TarInfo(name)
                entry.mtime, entry.size = moment, 1
                archive.addfile(entry, io.BytesIO(b"x"))
        archives.repack(path, TIME)
        packed.append(path.read_bytes())
    assert packed[0] == packed[1]
    assert gzip.decompress(packed[0])


def layout(folder: Path) -> str:
    """An OCI layout as buildah and oras make it, with a time in an annotation."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    digest = hashlib.sha256(b"{}").hexdigest()
    (blobs / digest).write_bytes(b"{}")
    manifest = {"mediaType": "m", "digest": f"sha256:{digest}", "size": 2, "annotations": {"created": "now"}}
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
    return f"sha256:{digest}"


def test_an_image_is_known_by_its_name_and_digest(tmp_path: Path) -> None:
    digest = layout(tmp_path / "layout")
    archive = tmp_path / "image.oci.tar"
    files = archives.layout_files(tmp_path / "layout", "registry.example/driver:0.1.0")
    archive.write_bytes(tar(files))
    assert archives.manifest_digest(archive) == digest
    (manifest,) = json.loads(bytes(files["index.json"]))["manifests"]
    assert manifest["annotations"] == {
        "io.containerd.image.name": "registry.example/driver:0.1.0",
        "org.opencontainers.image.ref.name": "0.1.0",
    }


def test_a_release_is_made_of_the_last_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY", "")
    made = export(tmp_path / "source")
    said = subprocess.run(
        ["git", "log", "-1", "--format=%H %ct"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert f"{made.revision} {made.time}\n" == said.stdout
    assert made.registry == PLACEHOLDER
    assert source(tmp_path).moment == "2026-09-21T14:13:20Z"
    assert (made.folder / "Dockerfile").is_file()
    assert not (made.folder / ".git").exists()


def test_there_is_one_version() -> None:
    version = version_in((REPOSITORY / "operator" / "streamjob" / "__init__.py").read_text())
    chart = yaml.safe_load((REPOSITORY / "charts" / "streamjob" / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == version
    assert 'dynamic = ["version"]' in (REPOSITORY / "pyproject.toml").read_text()


@pytest.mark.parametrize("url", ["", "https://forge.example/streamjob"])
def test_the_chart_names_where_it_is_published(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "chart"
    subprocess.run(["cp", "-r", REPOSITORY / "charts" / "streamjob", folder], check=True)
    charts.stamp(source(tmp_path, url=url), folder)
    values = yaml.safe_load((folder / "values.yaml").read_text())
    chart = yaml.safe_load((folder / "Chart.yaml").read_text())
    readme = (folder / "README.md").read_text()
    assert values["image"]["repository"] == "registry.example/streamjob/controller"
    (image,) = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert image["image"] == "registry.example/streamjob/controller:0.1.0"
    assert (chart.get("home"), chart.get("sources")) == ((url, [url]) if url else (None, None))
    assert "oci://registry.example/streamjob/charts/streamjob --version" in readme
    assert "`registry.example" not in readme.partition("## Values")[0]
    assert '`"registry.example/streamjob/controller"`' in readme
    assert (f"({url}#on-your-own-cluster)" if url else f"({PROJECT})") in readme


def test_packages_that_are_not_locked_are_refused(tmp_path: Path) -> None:
    lock = tmp_path / images.LOCK
    lock.parent.mkdir()
    lock.write_text("adduser=3.134\nbash=5.2.15-2+b7\n")
    images.check_lock(source(tmp_path), ["adduser=3.134", "bash=5.2.15-2+b7"])
    with pytest.raises(ClusterError, match=r"-bash=5.2.15-2\+b7 \+bash=5.2.15-2\+b8"):
        images.check_lock(source(tmp_path), ["adduser=3.134", "bash=5.2.15-2+b8"])


def test_a_list_of_contents_is_the_same_each_time() -> None:
    def found(serial: str, time: str) -> dict[str, Any]:
        metadata = {"timestamp": time, "component": {"name": "driver"}}
        return {"serialNumber": serial, "metadata": metadata, "components": [{"name": "bash"}]}

    first, second = (sbom.settle(found(s, s), "sha256:1", "2026-09-21T14:13:20Z") for s in ("a", "b"))
    assert first == second
    assert first["metadata"]["timestamp"] == "2026-09-21T14:13:20Z"
    assert (
        first["serialNumber"]
        != sbom.settle(found("a", "a"), "sha256:2", "2026-09-21T14:13:20Z")["serialNumber"]
    )


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"two")
    (tmp_path / "a").write_bytes(b"one")
    sums = sign.write_sums(tmp_path)
    assert list(sums) == ["a", "b"]
    subprocess.run(["sha256sum", "--check", "--strict", sign.SUMS], cwd=tmp_path, check=True)
    # Nobody needs all files: the documented command is content with some of them.
    words = ["sha256sum", "--check", "--ignore-missing", sign.SUMS]
    assert " ".join(words) in (REPOSITORY / "docs" / "releases.md").read_text()
    next(path for path in tmp_path.iterdir() if path.name != sign.SUMS).unlink()
    subprocess.run(words, cwd=tmp_path, check=True)


def test_everybody_may_read_the_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cosign writes it for its own user only. This one stands for cosign, which takes minutes to build."""
    cosign = tmp_path / "cosign"
    cosign.write_text(f"#!/bin/sh\numask 077\n[ $1 != sign-blob ] || echo {{}} > {tmp_path / sign.BUNDLE}\n")
    cosign.chmod(0o755)
    monkeypatch.setattr(sign, "cosign", lambda: cosign)
    monkeypatch.setenv("COSIGN_KEY", "cosign.key")
    sign.write_sums(tmp_path)
    sign.sign(tmp_path, tmp_path)
    modes = {(tmp_path / name).stat().st_mode & 0o777 for name in (sign.SUMS, sign.PUBLIC, sign.BUNDLE)}
    assert modes == {(tmp_path / sign.SUMS).stat().st_mode & 0o777}
    assert (tmp_path / sign.BUNDLE).stat().st_mode & 0o044


def test_the_table_has_each_file_with_size_and_digest(tmp_path: Path) -> None:
    (tmp_path / "wheel.whl").write_bytes(b"x" * 250_000)
    digest = layout(tmp_path / "layout")
    (tmp_path / "chart.oci.tar").write_bytes(tar(archives.layout_files(tmp_path / "layout", "chart:1")))
    lines = table(tmp_path, {"wheel.whl": "abc", "chart.oci.tar": "def"}).splitlines()
    assert lines[1].split() == ["wheel.whl", "0.2", "MB", "abc"]
    assert lines[3].split() == ["in", "a", "registry", digest.removeprefix("sha256:")]


def test_buildah_gets_the_time_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert store.time_options() == []
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    assert store.time_options() == ["--timestamp", "7"]
    monkeypatch.setenv("STREAMJOB_IMAGES_DIR", str(tmp_path / "images"))
    assert (store.folder(), store.lock()) == (tmp_path / "images", tmp_path / "images.lock")


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_a_full_version(workflow: Path) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", name)] == []


def test_actionlint_accepts_the_workflows() -> None:
    program = programs.go_program("actionlint", "1.7.12", "github.com/rhysd/actionlint/cmd/actionlint")
    done = subprocess.run([program, *WORKFLOWS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_forge_uses_the_tools_of_a_release_on_this_machine() -> None:
    release = next(path for path in WORKFLOWS if path.name == "release.yml")
    options = [step.get("with", {}) for step in steps(release)]
    assert {o["version"] for o in options if "version" in o} == {charts.ORAS_VERSION}
    assert {o["cosign-release"] for o in options if "cosign-release" in o} == {f"v{sign.COSIGN_VERSION}"}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_there_is(workflow: Path) -> None:
    text = workflow.read_text()
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"(?m)^ *(?:[A-Z]+=\S+ )*make ([a-z-]+)", text):
        assert re.search(rf"(?m)^{target}:", makefile), target
    for script in re.findall(r"run: (\.ci/\S+)", text):
        assert (REPOSITORY / script).is_file()
