"""Answers of the API server, and the errors that they mean."""

from __future__ import annotations

import json

from streamjob.controller.api_server.errors import Forbidden, NamespaceTerminating, error_of

from .test_finalizers import REFUSAL


def test_a_refusal_for_any_other_reason_is_another_error() -> None:
    ending = error_of(403, json.dumps(REFUSAL), {})
    assert isinstance(ending, NamespaceTerminating)
    other = error_of(403, json.dumps(REFUSAL | {"details": {"name": "x"}}), {})
    assert isinstance(other, Forbidden)
    assert not isinstance(other, NamespaceTerminating)
