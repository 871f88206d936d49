"""The named cases of the coordinator take the module under test, so that the mutation tests can hand in another.

A test or case whose name says `row4-…` or `row4_…` is about row 4 of docs/semantics.md: `pytest tests/protocol -m row4`.
"""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from streamjob.protocol import coordinator


@pytest.fixture
def module() -> ModuleType:
    return coordinator


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for row in set(re.findall(r"(?:\[|_)(row[0-9]+)[-_]", item.name)):
            item.add_marker(row)
