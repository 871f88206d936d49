"""`spec.state` and a manifest in Git, on a real API server: what becomes of what somebody has patched when
the manifest is applied again. docs/gitops.md says it.

No controller runs: this is about who owns a field of the spec.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from dev.demo.kubectl import Kubectl
from dev.demo.site import Site
from dev.demo.waiting import Failure
from dev.gitops import programs

from .cases import SCRIPTS, Obj

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not os.environ.get("KUBECONFIG"), reason="KUBECONFIG names no cluster (make cluster)"),
]
CLIENT_SIDE = ("--field-manager=argocd-controller",)  # Argo CD's default; `kubectl apply` does the same
SERVER_SIDE = ("--server-side", "--force-conflicts", "--field-manager=argocd-controller")
APPLY = {"client-side": CLIENT_SIDE, "server-side": SERVER_SIDE}
PATCHES: dict[str, Any] = {"state": "Stopped", "suspend": True}
FINALIZER = "streamjob.dev/termination"
FLUX = "kustomize.toolkit.fluxcd.io/ssa"


class Git:
    """A namespace, and a StreamJob in it that is applied from a manifest."""

    def __init__(self, kubectl: Kubectl) -> None:
        self.kubectl = kubectl

    def manifest(self, *, annotations: dict[str, str] | None = None, **spec: Any) -> str:
        return json.dumps(
            {
                "apiVersion": "streamjob.dev/v1alpha1",
                "kind": "StreamJob",
                "metadata": {
                    "name": "orders",
                    "namespace": self.kubectl.namespace,
                    "annotations": annotations or {},
                },
                "spec": {
                    "image": "orders:1",
                    "application": {"file": "/app/orders.py"},
                    "storage": {"checkpoints": "file:///data/cp", "savepoints": "file:///data/sp"},
                    **spec,
                },
            }
        )

    def apply(self, how: tuple[str, ...], **spec: Any) -> None:
        self.kubectl.run("apply", *how, "-f", "-", stdin=self.manifest(**spec))

    def flux(self, **spec: Any) -> str:
        return programs.flux_apply(self.manifest(**spec), self.kubectl.environment()["KUBECONFIG"])

    def patch(self, *options: str, **spec: Any) -> None:
        change = json.dumps({"spec": spec})
        self.kubectl.run("patch", "sj", "orders", "--type", "merge", *options, "-p", change)

    @property
    def job(self) -> Obj:
        found = self.kubectl.get("sj", "orders")
        assert found is not None
        return found

    @property
    def spec(self) -> Obj:
        spec: Obj = self.job["spec"]
        return spec


@pytest.fixture
def git(booted: Site) -> Iterator[Git]:
    namespace = f"gitops-{uuid.uuid4().hex[:8]}"
    kubectl = booted.within(namespace).kubectl
    kubectl.run("create", "namespace", namespace)
    yield Git(kubectl)
    kubectl.run("delete", "namespace", namespace, "--wait=false")


def test_a_job_that_no_controller_has_seen_is_in_progress(git: Git) -> None:
    """Without the status that the API server shows by default, Flux would go on at once."""
    git.apply(CLIENT_SIDE)
    assert git.job["status"]["observedGeneration"] == -1
    assert [v.status for v in programs.kstatus([git.job])] == ["InProgress"]
    assert [v.status for v in programs.argocd(SCRIPTS / "health.lua", [git.job])] == ["Progressing"]
    with pytest.raises(Failure, match="timed out"):
        git.kubectl.run("wait", "sj/orders", "--for=condition=Ready", "--timeout=1s")


def test_wait_looks_at_the_newest_generation(git: Git) -> None:
    git.apply(CLIENT_SIDE)
    ready = {"type": "Ready", "status": "True", "reason": "Running", "message": "Epoch 1 runs"}
    ready |= {"lastTransitionTime": "2026-01-02T03:04:05Z"}
    status = {"observedGeneration": 1, "conditions": [{**ready, "observedGeneration": 1}]}
    change = json.dumps({"status": status})
    git.kubectl.run("patch", "sj", "orders", "--subresource=status", "--type", "merge", "-p", change)
    wait = ("wait", "sj/orders", "--for=condition=Ready", "--timeout=1s")
    git.kubectl.run(*wait)
    git.patch(state="Stopped")
    with pytest.raises(Failure, match="timed out"):
        git.kubectl.run(*wait)
    assert [v.status for v in programs.kstatus([git.job])] == ["InProgress"]


@pytest.mark.parametrize("field", PATCHES)
@pytest.mark.parametrize("how", APPLY)
def test_a_field_that_is_not_in_git_stays_as_somebody_patched_it(git: Git, how: str, field: str) -> None:
    git.apply(APPLY[how])
    git.patch(**{field: PATCHES[field]})
    finalizer = json.dumps({"metadata": {"finalizers": [FINALIZER]}})  # as the controller adds it
    git.kubectl.run("patch", "sj", "orders", "--type", "merge", "-p", finalizer)
    git.apply(APPLY[how], image="orders:2")
    assert (git.spec["image"], git.spec[field]) == ("orders:2", PATCHES[field])
    assert git.job["metadata"]["finalizers"] == [FINALIZER]
    git.kubectl.run("patch", "sj", "orders", "--type", "merge", "-p", '{"metadata":{"finalizers":null}}')


@pytest.mark.parametrize("how", APPLY)
def test_a_state_in_git_undoes_what_somebody_patched(git: Git, how: str) -> None:
    git.apply(APPLY[how], state="Running")
    git.patch(state="Stopped")
    git.apply(APPLY[how], state="Running")
    assert git.spec["state"] == "Running"


@pytest.mark.parametrize("how", APPLY)
def test_a_state_that_leaves_git_becomes_running(git: Git, how: str) -> None:
    git.apply(APPLY[how], state="Stopped")
    git.apply(APPLY[how])
    assert git.spec["state"] == "Running"


def test_an_apply_without_force_names_who_has_patched_the_state(git: Git) -> None:
    own = ("--server-side", "--field-manager=argocd-controller")
    git.apply(own, state="Running")
    git.patch(state="Stopped")
    with pytest.raises(Failure, match=r'conflict with "kubectl-patch".*\.spec\.state'):
        git.apply(own, state="Running")
    assert git.spec["state"] == "Stopped"


@pytest.mark.parametrize("how", APPLY)
def test_a_drain_is_not_taken_back_by_git(git: Git, how: str) -> None:
    git.apply(APPLY[how], state="Drained")
    for later in ({"state": "Running"}, {}):
        with pytest.raises(Failure, match="a drain is an end and is not taken back"):
            git.apply(APPLY[how], image="orders:2", **later)
    assert (git.spec["state"], git.spec["image"]) == ("Drained", "orders:1")
    git.apply(APPLY[how], image="orders:2", state="Drained")


def test_what_is_pruned_is_terminating_until_the_controller_has_ended_it(git: Git) -> None:
    git.apply(CLIENT_SIDE)
    finalizer = json.dumps({"metadata": {"finalizers": [FINALIZER]}})
    git.kubectl.run("patch", "sj", "orders", "--type", "merge", "-p", finalizer)
    git.kubectl.run("delete", "sj", "orders", "--wait=false")
    assert [v.status for v in programs.kstatus([git.job])] == ["Terminating"]
    assert [v.status for v in programs.argocd(SCRIPTS / "health.lua", [git.job])] == ["Progressing"]
    git.kubectl.run("patch", "sj", "orders", "--type", "merge", "-p", '{"metadata":{"finalizers":null}}')
    assert git.kubectl.get("sj", "orders") is None


def test_argo_cds_config_map_keeps_what_is_there(git: Git) -> None:
    apply = ("apply", "--server-side", "--field-manager=streamjob", "-f")
    git.kubectl.run("create", "configmap", "argocd-cm", "--from-literal=url=https://argocd.example")
    git.kubectl.run(*apply, str(SCRIPTS.parents[1] / "argocd-cm.yaml"))
    found = git.kubectl.get("configmap", "argocd-cm")
    assert found is not None
    health = found["data"]["resource.customizations.health.streamjob.dev_StreamJob"]
    assert health == (SCRIPTS / "health.lua").read_text()
    assert found["data"]["url"] == "https://argocd.example"


# --- Flux: its own library for server-side apply ------------------------------------------------------------

flux = pytest.mark.slow  # builds that library: minutes, the first time


@flux
def test_flux_undoes_what_kubectl_has_patched_even_if_git_does_not_name_it(git: Git) -> None:
    """It takes over the fields of managers named kubectl…, and removes them: the default is Running."""
    assert "created" in git.flux()
    git.patch(state="Stopped")
    assert "configured" in git.flux()
    assert git.spec["state"] == "Running"


@flux
@pytest.mark.parametrize(
    ("annotations", "options"),
    [
        ({FLUX: "Merge"}, ()),
        ({}, ("--field-manager=flux-client-side-apply",)),
        ({}, ("--field-manager=oncall",)),
    ],
    ids=["Merge", "flux-client-side-apply", "another-manager"],
)
def test_unless_it_is_told_to_leave_it(
    git: Git, annotations: dict[str, str], options: tuple[str, ...]
) -> None:
    git.flux(annotations=annotations)
    git.patch(*options, state="Stopped")
    git.flux(annotations=annotations, image="orders:2")
    assert (git.spec["image"], git.spec["state"]) == ("orders:2", "Stopped")


@flux
def test_nothing_keeps_what_git_names(git: Git) -> None:
    git.flux(annotations={FLUX: "Merge"}, state="Running")
    git.patch("--field-manager=flux-client-side-apply", state="Stopped")
    git.flux(annotations={FLUX: "Merge"}, state="Running")
    assert git.spec["state"] == "Running"


@flux
def test_flux_applies_nothing_beside_a_drain_that_would_be_taken_back(git: Git) -> None:
    def both(state: str) -> str:
        meta = {"name": "beside", "namespace": git.kubectl.namespace}
        beside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"state": state}}
        return json.dumps(beside) + "\n---\n" + git.manifest(state=state)

    kubeconfig = git.kubectl.environment()["KUBECONFIG"]
    programs.flux_apply(both("Drained"), kubeconfig)
    with pytest.raises(RuntimeError, match="a drain is an end and is not taken back"):
        programs.flux_apply(both("Running"), kubeconfig)
    beside = git.kubectl.get("configmap", "beside")
    assert beside is not None
    assert beside["data"] == {"state": "Drained"}
