"""The installed chart: it passes its own test, and an upgrade brings a new definition of a StreamJob."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy

import pytest

from dev.demo import site as sites
from dev.demo.console import Console
from dev.demo.kubectl import Object
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE, until
from streamjob.api.crd import VERSION_ANNOTATION, definition

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
FIELD, VALUE = "imagePullPolicy", "Always"  # no rule of the definition is about it


@pytest.fixture
def own_definition(cluster: Site, api_server_alone: None) -> Iterator[None]:
    """Nobody else needs the definition meanwhile, and afterwards it is as it was."""
    yield
    replace(cluster, definition())


def replace(site: Site, body: Object) -> None:
    """Make this the cluster's definition, and wait until the API server goes by it."""
    site.kubectl.run("replace", "-f", "-", stdin=json.dumps(body))
    until(lambda: knows(site) == (FIELD in fields(body)), "the API server has the definition", PATIENCE)


def fields(body: Object) -> Object:
    found: Object = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return dict(found["properties"])


def knows(site: Site) -> bool:
    """Whether the API server keeps the field in an object."""
    job = {
        "apiVersion": "streamjob.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": "of-an-older-version"},
        "spec": {
            "image": "orders:1",
            "application": {"file": "/app.py"},
            "storage": {"checkpoints": "/c", "savepoints": "/s"},
            FIELD: VALUE,
        },
    }
    options = ("--dry-run=server", "--validate=false", "-o", "json", "-f", "-")
    made = site.kubectl.run("create", *options, stdin=json.dumps(job))
    return FIELD in json.loads(made)["spec"]


def of_version(version: str) -> Object:
    """The definition without a field, as of this version."""
    other = deepcopy(definition())
    other["metadata"]["annotations"][VERSION_ANNOTATION] = version
    del other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][FIELD]
    return other


def test_an_upgrade_brings_the_definition_unless_the_clusters_is_newer(
    cluster: Site, own_definition: None
) -> None:
    replace(cluster, of_version("0.0.1"))
    sites.install_chart(cluster, Console())  # an upgrade, because the chart is installed
    until(lambda: knows(cluster), "the new field is there", PATIENCE)
    hooks = cluster.kubectl.run("get", "jobs,serviceaccounts,clusterroles,clusterrolebindings", "-o", "name")
    assert [name for name in hooks.split() if name.endswith("streamjob-crds")] == []

    replace(cluster, of_version("99.0.0"))
    sites.install_chart(cluster, Console())
    assert not knows(cluster)


def test_the_chart_passes_its_own_test(cluster: Site) -> None:
    said = sites.helm(cluster, "test", "streamjob", "--timeout", f"{PATIENCE:.0f}s")
    assert "Phase:          Succeeded" in said
    assert cluster.kubectl.get("service", "streamjob-test") is None
