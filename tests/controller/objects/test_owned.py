"""The objects that a job owns besides its pods."""

from __future__ import annotations

from streamjob.controller.objects import names, owned

from ..factories import index, job, ran, record


def test_the_index_is_another_object_for_the_api_server() -> None:
    """An unchanged object keeps its resourceVersion, and an older controller's write would still succeed."""
    written = [owned.config_map(job(status=ran(term=term)), index(record()), "20") for term in (3, 4)]
    assert written[0] != written[1]
    assert written[1]["metadata"]["annotations"] == {names.ANNOTATION_TERM: "4"}
