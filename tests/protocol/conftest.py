"""The named cases of the coordinator take the module under test, so that the mutation tests can hand in
another.
"""

from __future__ import annotations

from types import ModuleType

import pytest

from streamjob.protocol.engine import coordinator
from tests import patience  # noqa: F401


@pytest.fixture
def module() -> ModuleType:
    return coordinator
