"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from dev.demo import evidence
from dev.demo.console import Console
from dev.demo.site import Site

from ..browser import browser, page
from .shared_volume import Storage

__all__ = ["browser", "page"]

FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def storage(cluster: Site) -> Storage:
    return Storage(cluster)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed
    return report


@pytest.fixture(autouse=True)
def show_evidence(request: pytest.FixtureRequest, cluster: Site) -> Iterator[None]:
    """A test that failed prints what there is to look at."""
    yield
    if request.node.stash.get(FAILED, False):
        evidence.show(cluster.kubectl, Console())
