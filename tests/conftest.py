"""The real cluster for tests marked `cluster`: booted before the first of them, ended after the last.

It stays if it was up before or with KEEP=1. CLUSTER=context takes one of the user's own. Tests in tests/e2e
and tests/dev get the images and the chart too (`cluster`), the others, which bring a controller of their own,
the API server only: so the two kinds can run at the same time, as dev/test.sh has it.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dev.cluster.layout import Layout

from . import gate

# What only a cluster needs, its fixtures import themselves: most tests shall start at once.
if TYPE_CHECKING:
    from dev.demo.site import Site

NAMESPACE = "streamjob-e2e"
ROW = re.compile(r"(?<![a-z0-9])row[0-9]+(?=[-_])")
COLD = 3000  # seconds: the first test of a cold machine waits until Kubernetes and the images are built

if not os.environ.get("CLUSTER"):
    os.environ["KUBECONFIG"] = str(Layout.from_environment().kubeconfig)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test or case whose name says `row4-…` or `row4_…` is about row 4 of docs/semantics.md: `pytest -m
    row4`.
    """
    for row in ROW.findall(item.name):
        item.add_marker(row)
    gate.mark(item)


def pytest_report_header() -> str:
    return gate.said()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick ones first, the cluster's last.

    Of those with Spark, the ones that are given more time come first: one of them alone at the end would
    leave all cores but one idle.
    """
    items.sort(key=lambda item: (is_for_cluster(item), "tests/spark" in str(item.path), -time_given(item)))
    for item in [item for item in items if is_for_cluster(item)]:
        needed = "cluster" if item.path.parent.name in ("e2e", "dev") else "api_server"
        if isinstance(item, pytest.Function) and needed not in item.fixturenames:
            item.fixturenames.insert(0, needed)
    first = next((item for item in items if is_for_cluster(item)), None)
    if first:
        first.add_marker(pytest.mark.timeout(COLD), append=False)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.getplugin("terminalreporter")
    if terminal:  # not in a process of pytest-xdist
        config.pluginmanager.register(FailuresAtOnce(terminal))


class FailuresAtOnce:
    """A run of half an hour that somebody ends says what had failed by then."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self.terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.terminal.ensure_newline()
            self.terminal.write_line(f"FAILED {report.nodeid} ({report.when})")
            if crash:
                self.terminal.write_line("\n".join(crash.message.splitlines()[:12])[:2000])


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


def time_given(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    return float(marker.args[0]) if marker and "tests/spark" in str(item.path) else 0.0


@pytest.fixture(scope="session")
def booted() -> Iterator[Site]:
    """A cluster that is up."""
    from dev.demo import site
    from dev.demo.console import Console

    console, settings = Console(), site.Settings.from_environment()
    place = site.reach_cluster(settings, NAMESPACE, console)
    yield place
    if place.booted and not settings.keep:
        site.end_cluster(console)


@pytest.fixture(scope="session")
def cluster(booted: Site) -> Iterator[Site]:
    """A cluster with the images in it, the chart installed and watching the namespace of the tests."""
    from dev.demo import site
    from dev.demo.console import Console

    console = Console()
    try:
        site.bring_images(booted, console)
        site.remove(booted, console)
        site.make_namespace(booted)
        site.install_chart(booted, console)
        yield booted
    finally:
        if not booted.booted and not booted.settings.keep:
            site.remove(booted, console)


@pytest.fixture(scope="session")
def defined(booted: Site) -> Iterator[None]:
    """The cluster knows what a StreamJob is."""
    from dev.demo import site

    made = site.define(booted)
    yield
    if made and not booted.booted and not booted.settings.keep:
        site.undefine(booted)


@pytest.fixture
def api_server(defined: None) -> Iterator[None]:
    """It is there for as long as the test needs it."""
    with claimed(fcntl.LOCK_SH):
        yield


@pytest.fixture
def api_server_alone(cluster: Site) -> Iterator[None]:
    """No test of another process needs it meanwhile."""
    with claimed(fcntl.LOCK_EX):
        yield


@contextmanager
def claimed(how: int) -> Iterator[None]:
    lock = Layout.from_environment().lock.with_suffix(".tests")
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, how)
        yield
