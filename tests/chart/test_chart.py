"""The chart as helm renders it: exactly the rights that the code uses, pods locked down, wrong values
refused.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.cluster.layout import HELM_VERSION, cache_folder
from streamjob.controller.__main__ import arguments
from streamjob.controller.objects.driver_pod import driver_pod
from streamjob.controller.rules.driver_config import driver_config
from tests.controller.factories import job

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "streamjob"
BUILT = cache_folder() / f"helm-{HELM_VERSION}" / "helm"
HELM = str(BUILT) if BUILT.exists() else shutil.which("helm")

pytestmark = pytest.mark.skipif(HELM is None, reason="no helm (make test builds one)")


def helm(*values: str, release: str = "sj", namespace: str = "ops") -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    sets = [part for value in values for part in ("--set", value)]
    command = [HELM, "template", release, str(CHART), "--namespace", namespace]
    return subprocess.run(
        [*command, "--kube-version", "1.35.0", *sets],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def render(*values: str, release: str = "sj", namespace: str = "ops") -> list[Any]:
    done = helm(*values, release=release, namespace=namespace)
    assert done.returncode == 0, done.stderr
    return [d for d in yaml.safe_load_all(done.stdout) if d]


def hook(o: Any) -> str:
    """When helm makes the object; empty for one that stays."""
    return str(o["metadata"].get("annotations", {}).get("helm.sh/hook", ""))


def of(kind: str, objects: list[Any]) -> list[Any]:
    """The objects of this kind that stay."""
    return [o for o in objects if o["kind"] == kind and not hook(o)]


def rights(role: Any) -> set[tuple[str, str]]:
    return {
        (verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }


# One line for each method of kube.py, and what kopf needs to watch.
USED = {
    ("get", "streamjobs"),  # get_job
    ("list", "streamjobs"),  # list_jobs, list_restored, kopf
    ("watch", "streamjobs"),  # kopf
    ("patch", "streamjobs"),  # put_finalizers
    ("update", "streamjobs/status"),  # put_status
    ("get", "pods"),  # get_pod
    ("list", "pods"),  # list_pods, kopf
    ("watch", "pods"),  # kopf
    ("create", "pods"),  # create_pod
    ("delete", "pods"),  # delete_pod
    ("get", "configmaps"),  # get_config_map, has
    ("list", "configmaps"),  # list_config_maps
    ("create", "configmaps"),  # create_config_map
    ("update", "configmaps"),  # put_config_map
    ("delete", "configmaps"),  # delete_config_map
    ("get", "secrets"),  # get_secret, has
    ("create", "secrets"),  # create_secret
    *((verb, "services") for verb in ("get", "list", "create", "patch", "delete")),  # *_ui
    ("create", "events"),  # create_event
    ("patch", "events"),  # patch_event
}


def test_the_controller_has_the_rights_that_it_uses_and_no_others() -> None:
    roles = of("Role", render("watch.namespaces={a,b}"))
    ours = [r for r in roles if r["metadata"]["name"] == "sj-streamjob"]
    assert {r["metadata"]["namespace"] for r in ours} == {"a", "b"}
    assert all(rights(r) == USED for r in ours)


def test_by_default_nothing_is_cluster_wide() -> None:
    objects = render()
    assert not of("ClusterRole", objects)
    assert {o["metadata"].get("namespace") for o in objects if not hook(o)} == {"ops"}
    (deployment,) = of("Deployment", objects)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == [
        "--namespace=ops",
        "--lease=sj-streamjob",
        "--ui=Service",
    ]


@pytest.mark.parametrize(
    ("value", "kind", "resource"),
    [
        ("services", "Service", "services"),
        ("ingresses", "Ingress", "ingresses"),
        ("httpRoutes", "HTTPRoute", "httproutes"),
    ],
)
def test_what_may_be_made_for_sparks_ui(value: str, kind: str, resource: str) -> None:
    """The controller is told what its Role allows, and asks for nothing else."""
    for on in (True, False):
        others = [f"ui.{other}=false" for other in ("services", "ingresses", "httpRoutes") if other != value]
        objects = render(*others, f"ui.{value}={str(on).lower()}")
        (role,) = [r for r in of("Role", objects) if r["metadata"]["name"] == "sj-streamjob"]
        (deployment,) = of("Deployment", objects)
        args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        assert [a for a in args if a.startswith("--ui")] == ([f"--ui={kind}"] if on else [])
        asked = {name for _, name in rights(role)} & {"services", "ingresses", "httproutes"}
        assert asked == ({resource} if on else set())


def test_all_namespaces() -> None:
    objects = render("watch.allNamespaces=true")
    (role,) = of("ClusterRole", objects)
    assert rights(role) == USED
    (deployment,) = of("Deployment", objects)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == [
        "--all-namespaces",
        "--lease=sj-streamjob",
        "--ui=Service",
    ]


def test_whoever_may_view_or_edit_may_do_so_with_streamjobs() -> None:
    roles = {r["metadata"]["name"]: r for r in of("ClusterRole", render("createAggregateRoles=true"))}
    assert set(roles) == {"ops-sj-streamjob-view", "ops-sj-streamjob-edit"}
    to = {
        name: {key.rpartition("-")[2] for key in r["metadata"]["labels"] if "/aggregate-to-" in key}
        for name, r in roles.items()
    }
    assert to == {
        "ops-sj-streamjob-view": {"view", "edit", "admin"},
        "ops-sj-streamjob-edit": {"edit", "admin"},
    }
    assert {verb for verb, _ in rights(roles["ops-sj-streamjob-view"])} == {"get", "list", "watch"}
    everything = rights(roles["ops-sj-streamjob-view"]) | rights(roles["ops-sj-streamjob-edit"])
    assert {resource for _, resource in everything} == {
        "streamjobs",
        "streamjobs/scale",
    }, "the status is the controller's"


@pytest.mark.parametrize("watch", ["watch.namespaces={a,b}", "watch.allNamespaces=true"])
def test_the_lease_is_in_the_releases_own_namespace_and_no_other_can_be_changed(watch: str) -> None:
    objects = render(watch)
    (role,) = [r for r in of("Role", objects) if "leases" in str(r)]
    assert role["metadata"]["namespace"] == "ops"
    rules = {(*r["verbs"], *r.get("resourceNames", ())) for r in role["rules"]}
    assert rules == {("create",), ("get", "update", "sj-streamjob")}
    (binding,) = [b for b in of("RoleBinding", objects) if b["roleRef"]["name"] == role["metadata"]["name"]]
    (deployment,) = of("Deployment", objects)
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "ops"}]
    assert "--lease=sj-streamjob" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_every_argument_is_one_that_the_controller_knows() -> None:
    for values in (
        [],
        ["verbose=true", "logFormat=json", "watch.namespaces={a,b}"],
        ["watch.allNamespaces=true", "podSecurity=OpenShift"],
    ):
        (deployment,) = of("Deployment", render(*values))
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        given = arguments(container["args"])
        assert (given.log_format, given.verbose) == (
            ("json", True) if "verbose=true" in values else ("text", False)
        )
        assert given.platform_assigns_users == ("podSecurity=OpenShift" in values)
        assert given.lease == "sj-streamjob"


def test_there_is_a_standby() -> None:
    (deployment,) = of("Deployment", render())
    assert deployment["spec"]["replicas"] == 2
    (single,) = of("Deployment", render("replicas=1"))
    assert single["spec"]["replicas"] == 1


def test_no_wildcards() -> None:
    for role in [*of("Role", render()), *of("ClusterRole", render("watch.allNamespaces=true"))]:
        assert "*" not in str(role["rules"])


def test_drivers_may_handle_pods_only() -> None:
    objects = render()
    assert {resource for _, resource in rights(driver_role(objects))} == {"pods"}
    account = driver_pod(job(), driver_config(job(), None, 1, 0, None))["spec"]["serviceAccountName"]
    assert account in {a["metadata"]["name"] for a in of("ServiceAccount", objects)}


def test_claims_on_demand_are_one_permission_more() -> None:
    with_claims = rights(driver_role(render("driver.claimsOnDemand=true")))
    assert with_claims - rights(driver_role(render())) == {("create", "persistentvolumeclaims")}
    assert helm("driver.claimsOnDemand=maybe").returncode != 0


def driver_role(objects: list[Any]) -> Any:
    (role,) = [r for r in of("Role", objects) if r["metadata"]["name"] == "streamjob-driver"]
    return role


def test_the_controller_is_locked_down() -> None:
    (deployment,) = of("Deployment", render())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["resources"]["limits"]["memory"]


def test_a_controller_that_starts_slowly_is_not_killed_for_it() -> None:
    (deployment,) = of("Deployment", render())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    startup = container["startupProbe"]
    assert startup["httpGet"] == container["livenessProbe"]["httpGet"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 300


@pytest.mark.parametrize(
    "value",
    [
        "replicas=0",
        "watch.namespaces=a",
        "image.pullPolicy=Sometimes",
        "logFormat=xml",
        "driver.serviceAccount.name=A_b",
        "nameOverride=Stream_Job",
        "fullnameOverride=-x",
        "podSecurity=Openshift",
        "crds.upgrade=always",
        "extraEnv[0].value=without-a-name",
        "commonLabels.app\\.kubernetes\\.io/name=other",
        "commonLabels.team=two words",
        "unknown=1",
    ],
)
def test_wrong_values_are_refused(value: str) -> None:
    done = helm(value)
    assert done.returncode != 0
    assert "schema" in done.stderr


def test_it_passes_lint() -> None:
    assert HELM is not None
    done = subprocess.run([HELM, "lint", "--strict", str(CHART)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
