"""The real cluster for tests marked `cluster`: booted before the first of them, ended after the last.

It stays if it was up before or with KEEP=1. CLUSTER=context takes one of the user's own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from dev.cluster.layout import Layout
from dev.demo import site
from dev.demo.console import Console
from dev.demo.site import Settings, Site

NAMESPACE = "streamjob-e2e"
ROW = re.compile(r"(?<![a-z0-9])row[0-9]+(?=[-_])")
COLD = 3000  # seconds: the first test of a cold machine waits until Kubernetes and the images are built
SETTINGS = Settings.from_environment()

# A busy machine is no finding. Otherwise as Hypothesis has it: with CI set, its examples are the same each time.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

if not SETTINGS.context:
    os.environ["KUBECONFIG"] = str(Layout.from_environment().kubeconfig)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test or case whose name says `row4-…` or `row4_…` is about row 4 of docs/semantics.md: `pytest -m row4`."""
    for row in ROW.findall(item.name):
        item.add_marker(row)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick ones first, the cluster's last."""
    items.sort(key=lambda item: (is_for_cluster(item), "tests/spark" in str(item.path)))
    for item in [item for item in items if is_for_cluster(item)]:
        if isinstance(item, pytest.Function) and "cluster" not in item.fixturenames:
            item.fixturenames.insert(0, "cluster")
    first = next((item for item in items if is_for_cluster(item)), None)
    if first:
        first.add_marker(pytest.mark.timeout(COLD), append=False)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have measured, by `record_property("figure", …)`: also from other processes."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, [])]
    figures = [v for r in reports for name, v in getattr(r, "user_properties", []) if name == "figure"]
    if figures:
        terminalreporter.section("figures")
        for figure in figures:
            terminalreporter.write_line(str(figure))


def is_for_cluster(item: pytest.Item) -> bool:
    return item.get_closest_marker("cluster") is not None


@pytest.fixture(scope="session")
def cluster() -> Iterator[Site]:
    """A cluster with the images in it, the chart installed and watching the namespace of the tests."""
    console = Console()
    place = site.reach_cluster(SETTINGS, NAMESPACE, console)
    try:
        site.bring_images(place, console)
        site.remove(place, console)
        site.make_namespace(place)
        site.install_chart(place, console)
        yield place
    finally:
        if place.booted and not SETTINGS.keep:
            site.end_cluster(console)
        elif not SETTINGS.keep:
            site.remove(place, console)
