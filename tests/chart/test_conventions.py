"""What users of `helm create` expect of every chart: names, labels, users of pods, hooks, a README."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dev.docs.chart import readme, values
from streamjob.api import StreamJob
from streamjob.api.crd import definition
from streamjob.controller.api_server import paths

from .test_chart import CHART, HELM, helm, hook, of, pytestmark, render

__all__ = ["pytestmark"]
EVERYTHING = [
    *(f"monitoring.{part}.enabled=true" for part in ("podMonitor", "rules", "dashboard")),
    "createAggregateRoles=true",
]
OPENSHIFT = "podSecurity=OpenShift"


def pods(objects: list[Any]) -> list[Any]:
    """Metadata and specification of each pod that the chart makes."""
    templates = [o["spec"]["template"] for o in objects if o["kind"] in ("Deployment", "Job")]
    return [*templates, *(o for o in objects if o["kind"] == "Pod")]


def names(objects: list[Any], kind: str = "Deployment") -> set[str]:
    return {o["metadata"]["name"] for o in of(kind, objects)}


def test_names_follow_the_release_and_can_be_overridden() -> None:
    assert names(render()) == {"sj-streamjob"}
    assert names(render(release="streamjob")) == names(render(release="streamjob")) == {"streamjob"}
    assert names(render(release="my-streamjob-2")) == {"my-streamjob-2"}
    assert names(render("nameOverride=streams")) == {"sj-streams"}
    assert names(render("fullnameOverride=streams")) == {"streams"}
    long = names(render(f"nameOverride={'x' * 60}", release="r" * 40), "NetworkPolicy")
    assert max(map(len, long)) <= 63


def test_two_releases_in_a_namespace_share_no_object_but_what_their_drivers_share() -> None:
    def ids(release: str) -> set[tuple[str, str]]:
        return {(o["kind"], o["metadata"]["name"]) for o in render(*EVERYTHING, release=release)}

    assert {name for _, name in ids("a") & ids("b")} == {"streamjob-driver"}


def test_labels_and_annotations_of_all_objects() -> None:
    objects = render(
        *EVERYTHING, "commonLabels.team=data", "commonAnnotations.owner=data", "nameOverride=streams"
    )
    metadata = [o["metadata"] for o in objects]
    for found in metadata:
        labels = found["labels"]
        assert labels["app.kubernetes.io/name"] == "streams"
        assert labels["app.kubernetes.io/instance"] == "sj"
        assert labels["helm.sh/chart"].startswith("streamjob-")
        assert labels["team"] == found["annotations"]["owner"] == "data", found["name"]
    assert all(pod["metadata"]["labels"]["team"] == "data" for pod in pods(objects))


def test_a_selector_is_about_the_controllers_pods_only() -> None:
    objects = render("commonLabels.team=data")
    (deployment,) = of("Deployment", objects)
    chosen = deployment["spec"]["selector"]["matchLabels"]
    assert "team" not in chosen, "a selector cannot be changed"
    matching = [p for p in pods(objects) if chosen.items() <= p["metadata"]["labels"].items()]
    assert matching == [deployment["spec"]["template"]]


@pytest.mark.parametrize("value", ["podSecurity=Default", OPENSHIFT])
def test_who_the_pods_run_as(value: str) -> None:
    found = pods(render(value))
    assert len(found) == 3, "controller, crds, test"
    for pod in found:
        context = pod["spec"]["securityContext"]
        users = {context.get(key) for key in ("runAsUser", "runAsGroup", "fsGroup")}
        assert users == ({None} if value == OPENSHIFT else {10001})
        assert context["runAsNonRoot"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_further_environment_variables() -> None:
    for pod in pods(render("extraEnv[0].name=HTTPS_PROXY", "extraEnv[0].value=http://proxy:3128")):
        assert pod["spec"]["containers"][0]["env"] == [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]
    assert all("env" not in pod["spec"]["containers"][0] for pod in pods(render()))


def test_an_account_of_ones_own() -> None:
    objects = render("serviceAccount.create=false", "serviceAccount.name=mine")
    assert names(objects, "ServiceAccount") == {"streamjob-driver"}
    (deployment,) = of("Deployment", objects)
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "mine"
    bound = [b["subjects"][0]["name"] for b in of("RoleBinding", objects)]
    assert sorted(set(bound)) == ["mine", "streamjob-driver"]


def test_the_job_for_the_definition_may_change_this_one_definition_only() -> None:
    objects = [o for o in render() if hook(o) == "pre-install,pre-upgrade"]
    (role,) = [o for o in objects if o["kind"] == "ClusterRole"]
    group, name = paths.definition(definition()["metadata"]["name"]).split("/")[2::3]
    assert role["rules"] == [
        {
            "apiGroups": [group],
            "resources": ["customresourcedefinitions"],
            "resourceNames": [name],
            "verbs": ["get", "update"],
        }
    ]
    (binding,) = [o for o in objects if o["kind"] == "ClusterRoleBinding"]
    (job,) = [o for o in objects if o["kind"] == "Job"]
    assert binding["subjects"][0]["name"] == job["spec"]["template"]["spec"]["serviceAccountName"]
    weights = {o["kind"]: int(o["metadata"]["annotations"]["helm.sh/hook-weight"]) for o in objects}
    assert (
        weights["Job"] > weights["ClusterRole"] == weights["ClusterRoleBinding"] == weights["ServiceAccount"]
    )


def test_without_the_job_nothing_is_left_of_it() -> None:
    assert {hook(o) for o in render("crds.upgrade=false")} == {"", "test"}


def test_the_chart_has_the_definition_of_the_models() -> None:
    assert yaml.safe_load((CHART / "crds" / "streamjobs.yaml").read_text()) == definition()


def test_the_readme_is_what_the_values_say() -> None:
    assert (CHART / "README.md").read_text() == readme(CHART), "make chart"


def test_every_value_is_explained() -> None:
    found = list(values((CHART / "values.yaml").read_text()))
    assert [v.name for v in found if not v.comment] == []
    assert len({v.name for v in found}) == len(found)


def leaves(node: Any, path: str = "") -> set[str]:
    if not isinstance(node, dict) or not node:
        return {path}
    return {leaf for key, child in node.items() for leaf in leaves(child, f"{path}.{key}".strip("."))}


def test_the_schema_has_each_value_and_no_others() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(defaults, schema)

    def closed(node: dict[str, Any], value: Any, path: str) -> None:
        """Each object either names its properties, which are those of the values, or is open on purpose."""
        if "$ref" in node:
            node = schema["definitions"][node["$ref"].rpartition("/")[2]]
        if "properties" not in node or not isinstance(value, dict):
            return
        assert node["additionalProperties"] is False, path
        if path != "resources":
            assert set(node["properties"]) - {"global"} == set(value), path
        for key, child in value.items():
            closed(node["properties"][key], child, f"{path}.{key}".strip("."))

    closed(schema, defaults, "")


def test_what_the_hub_shows() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    annotations = chart["annotations"]
    (crd,) = yaml.safe_load(annotations["artifacthub.io/crds"])
    assert (crd["kind"], crd["name"]) == ("StreamJob", definition()["metadata"]["name"])
    (example,) = yaml.safe_load(annotations["artifacthub.io/crdsExamples"])
    made = {"namespace": "n", "uid": "1", "generation": 1, "resourceVersion": "1"}
    StreamJob.parse(example | {"metadata": example["metadata"] | made})
    assert chart["maintainers"]
    assert chart["icon"].startswith("data:image/svg+xml;base64,")


def test_the_notes_name_the_objects(tmp_path: Path) -> None:
    """Rendered as a part of a ConfigMap, because only a cluster makes helm show the notes."""
    assert HELM is not None
    chart = tmp_path / "streamjob"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "NOTES.txt").rename(chart / "notes")
    (chart / "templates" / "notes.yaml").write_text(
        'notes: |\n  {{ tpl (.Files.Get "notes") . | nindent 2 }}\n'
    )
    command = [HELM, "template", "sj", str(chart), "--namespace", "ops", "--kube-version", "1.35.0"]
    options = ["--show-only", "templates/notes.yaml", "--set", "fullnameOverride=streams"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert "-n ops rollout status deployment/streams" in done.stdout, done.stderr
    assert "helm test sj -n ops" in done.stdout
    shown = re.findall(r"^ +kubectl (.*streamjob (?:status|drain|ui).*)$", done.stdout, re.MULTILINE)
    assert {line.split()[1] for line in shown} == {"status", "drain", "ui"}
    assert all(line.startswith("streamjob ") for line in shown), "kubectl takes no options before a plugin"
    assert all("-n ops" in line for line in shown)


def test_the_test_pod_reaches_the_controller_although_others_may_not() -> None:
    objects = render("networkPolicy.metricsFrom[0].podSelector.matchLabels.app=prometheus")
    (policy,) = [p for p in of("NetworkPolicy", objects) if p["metadata"]["name"] == "sj-streamjob"]
    (test,) = [o for o in objects if o["kind"] == "Pod"]
    allowed = [p["podSelector"]["matchLabels"] for rule in policy["spec"]["ingress"] for p in rule["from"]]
    assert any(labels.items() <= test["metadata"]["labels"].items() for labels in allowed)
    (service,) = [o for o in objects if o["kind"] == "Service"]
    assert test["spec"]["containers"][0]["args"][1:] == [
        f"{service['metadata']['name']}.ops.svc",
        str(service["spec"]["ports"][0]["port"]),
        "2",
        "120",
    ]


def test_unknown_values_are_refused() -> None:
    assert "schema" in helm("replica=3").stderr
