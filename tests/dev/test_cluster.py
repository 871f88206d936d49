"""The pure parts of the built-in cluster and of the image build: what can be known without a machine to try
it on.
"""

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from dev.cluster import build, cgroups, lifecycle, load, network, node, pause, processes
from dev.cluster.layout import ClusterError, Layout
from dev.cluster.preconditions import Machine, missing_packages, objection, objection_to_folders
from dev.images import build as images
from dev.images import store
from dev.images.dockerfile import base_images, debian_suite

GOOD = Machine(
    system="Linux", architecture="x86_64", user=0, has_apt=True, has_cgroups=True, has_overlay=True
)
FOLDER = Path("/home/dev/streamjob/.cluster")
CACHE = Path("/home/dev/.cache/streamjob")


def test_a_good_machine_meets_no_objection() -> None:
    assert objection(GOOD, ["runc"]) is None
    assert objection_to_folders(FOLDER, CACHE) is None


@pytest.mark.parametrize(
    ("machine", "missing", "said"),
    [
        (replace(GOOD, system="Darwin", architecture="arm64"), [], "Darwin on arm64"),
        (replace(GOOD, user=1000), [], "run it with sudo"),
        (replace(GOOD, has_apt=False), ["containerd", "runc"], "to install containerd runc"),
        (replace(GOOD, has_cgroups=False), [], "/sys/fs/cgroup cannot be written"),
        (replace(GOOD, has_overlay=False), [], "modprobe overlay"),
    ],
)
def test_an_objection_is_one_sentence_with_a_way_out(machine: Machine, missing: list[str], said: str) -> None:
    sentence = objection(machine, missing)
    assert sentence is not None
    assert said in sentence
    assert "CLUSTER=context" in sentence
    assert "\n" not in sentence


def test_without_apt_nothing_is_wrong_if_nothing_is_missing() -> None:
    assert objection(replace(GOOD, has_apt=False), []) is None


def test_folders_that_the_node_hides_are_refused() -> None:
    assert "STREAMJOB_CLUSTER_DIR" in (objection_to_folders(Path("/var/lib/ci/.cluster"), CACHE) or "")
    assert "XDG_CACHE_HOME" in (objection_to_folders(FOLDER, Path("/var/lib/ci/cache")) or "")
    assert "too long" in (objection_to_folders(Path("/" + "x" * 90), CACHE) or "")


GO = """#!/bin/sh
test "$1" != version || exec echo "go version go1.26.1 linux/amd64"
echo built >>"$XDG_CACHE_HOME/built"
until test -e "$XDG_CACHE_HOME/go-on"; do sleep 0.02; done
touch "$GOBIN/tool"
"""


def test_two_that_need_the_same_program_at_once_build_it_once(tmp_path: Path) -> None:
    (tmp_path / "go").write_text(GO)
    (tmp_path / "go").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PATH": path}
    code = "from dev.cluster.build import go_program; print(go_program('tool', '1.0', 'a.b/tool'))"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as one:
        while not (tmp_path / "built").exists():
            assert one.poll() is None
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "  waiting for another build of the same to end\n"
            (tmp_path / "go-on").touch()
            said = [process.communicate(timeout=300)[0].splitlines()[-1] for process in (one, other)]
    assert said == [f"{tmp_path}/streamjob/tool-1.0/tool"] * 2
    assert Path(said[0]).exists()
    assert (tmp_path / "built").read_text() == "built\n"


def test_each_missing_package_is_named_once() -> None:
    programs = {"containerd": "containerd", "ctr": "containerd", "ip": "iproute2"}
    assert missing_packages(programs, lambda program: None) == ["containerd", "iproute2"]
    assert missing_packages(programs, lambda program: "/bin/" + program) == []


def test_subnets_of_a_cluster_do_not_overlap_each_other_or_another_cluster() -> None:
    everything = [net for number in range(network.CHOICES) for net in network.Addresses(number).all()]
    for position, one in enumerate(everything):
        assert one.is_private
        assert not any(one.overlaps(other) for other in everything[position + 1 :])


def test_a_subnet_in_use_is_passed_over() -> None:
    first = network.choose("00000a", [])
    assert first.number == 10
    second = network.choose("00000a", [first.pods])
    assert second.number == 11
    assert network.choose("00003f", [network.Addresses(63).wire]).number == 0
    with pytest.raises(ClusterError):
        network.choose("00000a", [IPv4Network("10.0.0.0/8")])


def test_routes_are_read_as_ip_prints_them() -> None:
    lines = [
        "default via 192.0.2.1 dev eth0",
        "10.146.0.0/24 via 172.30.18.2 dev sj166592h",
        "local 192.0.2.2 dev eth0 table local proto kernel scope host src 192.0.2.2",
        "broadcast 192.0.2.255 dev eth0 table local proto kernel scope link",
    ]
    assert [str(net) for net in network.parse_routes(lines)] == [
        "10.146.0.0/24",
        "192.0.2.2/32",
        "192.0.2.255/32",
    ]


def test_two_folders_are_two_clusters_with_valid_device_names() -> None:
    one, other = Layout(FOLDER), Layout(FOLDER / "other")
    assert network.host_device(one) != network.host_device(other)
    assert one.cgroup != other.cgroup
    assert len(network.host_device(one)) < 16  # the kernel's limit, with its final zero byte


def test_cgroup_trees_are_found_on_v1_hybrid_and_v2() -> None:
    hybrid = (
        "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        "31 30 0:27 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids\n"
        "39 30 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    )
    assert cgroups.parse_trees(hybrid) == {
        "pids": Path("/sys/fs/cgroup/pids"),
        "unified": Path("/sys/fs/cgroup/unified"),
    }
    v2 = "30 25 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    assert cgroups.parse_trees(v2) == {"cgroup": Path("/sys/fs/cgroup")}


def test_mounts_are_taken_away_deepest_first_and_only_ours() -> None:
    mountinfo = "\n".join(
        f"{number} 1 0:1 / {point} rw - tmpfs tmpfs rw"
        for number, point in enumerate(("/a/.cluster", "/a/.cluster/x\\040y/z", "/a/.cluster-other", "/a"))
    )
    found = lifecycle.mounts_below(Path("/a/.cluster"), mountinfo)
    assert found == [Path("/a/.cluster/x y/z"), Path("/a/.cluster")]


def test_a_process_id_that_is_used_again_is_another_process() -> None:
    with subprocess.Popen(["sleep", "3600"]) as child:
        started = processes.start_time(child.pid)
        assert started is not None
        assert processes.Process("sleep", child.pid, started).alive
        assert not processes.Process("sleep", child.pid, started - 1).alive
        child.kill()
        child.wait()
    assert not processes.Process("sleep", child.pid, started).alive


@pytest.mark.parametrize(
    ("said", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26)), ("go version devel +abc", (0, 0)), ("", (0, 0))],
)
def test_go_versions(said: str, version: tuple[int, int]) -> None:
    assert build.go_version(said) == version


def test_binaries_are_built_anew_when_a_source_changes(tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text("package main")
    before = build.source_hash(tmp_path)
    (tmp_path / "notes.txt").write_text("not compiled")
    assert build.source_hash(tmp_path) == before
    (tmp_path / "main.go").write_text("package other")
    assert build.source_hash(tmp_path) != before


def test_from_lines() -> None:
    text = (
        "# FROM nothing\n"
        "FROM --platform=linux/amd64 docker.io/library/debian:bookworm-slim AS base\n"
        "FROM base AS build\nFROM scratch\nfrom build as last\nFROM debian:trixie\n"
    )
    assert base_images(text) == ["docker.io/library/debian:bookworm-slim", "debian:trixie"]


@pytest.mark.parametrize("target", images.TARGETS)
def test_our_dockerfiles_start_from_an_image_that_can_be_made(target: str) -> None:
    text = "".join(file.read_text() for file in images.TARGETS[target].dockerfiles)
    assert [debian_suite(image) for image in base_images(text)] == ["bookworm"]


def test_other_images_cannot_be_made() -> None:
    assert debian_suite("docker.io/library/alpine:3") is None
    assert debian_suite("debian:latest@sha256:00") is None


def test_short_image_names() -> None:
    assert store.full_name("driver") == "streamjob.dev/driver:dev"
    assert store.full_name("driver:2") == "streamjob.dev/driver:2"
    assert store.full_name("localhost:5000/x") == "localhost:5000/x:dev"


def test_each_stage_has_a_name_of_its_own() -> None:
    """buildah reads the product's Dockerfile and another one as one."""
    for target, source in images.TARGETS.items():
        text = "".join(file.read_text() for file in source.dockerfiles)
        names = re.findall(r"^FROM .* AS (\S+)$", text, re.MULTILINE)
        assert len(names) == len(set(names)), target
        assert source.stage in names, target


def _blob(folder: Path, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    (folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
    (folder / "blobs" / "sha256" / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def test_only_layers_that_the_node_lacks_are_sent(tmp_path: Path) -> None:
    config, old, new = (_blob(tmp_path, content) for content in (b"{}", b"old layer", b"new layer"))
    manifest = _blob(tmp_path, json.dumps({"config": config, "layers": [old, new]}).encode())
    out = io.BytesIO()
    load.write_stream(
        out, "streamjob.dev/x:dev", manifest, tmp_path, {str(old["digest"]), str(config["digest"])}
    )
    out.seek(0)
    with tarfile.open(fileobj=out) as archive:
        names = set(archive.getnames())
        index = json.load(archive.extractfile("index.json") or io.BytesIO())
    sent = {str(blob["digest"]).replace("sha256:", "blobs/sha256/") for blob in (manifest, config, new)}
    assert names == sent | {"oci-layout", "index.json"}
    assert index["manifests"][0]["annotations"] == {load.NAME: "streamjob.dev/x:dev"}


def test_the_pause_image_names_its_layer_by_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "pause").write_bytes(b"\x7fELF")
    pause.write_archive(tmp_path / "pause", tmp_path / "pause.tar")
    with tarfile.open(tmp_path / "pause.tar") as archive:
        config = json.load(archive.extractfile("config.json") or io.BytesIO())
        layer = (archive.extractfile("layer.tar") or io.BytesIO()).read()
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]


def test_the_pods_of_two_nodes_have_different_addresses() -> None:
    addresses = network.Addresses(7)
    taken: set[IPv4Address] = set()
    for second in (False, True):
        configuration: Any = node.network_configuration(addresses, second=second)
        ((given,),) = configuration["plugins"][0]["ipam"]["ranges"]
        first, last = IPv4Address(given["rangeStart"]), IPv4Address(given["rangeEnd"])
        assert IPv4Network(given["subnet"]) == addresses.pods
        ours = {IPv4Address(n) for n in range(int(first), int(last) + 1)}
        assert len(ours) > 110  # pods that the kubelet takes at most
        assert ours < set(addresses.pods.hosts())
        assert not ours & taken
        taken |= ours


def test_a_second_node_has_a_cgroup_and_a_folder_of_its_own() -> None:
    layout = Layout(FOLDER)
    assert layout.second.root.is_relative_to(layout.root)
    assert layout.second.cgroup != layout.cgroup
    assert layout.second.containerd_socket != layout.containerd_socket
